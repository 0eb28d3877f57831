package host

import (
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// What new sprites are kept in has been tried, and sprites that begin at once begin alike.
func TestManySpritesBeginAtOnce(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.check()
}

func TestDriverIsChosenByTrying(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	d, err := w.host.layers.Driver()
	if err != nil {
		t.Fatal(err)
	}
	want := layer.Overlay
	switch {
	case layer.OnBtrfs(w.dir):
		want = layer.Btrfs
	case w.host.confiner.Confined().Plain, w.host.layers.TryDriver(d) != nil:
		want = layer.CAS
	}
	if d.Kind() != want {
		t.Errorf("driver = %s, want %s", d.Kind(), want)
	}
	if p := plainWorld(t); p.driverKind() != layer.CAS {
		t.Errorf("driver without namespaces = %s, want copies", p.driverKind())
	}
	w.check()
}

func (w *world) driverKind() layer.Kind {
	w.Helper()
	d, err := w.host.layers.Driver()
	if err != nil {
		w.Fatal(err)
	}
	return d.Kind()
}
