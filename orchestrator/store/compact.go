package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
	"github.com/spritekit/lattice/orchestrator/store/postgres"
)

// Compact rewrites the store without its free pages and returns its size in bytes before and after. A file that would not
// shrink stays. The new file is checked and on disk before it takes the old one's place, in one step; until then nothing has changed, and
// ctx may end the work. Appends wait until it ends, readers do not. It needs room for a second file, else it fails with
// ErrFull; a store with problems is refused with ErrDamaged.
// In a database its table is rewritten.
func (s *Store) Compact(ctx context.Context, progress Progress) (before, after int64, err error) {
	err = s.commits.RunAlone(ctx, func() error {
		if file, ok := s.db.(*bolt.File); ok {
			before, after, err = compaction{s.db, progress}.compactFile(ctx, file)
			return err
		}
		if before, err = s.Size(); err != nil {
			return err
		}
		if err := s.db.(*postgres.DB).Compact(ctx); err != nil {
			return fmt.Errorf("compact the store: %w", err)
		}
		after, err = s.Size()
		return err
	})
	return before, after, err
}

// compaction writes the records of a store to another file.
type compaction struct {
	from     kv.DB
	progress Progress
}

func (c compaction) compactFile(ctx context.Context, file *bolt.File) (before, after int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compact the store: %w", bolt.ClassifyError(err))
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(file.Name()), ".compact-*")
	if err != nil {
		return 0, 0, err
	}
	temp := f.Name()
	defer func() {
		if removed := os.Remove(temp); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	if err := f.Close(); err != nil {
		return 0, 0, err
	}
	if err := c.rewriteFile(ctx, temp); err != nil {
		return 0, 0, err
	}
	if err := checkCopy(ctx, temp); err != nil {
		return 0, 0, err
	}
	if before, err = file.Size(); err != nil {
		return 0, 0, err
	}
	if after, err = fileSize(temp); err != nil {
		return 0, 0, err
	}
	if after >= before {
		return before, before, nil // it is as small as it gets
	}
	return before, after, file.Replace(temp)
}

// rewriteFile copies everything into the file at path and syncs it.
func (c compaction) rewriteFile(ctx context.Context, path string) error {
	return bolt.Write(path, func(update func(func(kv.Tx) error) error) error {
		return c.from.View(func(from kv.Tx) error { return copyBuckets(ctx, from, update, c.progress) })
	})
}

// Import copies all records of another store into this one, which must be empty, in one transaction. It fails with ErrNotEmpty.
func (s *Store) Import(ctx context.Context, from *Store, progress Progress) error {
	return s.commits.Commit(ctx, &commit.Request{
		Check: func(tx kv.Tx) error {
			if tx.Bucket(bucketRuns).Sequence() > 0 || tx.Bucket(bucketAudit).Sequence() > 0 {
				return fmt.Errorf("import into %s: %w", s.db.Name(), ErrNotEmpty)
			}
			return nil
		},
		Write: func(tx kv.Tx) error {
			return from.db.View(func(records kv.Tx) error {
				return copyBuckets(ctx, records, func(write func(kv.Tx) error) error { return write(tx) }, progress)
			})
		},
	})
}

// copyBatch bounds the records of one transaction, and with them its memory.
const copyBatch = 4096

// copyBuckets copies all records. Each call of update is one transaction; values are written as this version writes them.
func copyBuckets(ctx context.Context, from kv.Tx, update func(func(kv.Tx) error) error, progress Progress) error {
	var done, all uint64
	for _, log := range [][]byte{bucketEntries, bucketAudit} { // progress counts their records: the sequences have no gaps
		all += from.Bucket(log).Sequence()
	}
	for _, name := range buckets {
		b := from.Bucket(name)
		c := b.Cursor()
		k, v := c.First()
		for first := true; first || k != nil; first = false {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := update(func(tx kv.Tx) error {
				to, err := tx.Create(name)
				if err != nil {
					return err
				}
				if err := to.SetSequence(b.Sequence()); err != nil {
					return err
				}
				for n := 0; k != nil && n < copyBatch; n++ {
					value, err := resealed(name, k, v)
					if err != nil {
						return err
					}
					if err := to.Put(k, value); err != nil {
						return err
					}
					if bytes.Equal(name, bucketEntries) || bytes.Equal(name, bucketAudit) {
						done++
					}
					k, v = c.Next()
				}
				return nil
			})
			reportProgress(progress, done, all)
			if err != nil {
				return fmt.Errorf("copy %s: %w", name, err)
			}
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

// CopyTo writes a copy of the store as it is at this moment to a new file at path, and syncs it. Appends go on.
func (s *Store) CopyTo(path string) error {
	file, ok := s.db.(*bolt.File)
	if !ok {
		return compaction{from: s.db}.rewriteFile(context.Background(), path)
	}
	if err := file.CopyTo(path); err != nil {
		return fmt.Errorf("copy the store: %w", bolt.ClassifyError(err))
	}
	return nil
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("measure the store: %w", err)
	}
	return info.Size(), nil
}
