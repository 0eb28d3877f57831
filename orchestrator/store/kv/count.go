package kv

import "sync/atomic"

// CountReads returns tx with its reads counted in n: each lookup of a key, and each step of a cursor.
func CountReads(tx Tx, n *atomic.Uint64) Tx { return countedTx{tx, n} }

type countedTx struct {
	Tx
	n *atomic.Uint64
}

func (t countedTx) Bucket(name []byte) Bucket {
	if b := t.Tx.Bucket(name); b != nil {
		return countedBucket{b, t.n}
	}
	return nil
}

type countedBucket struct {
	Bucket
	n *atomic.Uint64
}

func (b countedBucket) Get(key []byte) []byte {
	b.n.Add(1)
	return b.Bucket.Get(key)
}

func (b countedBucket) Has(key []byte) bool {
	b.n.Add(1)
	return b.Bucket.Has(key)
}

func (b countedBucket) Cursor() Cursor { return countedCursor{b.Bucket.Cursor(), b.n} }

type countedCursor struct {
	Cursor
	n *atomic.Uint64
}

func (c countedCursor) First() (key, value []byte) {
	c.n.Add(1)
	return c.Cursor.First()
}

func (c countedCursor) Last() (key, value []byte) {
	c.n.Add(1)
	return c.Cursor.Last()
}

func (c countedCursor) Seek(key []byte) (found, value []byte) {
	c.n.Add(1)
	return c.Cursor.Seek(key)
}

func (c countedCursor) Next() (key, value []byte) {
	c.n.Add(1)
	return c.Cursor.Next()
}

func (c countedCursor) Prev() (key, value []byte) {
	c.n.Add(1)
	return c.Cursor.Prev()
}
