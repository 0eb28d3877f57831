package host

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A sprite that fills the disk is ended before the disk is full, and told why; its neighbour and its files are not touched.
func TestWhoFillsTheDiskIsEnded(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {}) // without the guard's own clock
	ended := make(chan error, 2)
	for _, name := range []string{"filler", "neighbour"} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
		script := "echo ready; exec sleep 1000"
		if name == "filler" {
			script = "head -c 33554432 /dev/zero >/workspace/f; " + script
		}
		r, out := io.Pipe()
		go func() {
			_, err := w.client.Exec(t.Context(), name, sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: out})
			out.Close()
			ended <- err
		}()
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, r) // until the command ends
	}
	free := uint64(40 << 30)
	g := &fleet.DiskGuard{Fleet: w.host.fleet, Room: func() (core.Space, error) { return core.Space{Bytes: free, TotalBytes: 100 << 30}, nil }}
	w.host.core.Config.Reserve = 8 << 30
	look := func(left uint64) []string {
		t.Helper()
		free = left
		return g.Look()
	}
	for _, left := range []uint64{40 << 30, 7 << 30, 6 << 30} {
		if got := look(left); got != nil {
			t.Errorf("with %d GiB left %s is ended", left>>30, got)
		}
	}
	told := written(w.host, "filler") > 0 // of memory file systems the kernel tells nothing
	g.Written = nil                       // as if the guard began now
	got := look(1 << 30)
	if told && !slices.Equal(got, []string{"filler"}) || !told && !slices.Contains(got, "filler") {
		t.Errorf("ended are %s, want the filler", got)
	}
	if err := <-ended; err == nil {
		t.Error("the filler's command ends as if nothing was")
	}
	if got := look(2 << 30); got != nil {
		t.Errorf("with more left than before %s is ended", got)
	}
	var size strings.Builder
	if code, err := w.client.Exec(t.Context(), "filler", sprites.Exec{Cmd: []string{"sh", "-c", "wc -c </workspace/f && rm /workspace/f"}, Stdout: &size}); code != 0 || err != nil || strings.TrimSpace(size.String()) != "33554432" {
		t.Errorf("afterwards: %q, %d, %v", size.String(), code, err)
	}
	if told {
		if err := w.client.Delete(t.Context(), "neighbour"); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

func written(h *Host, name string) uint64 {
	for _, s := range h.fleet.Running() {
		if box := s.Present(); s.Name == name && box != nil {
			return box.Processes().Written()
		}
	}
	return 0
}
