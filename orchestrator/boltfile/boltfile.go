// Package boltfile is what the databases of lattice, runs.db and the sprite host's host.db, have in common: how a bbolt
// file is opened and read. Start at Options, View and Update.
//
// A transaction must not wait for anything else. A writer whose file outgrows its mapping waits until every reader has
// ended, and readers that begin meanwhile wait for that writer; a reader that waits for a lock whose holder wants to read
// thus waits for ever. So no lock is taken inside a transaction, and none begins inside another of the same file. Under
// test both panic: see Lock.
package boltfile

import (
	"time"

	"go.etcd.io/bbolt"
)

// mapped is how much of a file is mapped from the start: room in the address space, which costs neither memory nor disk.
// A file outgrows it late, and until then no writer waits for readers.
const mapped = 1 << 30

// growth is by how much a file that is full grows at least.
const growth = 1 << 20

// Options returns bbolt's options for opening a file that another process may hold for as long as patience says.
func Options(patience time.Duration) *bbolt.Options {
	return &bbolt.Options{Timeout: patience, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapped}
}

// Open is bbolt.Open.
func Open(path string, options *bbolt.Options) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, options)
	if err == nil {
		db.AllocSize = growth
	}
	return db, err
}

// View runs fn in a read transaction of db.
func View(db *bbolt.DB, fn func(*bbolt.Tx) error) error {
	defer begin(db)()
	return db.View(fn)
}

// Update runs fn in a write transaction of db.
func Update(db *bbolt.DB, fn func(*bbolt.Tx) error) error {
	defer begin(db)()
	return db.Update(fn)
}
