package host

import (
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// The list looks at how each sprite stands, which it waits for while one is being started. It must not keep a transaction
// of host.db open meanwhile: a writer whose file must grow would wait for that, and the start for the writer.
func TestTheListWaitsOutsideOfTransactions(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.store.sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.host.fleet.runtime(rec)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	listed := make(chan error, 1)
	go func() {
		_, err := w.client.List(t.Context(), "")
		listed <- err
	}()
	select {
	case err := <-listed:
		t.Errorf("the list did not look at the sprite: %v", err)
		listed <- err
	case <-time.After(200 * time.Millisecond):
	}
	if n := w.host.store.db.Stats().OpenTxN; n != 0 {
		t.Errorf("%d transactions are open while the list waits", n)
	}
	s.mu.Unlock()
	if err := <-listed; err != nil {
		t.Fatal(err)
	}
}

// No code of the host can wait for a sprite inside a transaction without a test of it panicking.
func TestSpriteLocksInsideViewsPanic(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.store.sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	for name, transact := range map[string]func(func(*bolt.Tx) error) error{"view": w.host.store.view, "update": w.host.store.update} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, told := recover().(boltfile.Misuse); !told {
					t.Error("it may wait for a sprite")
				}
			}()
			_ = transact(func(*bolt.Tx) error { w.host.fleet.state(rec); return nil })
		})
	}
}
