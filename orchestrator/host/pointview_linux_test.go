package host

import (
	"os"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
)

// A sprite looks into its last five checkpoints, and changes none. While a command runs, the view follows where the host is
// root; elsewhere, and in any case after a start, it is what the next sandbox finds.
func TestCheckpointsAreSeenInside(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Plain {
		t.Skip("a plain process tree has no mounts")
	}
	w.sprite("s")
	look := func() string {
		t.Helper()
		text, _ := w.sh("s", `cd /.sprite/checkpoints 2>/dev/null && for v in *; do [ -d "$v" ] && echo "$v=$(cat $v/workspace/f)"; done`)
		return strings.Join(strings.Fields(text), " ")
	}
	take := func(content string) {
		t.Helper()
		w.sh("s", "echo "+content+" >f")
		if _, err := w.client.Checkpoint(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range []string{"a", "b", "c"} {
		take(content)
	}
	if got := look(); got != "v1=a v2=b v3=c" {
		t.Fatalf("inside: %q", got)
	}
	for name, script := range map[string]string{"write": "echo x >/.sprite/checkpoints/v1/workspace/f", "remove": "rm /.sprite/checkpoints/v1/workspace/f", "rename": "mv /.sprite/checkpoints/v1 /.sprite/checkpoints/v9"} {
		if text, code := w.sh("s", script+" 2>&1"); code == 0 {
			t.Errorf("%s: succeeds: %s", name, text)
		}
	}

	// With a command that goes on.
	out := w.whileRunning(func() string {
		for _, content := range []string{"d", "e", "f"} {
			take(content)
		}
		if err := w.client.DeleteCheckpoint(t.Context(), "s", "v4"); err != nil {
			t.Fatal(err)
		}
		return look()
	})
	const now = "v1=a v2=b v3=c v5=e v6=f"
	if os.Getuid() == 0 && out != now {
		t.Errorf("while a command runs: %q, want %q", out, now)
	}
	if err := w.host.runningSprite("s").Stop(); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != now {
		t.Errorf("after a start: %q, want %q", got, now)
	}
}

func (h *Host) runningSprite(name string) *fleet.Sprite {
	for _, s := range h.fleet.Running() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
