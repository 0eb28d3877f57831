package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/spritekit/durable"
)

// SchemaVersion is the layout that this version writes and the newest it reads. A change of it comes with a step that
// turns the former layout into the new one, in prepare.
const SchemaVersion = 3

// createFile makes an empty store at path, whole or not at all.
func createFile(path string) (err error) {
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
	db, err = boltfile.Open(path, boltfile.Options{Layout: boltfile.Flat, Patience: patience, ReadOnly: readOnly})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, classifyError(err))
	}
	if err := recoverPanic(func() error { return createBuckets(db) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), recoverPanic(db.Close))
	}
	return db, nil
}

// createBuckets checks the version. An old layout is brought up to date here, step by step, in one transaction:
//
//	1 → 2  values get seals. Those that are there stay as they are and are read without; compacting seals them. There are
//	       indexes of runs.
//	2 → 3  there is an audit log.
//
// The file as it was is kept next to it, for the lattice that wrote it. A file that is open for reading only stays as it is.
func createBuckets(db *bbolt.DB) error {
	have, err := schemaOf(db)
	if err != nil {
		return err
	}
	if have > SchemaVersion {
		return fmt.Errorf("%w: it has schema %d, this version reads up to %d: use the lattice that wrote it", ErrNewer, have, SchemaVersion)
	}
	if have == SchemaVersion && hasIndexes(db) || db.IsReadOnly() {
		return nil
	}
	if have < SchemaVersion {
		if err := keepFormer(db, have); err != nil {
			return fmt.Errorf("keep the store as it is, before it is brought up to date: %w", classifyError(err))
		}
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion)); err != nil {
			return err
		}
		return makeIndexes(tx)
	})
	if err != nil {
		return fmt.Errorf("bring the store up to date: %w", classifyError(err))
	}
	return nil
}

// keepFormer copies a file with an old layout to path.schemaN. It replaces an earlier copy.
func keepFormer(db *bbolt.DB, version uint64) error {
	kept := fmt.Sprintf("%s.schema%d", db.Path(), version)
	part := kept + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeCopy(db.View, part); err != nil {
		return err
	}
	return errors.Join(os.Rename(part, kept), durable.SyncDir(filepath.Dir(kept)))
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
			if tx.Bucket(name) == nil && !isIndex(name) && (version >= 3 || !bytes.Equal(name, bucketAudit)) {
				return fmt.Errorf("%w: it has no %s", ErrDamaged, name)
			}
		}
		return nil
	})
	return version, err
}

// recoverPanic is boltfile.Contain with an error that callers decide by.
func recoverPanic(work func() error) error {
	err := boltfile.Contain(work)
	if errors.Is(err, boltfile.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// classifyError adds the error that callers decide by to one of the system's or of the file's.
func classifyError(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) { // bbolt does not wrap them all
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	switch {
	case errors.Is(err, boltfile.ErrHeld):
		return fmt.Errorf("%w by another process: use that lattice through its socket, or end it", ErrLocked)
	case errors.Is(err, boltfile.ErrDamaged):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
