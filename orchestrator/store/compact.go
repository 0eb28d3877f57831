package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Compact rewrites the store without its free pages and returns its size in bytes before and after. A file that would not
// shrink stays. The new file is checked and on disk before it takes the old one's place, in one step; until then nothing has changed, and
// ctx may end the work. Appends wait until it ends, readers do not. It needs room for a second file, else it fails with
// ErrFull; a store with problems is refused with ErrDamaged.
func (s *Store) Compact(ctx context.Context, progress Progress) (before, after int64, err error) {
	err = s.runAlone(ctx, func() error {
		before, after, err = s.compactFile(ctx, progress)
		return err
	})
	return before, after, err
}

func (s *Store) compactFile(ctx context.Context, progress Progress) (before, after int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(s.path), ".compact-*")
	if err != nil {
		return 0, 0, classifyError(fmt.Errorf("compact the store: %w", err))
	}
	temp := f.Name()
	defer func() {
		if removed := os.Remove(temp); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	if err := f.Close(); err != nil {
		return 0, 0, classifyError(fmt.Errorf("compact the store: %w", err))
	}
	if err := s.rewriteFile(ctx, temp, progress); err != nil {
		return 0, 0, classifyError(fmt.Errorf("compact the store: %w", err))
	}
	if err := checkCopy(ctx, temp); err != nil {
		return 0, 0, fmt.Errorf("compact the store: %w", err)
	}
	if before, err = fileSize(s.path); err != nil {
		return 0, 0, err
	}
	if after, err = fileSize(temp); err != nil {
		return 0, 0, err
	}
	if after >= before {
		return before, before, nil // it is as small as it gets
	}
	return before, after, s.replaceFile(temp)
}

// rewriteFile copies everything into the file at path and syncs it.
func (s *Store) rewriteFile(ctx context.Context, path string, progress Progress) (err error) {
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err == nil {
			err = boltfile.CutSlack(path)
		}
	}()
	err = s.viewFile(func(from *bbolt.Tx) error {
		var done, all uint64
		for _, name := range buckets {
			all += uint64(from.Bucket(name).Stats().KeyN)
		}
		for _, name := range buckets {
			err := copyBucket(ctx, to, from.Bucket(name), name, func() {
				if done++; done%4096 == 0 {
					reportProgress(progress, done, all)
				}
			})
			if err != nil {
				return fmt.Errorf("copy %s: %w", name, err)
			}
		}
		return nil
	})
	return err
}

// copyBatch bounds the records of one transaction, and with them its memory.
const copyBatch = 4096

func copyBucket(ctx context.Context, to *bbolt.DB, from *bbolt.Bucket, name []byte, copied func()) error {
	c := from.Cursor()
	k, v := c.First()
	for first := true; first || k != nil; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := to.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			if err := b.SetSequence(from.Sequence()); err != nil {
				return err
			}
			b.FillPercent = 0.95 // keys come in order
			for n := 0; k != nil && n < copyBatch; n++ {
				value, err := resealed(name, k, v)
				if err != nil {
					return err
				}
				if err := b.Put(k, value); err != nil {
					return err
				}
				copied()
				k, v = c.Next()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCopy fails with ErrDamaged unless the store at path is sound.
func checkCopy(ctx context.Context, path string) error {
	s, err := OpenReadOnly(path)
	if err != nil {
		return err
	}
	problems, err := s.Check(ctx, nil)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w: %s", ErrDamaged, problems[0])
	}
	return errors.Join(err, s.Close())
}

// replaceFile puts the file at temp in the store's place.
func (s *Store) replaceFile(temp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := recoverPanic(s.db.Close); err != nil {
		s.db, s.cause = nil, err
		return fmt.Errorf("close store: %w", err)
	}
	err := os.Rename(temp, s.path)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(s.path))
	}
	db, failed := openFile(s.path, reopenPatience, false)
	s.db, s.cause = db, failed
	return errors.Join(err, failed)
}

// CopyTo writes a copy of the store as it is at this moment to a new file at path, and syncs it. Appends go on.
func (s *Store) CopyTo(path string) error {
	if err := writeCopy(s.viewFile, path); err != nil {
		return classifyError(fmt.Errorf("copy the store: %w", err))
	}
	return nil
}

// writeCopy writes the database that view reads to a new file at path, whole or not at all, and syncs it.
func writeCopy(view func(func(*bbolt.Tx) error) error, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	err = view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	return errors.Join(err, f.Sync())
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("measure the store: %w", err)
	}
	return info.Size(), nil
}
