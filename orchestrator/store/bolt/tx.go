package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// transaction and bucket hold one pointer each, so that they are interfaces without an allocation.
type transaction struct{ tx *bbolt.Tx }

type bucket struct{ *bbolt.Bucket }

func (t transaction) Bucket(name []byte) kv.Bucket {
	b := t.tx.Bucket(name)
	if b == nil {
		return nil
	}
	if t.tx.Writable() {
		b.FillPercent = fillPercent(name)
	}
	return bucket{b}
}

func (t transaction) Create(name []byte) (kv.Bucket, error) {
	b, err := t.tx.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, err
	}
	b.FillPercent = fillPercent(name)
	return bucket{b}, nil
}

func (t transaction) Fetch(...kv.Key) {} // a Get reads memory

// fillPercent returns how full pages of a bucket are made. Keys of some only rise, in the logs strictly.
func fillPercent(name []byte) float64 {
	switch string(name) {
	case "entries", "audit":
		return 1
	case "index", "order":
		return 0.9
	}
	return bbolt.DefaultFillPercent
}

// ordered is a transaction that puts the keys of all buckets in order.
type ordered struct{ transaction }

func (t ordered) Create(name []byte) (kv.Bucket, error) {
	b, err := t.tx.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, err
	}
	b.FillPercent = 0.95
	return bucket{b}, nil
}

func (b bucket) Has(key []byte) bool {
	found, _ := b.Bucket.Cursor().Seek(key)
	return bytes.Equal(found, key)
}

func (b bucket) Cursor() kv.Cursor { return b.Bucket.Cursor() }
