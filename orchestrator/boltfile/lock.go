package boltfile

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

// Lock is a mutex that is never taken inside a transaction. Under test doing so panics, whether or not another goroutine
// holds it at that moment.
type Lock struct{ mu sync.Mutex }

// Lock locks l.
func (l *Lock) Lock() {
	if under := openFiles(); len(under) > 0 {
		panic(Misuse("a lock is taken inside a transaction of " + under[0].Path()))
	}
	l.mu.Lock()
}

// Unlock unlocks l.
func (l *Lock) Unlock() { l.mu.Unlock() }

// Misuse is the value of a panic that reports a bug of the program, not a damaged file.
type Misuse string

// transactions holds, under test, the files with an open transaction by goroutine. Each goroutine changes its own only.
var transactions sync.Map // string → []*bbolt.DB

// openFiles returns the files of which the calling goroutine has a transaction open.
func openFiles() []*bbolt.DB {
	if !testing.Testing() {
		return nil
	}
	dbs, _ := transactions.Load(goroutineName())
	under, _ := dbs.([]*bbolt.DB)
	return under
}

// trackTransaction notes that the calling goroutine begins a transaction, until the returned func is called.
func trackTransaction(db *bbolt.DB) (end func()) {
	if !testing.Testing() {
		return func() {}
	}
	id, under := goroutineName(), openFiles()
	if slices.Contains(under, db) {
		panic(Misuse("a transaction begins inside another one of " + db.Path()))
	}
	transactions.Store(id, append(slices.Clip(under), db))
	return func() {
		if len(under) == 0 {
			transactions.Delete(id)
			return
		}
		transactions.Store(id, under)
	}
}

// goroutineName names the calling goroutine.
func goroutineName() string {
	buf := make([]byte, 64) // "goroutine 18 [running]:…"
	name, _, _ := bytes.Cut(buf[:runtime.Stack(buf, false)], []byte(" ["))
	return string(name)
}
