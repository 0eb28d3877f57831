package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/durable"
)

// SchemaVersion is the layout that this version writes and the newest it reads. A change of it comes with a step that
// turns the former layout into the new one, in prepare.
const SchemaVersion = 2

// create makes an empty store at path, whole or not at all.
func create(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create store folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-store-*")
	if err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := f.Close(); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	db, err := bbolt.Open(f.Name(), 0o600, nil)
	if err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	if err := errors.Join(db.Update(layOut), db.Close()); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create store: %w", err)
	}
	return durable.SyncDir(dir)
}

func layOut(tx *bbolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion))
}

// openFile opens a store that is there. It is looked at first, under its lock, because bbolt does not survive what it
// does not expect; a file that is refused was not written to.
func openFile(path string, patience time.Duration, readOnly bool) (db *bbolt.DB, err error) {
	options := boltfile.Options(patience)
	options.ReadOnly = readOnly
	options.OpenFile = func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := lockAndLook(f, patience, readOnly); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	err = contain(func() (err error) {
		db, err = boltfile.Open(path, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, classify(err))
	}
	if err := contain(func() error { return prepare(db) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), contain(db.Close))
	}
	return db, nil
}

func lockAndLook(f *os.File, patience time.Duration, shared bool) error {
	if err := lock(f, patience, shared); err != nil {
		return err
	}
	var c checker
	if err := look(f, false, nil, c.page); err != nil {
		return err
	}
	if len(c.problems) > 0 {
		return fmt.Errorf("%w: %s", ErrDamaged, c.problems[0].Message)
	}
	return nil
}

// lock takes bbolt's lock before bbolt does.
func lock(f *os.File, patience time.Duration, shared bool) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock: %w", err)
		case time.Now().After(deadline):
			return bolterrors.ErrTimeout
		}
	}
}

// look reports what is wrong with the pages of a file.
func look(f *os.File, deep bool, progress Progress, report func(format string, args ...any)) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("look at the file: %w", err)
	case !info.Mode().IsRegular():
		report("it is no regular file")
	case info.Size() == 0:
		report("the file is empty")
	default:
		return walkPages(f, info.Size(), deep, progress, report)
	}
	return nil
}

// prepare checks the version. An old layout is brought up to date here, step by step, in one transaction:
//
//	1 → 2  values get seals. Those that are there stay as they are and are read without; compacting seals them.
//
// A file that is open for reading only stays as it is.
func prepare(db *bbolt.DB) error {
	have, err := schemaOf(db)
	if err != nil {
		return err
	}
	if have > SchemaVersion {
		return fmt.Errorf("%w: it has schema %d, this version reads up to %d: use the lattice that wrote it", ErrNewer, have, SchemaVersion)
	}
	if have == SchemaVersion || db.IsReadOnly() {
		return nil
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion)) })
	if err != nil {
		return fmt.Errorf("bring the store up to date: %w", classify(err))
	}
	return nil
}

// schemaOf is the version of the file's layout.
func schemaOf(db *bbolt.DB) (uint64, error) {
	var version uint64
	err := db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return fmt.Errorf("%w: the file is a bbolt database but not a store of lattice", ErrDamaged)
		}
		raw := meta.Get(keySchema)
		if len(raw) != 8 || binary.BigEndian.Uint64(raw) == 0 {
			return fmt.Errorf("%w: it has no schema version", ErrDamaged)
		}
		if version = binary.BigEndian.Uint64(raw); version > SchemaVersion {
			return nil
		}
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: it has no %s", ErrDamaged, name)
			}
		}
		return nil
	})
	return version, err
}

// contain turns what bbolt does with damaged pages, panics and faults in mapped memory, into ErrDamaged.
func contain(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		broken := recover()
		if mistake, ours := broken.(boltfile.Misuse); ours {
			panic(mistake)
		}
		if broken != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, broken)
		}
	}()
	return work()
}

// classify adds the error that callers decide by to one of the system's or of bbolt's.
func classify(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) { // bbolt does not wrap them all
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w by another process: use that lattice through its socket, or end it", ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
