package boltfile_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

func open(t *testing.T, name string) *bbolt.DB {
	t.Helper()
	db, err := boltfile.Open(filepath.Join(t.TempDir(), name), boltfile.Options{Layout: boltfile.Flat, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestLocksAndTransactionsInsideATransactionPanic(t *testing.T) {
	db, other := open(t, "a.db"), open(t, "b.db")
	var l boltfile.Lock
	take := func() {
		l.Lock()
		defer l.Unlock()
	}
	nothing := func(*bbolt.Tx) error { return nil }
	type transact = func(*bbolt.DB, func(*bbolt.Tx) error) error
	for name, tc := range map[string]struct {
		outer transact
		inner func()
		wrong bool
	}{
		"lock in a view":            {boltfile.View, take, true},
		"lock in an update":         {boltfile.Update, take, true},
		"view in a view":            {boltfile.View, func() { _ = boltfile.View(db, nothing) }, true},
		"view in an update":         {boltfile.Update, func() { _ = boltfile.View(db, nothing) }, true},
		"update in a view":          {boltfile.View, func() { _ = boltfile.Update(db, nothing) }, true},
		"update of another file":    {boltfile.View, func() { _ = boltfile.Update(other, nothing) }, false},
		"lock by another goroutine": {boltfile.View, func() { apart(take) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				_, wrong := recover().(boltfile.Misuse)
				if wrong != tc.wrong {
					t.Errorf("panicked for misuse: %v, want %v", wrong, tc.wrong)
				}
				l.Lock() // and outside of transactions all is well again
				defer l.Unlock()
				if err := boltfile.View(db, nothing); err != nil {
					t.Error(err)
				}
			}()
			_ = tc.outer(db, func(*bbolt.Tx) error { tc.inner(); return nil })
		})
	}
}

func apart(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

// A writer does not wait for a reader when the file grows, not to 64 MiB at least.
func TestGrowingWaitsForNoReader(t *testing.T) {
	db := open(t, "grows.db")
	tx, err := db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		value := make([]byte, 1<<20)
		for i := range 64 {
			err := boltfile.Update(db, func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte("b"))
				if err != nil {
					return err
				}
				return b.Put([]byte{byte(i)}, value)
			})
			if err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	select {
	case err = <-written:
	case <-time.After(30 * time.Second):
		t.Error("a writer waits for a reader")
	}
	if rolled := tx.Rollback(); err != nil || rolled != nil {
		t.Fatal(err, rolled)
	}
}
