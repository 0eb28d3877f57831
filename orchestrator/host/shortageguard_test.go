package host

import (
	"io"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A sprite that takes most of what the kernel has for all is ended and told why, when there is none left; its neighbour is not
// touched, and neither is it when sprites hold little of it.
func TestWhoHoardsIsEnded(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	ended := make(chan error, 2)
	for _, name := range []string{"hoarder", "neighbour"} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
		script := "echo ready; exec sleep 1000"
		if name == "hoarder" {
			script = "ulimit -n 400; n=0; while [ $n -lt 300 ] && exec {f}</dev/null; do n=$((n+1)); done; " + script
		}
		r, out := io.Pipe()
		go func() {
			_, err := w.client.Exec(t.Context(), name, sprites.Exec{Cmd: []string{"bash", "-c", script}, Stdout: out})
			out.Close()
			ended <- err
		}()
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, r) // until the command ends
	}
	g := &fleet.ShortageGuard{Fleet: w.host.fleet, Room: sandbox.Held{Files: 10_000, Entries: 10_000}, Reserve: sandbox.NewReserve()}
	if name := g.Look(); name != "" {
		t.Errorf("with plenty left %s is ended", name)
	}
	g.Room.Files = 500
	if name := g.Look(); name != "hoarder" {
		t.Errorf("ended is %q, want the hoarder", name)
	}
	if err := <-ended; err == nil {
		t.Error("the hoarder's command ends as if nothing was")
	}
	if name := g.Look(); name != "" {
		t.Errorf("afterwards %s is ended", name)
	}
	for _, name := range []string{"hoarder", "neighbour"} {
		if code, err := w.client.Exec(t.Context(), name, sprites.Exec{Cmd: []string{"true"}}); code != 0 || err != nil {
			t.Errorf("%s afterwards: %d, %v", name, code, err)
		}
	}
	if err := w.client.Delete(t.Context(), "neighbour"); err != nil {
		t.Error(err)
	}
	<-ended
}
