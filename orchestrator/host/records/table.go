package records

import (
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// table is a bucket of host.db. Every value carries a checksum, of the table's place and the key as well, which is verified
// when it is read.
type table struct {
	*bolt.Bucket
	place []byte // its name, with that of the bucket it lies in
	old   bool   // its file was written by a version without checksums
}

// openTable returns the bucket of a name, and below it those of further names. Bucket is nil where there is none.
func openTable(tx *bolt.Tx, name []byte, below ...string) table {
	t := table{Bucket: tx.Bucket(name), place: name}
	for _, id := range below {
		if t.Bucket != nil {
			t = t.nestedTable(id)
		}
	}
	return t
}

func (t table) nestedTable(id string) table {
	t.Bucket, t.place = t.Bucket.Bucket([]byte(id)), fmt.Appendf(nil, "%s/%s", t.place, id)
	return t
}

// Put seals content.
func (t table) Put(key, content []byte) error {
	return t.Bucket.Put(key, boltfile.Seal(t.place, key, content))
}

// Get returns nil for a key that is not there.
func (t table) Get(key []byte) ([]byte, error) {
	value := t.Bucket.Get(key)
	if value == nil {
		return nil, nil
	}
	return t.open(key, value)
}

func (t table) open(key, value []byte) ([]byte, error) {
	if t.old {
		return value, nil
	}
	return boltfile.Unseal(t.place, key, value)
}

// ForEach calls fn for each value, in the order of keys. Buckets in t are left out.
func (t table) ForEach(fn func(key, content []byte) error) error {
	return t.Bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return nil
		}
		content, err := t.open(key, value)
		if err != nil {
			return err
		}
		return fn(key, content)
	})
}

func (t table) putJSON(key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.Put(key, data)
}

// getRecord decodes the record with a key. It returns the error missing if there is none. Errors name the kind of the record.
func getRecord[T any](t table, key, kind string, missing error) (rec T, err error) {
	data, err := t.Get([]byte(key))
	switch {
	case err != nil:
		return rec, err
	case data == nil:
		return rec, missing
	}
	return rec, decodeRecord(data, &rec, kind, key)
}

func decodeRecord(data []byte, rec any, kind, key string) error {
	if err := json.Unmarshal(data, rec); err != nil {
		return fmt.Errorf("%w: record of %s %q: %w", ErrDamaged, kind, key, err)
	}
	return nil
}

// listRecords decodes all records of a table, in the order of keys.
func listRecords[T any](t table, kind string) (all []T, err error) {
	err = t.ForEach(func(key, content []byte) error {
		var rec T
		err := decodeRecord(content, &rec, kind, string(key))
		all = append(all, rec)
		return err
	})
	return all, err
}

// keySealed is there in a file whose values have checksums.
var keySealed = []byte("sealed")

// sealAll gives every value of an older file its checksum.
func sealAll(tx *bolt.Tx) error {
	meta := openTable(tx, bucketMeta)
	if mark, err := meta.Get(keySealed); mark != nil || err != nil {
		return err
	}
	if err := tx.ForEach(func(name []byte, b *bolt.Bucket) error { return table{Bucket: b, place: name, old: true}.sealValues() }); err != nil {
		return err
	}
	return meta.Put(keySealed, []byte("1"))
}

// sealValues seals the values of a table and of those in it. A value that is sealed already says that the mark of the file is lost.
func (t table) sealValues() error {
	contents := map[string][]byte{}
	err := t.Bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return t.nestedTable(string(key)).sealValues()
		}
		if _, err := boltfile.Unseal(t.place, key, value); err == nil {
			return fmt.Errorf("%w: %s %q has a checksum, and the file does not say so", ErrDamaged, t.place, key)
		}
		contents[string(key)] = value
		return nil
	})
	for key, content := range contents {
		err = errors.Join(err, t.Put([]byte(key), content))
	}
	return err
}

// hasSums reports whether the values of a file have checksums. One that lost its mark has them.
func hasSums(tx *bolt.Tx) bool {
	if meta := tx.Bucket(bucketMeta); meta != nil && meta.Get(keySealed) != nil {
		return true
	}
	errSealed := errors.New("sealed")
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return table{Bucket: b, place: name}.findSeal(errSealed) }) != nil
}

func (t table) findSeal(found error) error {
	return t.Bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return t.nestedTable(string(key)).findSeal(found)
		}
		if _, err := boltfile.Unseal(t.place, key, value); err == nil {
			return found
		}
		return nil
	})
}
