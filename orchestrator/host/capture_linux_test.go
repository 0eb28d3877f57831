package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// A sandbox that ends just as a checkpoint is about to hold its processes keeps nothing back.
func TestCheckpointWhileTheSandboxEnds(t *testing.T) {
	end := func() {}
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop(), Reserve: -1}, func(step string) {
		if step == "holding" {
			end()
		}
	})
	w.sprite("s")
	w.write("kept")
	ended := false
	id := w.whileRunning(func() string {
		rec, err := w.host.core.Store.Sprite("s")
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.host.fleet.Runtime(rec)
		if err != nil {
			t.Fatal(err)
		}
		end = func() { ended = s.Present().StopFor(errors.New("ended by the test")) == nil }
		defer func() { end = func() {} }()
		return w.checkpoint()
	})
	if !ended {
		t.Fatal("the sandbox did not end before it was held")
	}
	w.write("changed")
	if err := w.client.Restore(t.Context(), "s", id); err != nil {
		t.Fatal(err)
	}
	if got := w.state(); !strings.HasPrefix(got, "kept") {
		t.Errorf("restored, the sprite holds %q", got)
	}
	w.check()
}

// Ending a sandbox and starting another takes longer than copying a few files, and whoever looks sees the checkpoint at once.
func TestCheckpointOfLittleKeepsTheSandbox(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Level() != spec.LevelRoot || w.driverKind() != layer.Overlay {
		t.Skip("only sandboxes made by root on overlays are shown checkpoints while they run")
	}
	w.sprite("s")
	for _, step := range []struct {
		name, script string
		kept         bool
	}{
		{"first", "echo 1 >f; ln f g; mkdir -p d/e; echo x >d/e/x", true},
		{"change", "echo 2 >>g; rm -r d; mkdir d", true},
		{"many", "i=0; while [ $i -lt 100 ]; do echo $i >m$i; i=$((i+1)); done", false},
		{"after many", "rm m*; echo 3 >>f", false}, // a hundred whiteouts
		{"little again", "echo 4 >>g", true},
		{"large", "head -c 4000000 /dev/urandom >large", false},
	} {
		w.do("s", step.script)
		seen := w.do("s", listFiles)
		before := w.host.runningSprite("s").Present()
		id := w.checkpoint()
		if kept := w.host.runningSprite("s").Present() == before; kept != step.kept {
			t.Errorf("%s: the sandbox was kept: %v, want %v", step.name, kept, step.kept)
		}
		if inside := w.do("s", "cd /.sprite/checkpoints/"+id+"; cat workspace/f"); inside != w.do("s", "cat f") {
			t.Errorf("%s: inside the checkpoint shows %q", step.name, inside)
		}
		w.do("s", "echo later >f; rm -r d")
		if err := w.client.Restore(t.Context(), "s", id); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(seen, w.do("s", listFiles)); diff != "" {
			t.Errorf("%s: restored (-want +got):\n%s", step.name, diff)
		}
	}
	w.check()
}
