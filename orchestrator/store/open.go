package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// SchemaVersion is the layout that this version writes and the newest it reads. A change of it comes with a step that
// turns the former layout into the new one, in prepare.
const SchemaVersion = 3

func layOut(tx kv.Tx) error {
	for _, name := range buckets {
		if _, err := tx.Create(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion))
}

// UpdateMeta changes the bucket of values about the store as a whole, in one transaction.
func UpdateMeta(ctx context.Context, s *Store, write func(meta kv.Bucket) error) error {
	return s.commits.Commit(ctx, &commit.Request{Check: func(kv.Tx) error { return nil }, Write: func(tx kv.Tx) error { return write(tx.Bucket(bucketMeta)) }})
}

// prepareDatabase lays out a database that has no buckets yet, else it checks the version.
func prepareDatabase(db kv.Session) error {
	err := db.View(func(tx kv.Tx) error {
		if tx.Bucket(bucketMeta) == nil {
			return errEmpty
		}
		return nil
	})
	if errors.Is(err, errEmpty) {
		err = db.Update(func(tx kv.Tx) error {
			if tx.Bucket(bucketMeta) != nil {
				return nil // another process was first
			}
			return layOut(tx)
		})
	}
	if err != nil {
		return err
	}
	return createBuckets(db)
}

var errEmpty = errors.New("the database is empty")

// createBuckets checks the version. An old layout is brought up to date here, step by step, in one transaction:
//
//	1 → 2  values get seals. Those that are there stay as they are and are read without; compacting seals them. There are
//	       indexes of runs.
//	2 → 3  there is an audit log.
//
// The file as it was is kept next to it, for the lattice that wrote it. A file that is open for reading only stays as it is.
func createBuckets(db kv.Session) error {
	have, err := schemaOf(db)
	if err != nil {
		return err
	}
	if have > SchemaVersion {
		return fmt.Errorf("%w: it has schema %d, this version reads up to %d: use the lattice that wrote it", ErrNewer, have, SchemaVersion)
	}
	if have == SchemaVersion && hasIndexes(db) || db.ReadOnly() {
		return nil
	}
	if have < SchemaVersion {
		if err := db.Keep(fmt.Sprintf("schema%d", have)); err != nil {
			return fmt.Errorf("keep the store as it is, before it is brought up to date: %w", err)
		}
	}
	err = db.Update(func(tx kv.Tx) error {
		if err := tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion)); err != nil {
			return err
		}
		return makeIndexes(tx)
	})
	if err != nil {
		return fmt.Errorf("bring the store up to date: %w", err)
	}
	return nil
}

// schemaOf is the version of the file's layout.
func schemaOf(db kv.Session) (uint64, error) {
	var version uint64
	err := db.View(func(tx kv.Tx) error {
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
