package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// TestLoopLosesConnection: the connection to a remote sprite is lost while an agent works, and the host cannot be reached. The loop is
// interrupted, which is no iteration and never done. When the host is there again, the loop takes the agent's answer: it worked once.
func TestLoopLosesConnection(t *testing.T) {
	t.Parallel()
	r := newRemote(t, map[string]string{"state": "broken\n", "check.sh": "grep -q fixed state\n", "agent.sh": `L=/workspace/.lattice/loop
echo ran >>runs; echo fixed >state; echo half-way
echo '[{"description":"fix it","passes":true}]' >$L/tasks.json
echo '{"status":"DONE","summary":"fixed"}' >$L/state.json
`})
	var gone, agent atomic.Bool
	r.man.Do(Fault{On: func(*http.Request) bool { return gone.Load() }, Times: -1, Instead: Cut})
	r.man.Do(Fault{On: func(q *http.Request) bool { return Exec(q) && strings.Contains(q.URL.Query().Get("path"), "agent.run") }, Times: -1,
		Down: func(f Frame, send func(Frame)) bool {
			if strings.Contains(string(f.Data), "half-way") {
				agent.Store(true)
				gone.Store(true)
			}
			if gone.Load() {
				return false
			}
			send(f)
			return true
		}})
	spec := filepath.Join(r.home, "spec.md")
	if err := os.WriteFile(spec, []byte("Fix it."), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := r.lattice(t, "loop", "start", "--repo", r.repo, "--spec", spec, "--agent-command", "sh agent.sh", "--verify", "sh check.sh", "--name", "far")
	if code != 130 || !agent.Load() || !strings.Contains(out, "broke") {
		t.Fatalf("exit code %d, and the agent began: %t\n%s", code, agent.Load(), out)
	}
	code, out = r.lattice(t, "loop", "status", "far", "--exit-code")
	if code != 130 || !strings.HasPrefix(out, "far  interrupted") || strings.Contains(out, "DECISION") {
		t.Errorf("a loop whose connection was lost: exit code %d\n%s", code, out)
	}
	gone.Store(false)
	code, out = r.lattice(t, "loop", "resume", "far")
	if code != 0 || !strings.Contains(out, "far  done") {
		t.Errorf("with the host back: exit code %d\n%s", code, out)
	}
	if code, out = r.lattice(t, "loop", "done", "far", "--yes"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	branch := r.git(t, "branch", "--list", "--format=%(refname:short)", "lattice/*")
	if got := r.git(t, "show", branch+":runs"); got != "ran" {
		t.Errorf("the agent ran %q, want once", got)
	}
}
