// Package kv is the seam between the store and the database that holds its records: ordered buckets of keys and values, in
// transactions. The logic of the store is written once, against Tx; a driver brings the transactions. Start with Tx and DB.
//
// A driver has many readers, each of which sees one moment, and one writer at a time, which sees its own writes. Methods for
// reading return no error, as those of bbolt: a driver that fails during a transaction answers as if nothing were there, and the
// transaction as a whole fails with the reason.
//
// Keys and values that a transaction returns belong to it: they must not be changed, and not be used after its end.
package kv

// Tx is a transaction.
type Tx interface {
	// Bucket returns the bucket with a name, nil if there is none.
	Bucket(name []byte) Bucket
	// Create returns the bucket with a name, and makes it if there is none. It is for transactions that write.
	Create(name []byte) (Bucket, error)
	// Fetch reads values ahead in one request. A driver whose Get is cheap does nothing.
	Fetch(keys ...Key)
}

// Key is the place of a value.
type Key struct{ Bucket, Key []byte }

// Bucket is an ordered map of keys to values, with a sequence number.
type Bucket interface {
	Get(key []byte) []byte // nil if there is no such key
	Has(key []byte) bool   // also with an empty value
	Put(key, value []byte) error
	Delete(key []byte) error
	Cursor() Cursor
	Sequence() uint64
	NextSequence() (uint64, error)
	SetSequence(n uint64) error
}

// Cursor moves over the keys of a bucket, in order. At the ends it returns a nil key.
type Cursor interface {
	First() (key, value []byte)
	Last() (key, value []byte)
	Seek(key []byte) (found, value []byte) // the first key that is not less
	Next() (key, value []byte)
	Prev() (key, value []byte)
}

// Session is a database while it is open.
type Session interface {
	// View runs a transaction that reads.
	View(read func(Tx) error) error
	// Update runs a transaction that writes, and commits it. An error of write undoes it and is returned.
	Update(write func(Tx) error) error
	ReadOnly() bool
	// Keep keeps a copy of a database before its layout changes. suffix names the copy.
	Keep(suffix string) error
}

// DB is a database of a driver. It is safe for concurrent use.
type DB interface {
	Session
	// Name says in errors which database it is. It holds no password.
	Name() string
	// Reopen opens the database again after an error of Update other than that of write: nothing that is in memory is to be
	// trusted then.
	Reopen() error
	// Check reports damage below the records. It fails if it cannot look.
	Check(progress func(done, of uint64), report func(format string, args ...any)) error
	// Size returns how many bytes it takes.
	Size() (int64, error)
	Close() error
}

// ForEach calls visit for each key of a bucket, in order, until visit fails.
func ForEach(b Bucket, visit func(key, value []byte) error) error {
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := visit(k, v); err != nil {
			return err
		}
	}
	return nil
}
