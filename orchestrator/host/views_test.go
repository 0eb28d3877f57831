package host

import (
	"errors"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// The list looks at how each sprite stands, which it waits for while one is being started. It must not keep a transaction
// of host.db open meanwhile: a writer whose file must grow would wait for that, and the start for the writer.
func TestTheListWaitsOutsideOfTransactions(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.host.fleet.Runtime(rec)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	locked, unlocked := make(chan struct{}), make(chan error, 1)
	go func() {
		unlocked <- s.ChangeTasks(func(map[string]fleet.Task, time.Time) error {
			close(locked)
			<-release
			return nil
		})
	}()
	<-locked
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
	if n := w.host.core.Store.OpenReads(); n != 0 {
		t.Errorf("%d transactions are open while the list waits", n)
	}
	close(release)
	if err := errors.Join(<-listed, <-unlocked); err != nil {
		t.Fatal(err)
	}
}

// No code of the host can wait for a sprite inside a transaction without a test of it panicking.
func TestSpriteLocksInsideTransactionsPanic(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, told := recover().(boltfile.Misuse); !told {
			t.Error("it may wait for a sprite")
		}
	}()
	_, _ = w.host.core.Store.UpdateSprite("s", func(*records.Sprite) { w.host.fleet.State(rec) })
}
