package leader_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const askOften = `{"execir_version":"1.0","id":"often","tools":[],"entry_node":"ask","nodes":[
	{"id":"ask","op":"HUMAN","prompt":"Go on?","expected_inputs":{"approved":"boolean","comments":"string"}},{"id":"end","op":"PACK","inputs":{"done":true}}],
	"edges":[{"from":"ask","to":"ask","max_traversals":3,"when":{"op":"exists","ref":"$ctx.run_id"}},{"from":"ask","to":"end","when":{"op":"otherwise"}}]}`

// Asking for forks again, with one key, goes on from the moment that was meant first, whatever the run has done since.
func TestForkAgain(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	id := start(t, l, askOften, "")
	watch(t, l, id, "")
	req := api.ForkRequest{Key: "abcdefghij234567", At: "ask", N: 1}
	one, err := l.Fork(t.Context(), id, req)
	if err != nil || len(one) != 1 {
		t.Fatalf("Fork = %+v, %v", one, err)
	}
	if _, err := l.Decide(t.Context(), id, api.DecideRequest{Decision: lattice.Approve}); err != nil {
		t.Fatal(err)
	}
	watch(t, l, id, "")
	req.N = 3
	all, err := l.Fork(t.Context(), id, req)
	if err != nil || len(all) != 3 || all[0].RunID != one[0].RunID {
		t.Fatalf("Fork again = %+v, %v", all, err)
	}
	for _, v := range all {
		watch(t, l, v.RunID, "")
		if v.ForkedFrom != id+" at ask#1" {
			t.Errorf("%s goes on from %s", v.RunID, v.ForkedFrom)
		}
	}
	req.Key = "234567abcdefghij"
	if other, err := l.Fork(t.Context(), id, req); err != nil || other[0].ForkedFrom != id+" at ask#2" {
		t.Errorf("another Fork = %+v, %v", other, err)
	} else {
		for _, v := range other {
			watch(t, l, v.RunID, "")
		}
	}
}

// A host that copies no sprites refuses a flow whose nodes want copies before anything is recorded, and names these.
func TestCopiesWhereNothingIsCopied(t *testing.T) {
	r := newRemote(t, "")
	r.man.Do(Fault{On: On("POST", "/fork"), Times: -1, Instead: Answer(http.StatusNotFound, "text/plain", "404 page not found")})
	l, _ := lead(t, home.Home(t.TempDir()), func(c *leader.Config) { c.Remote = r.client })
	flow := `{"execir_version":"1.0","id":"w","tools":["fs.write"],"entry_node":"w","nodes":[{"id":"w","op":"TOOL_CALL","tool":"fs.write","sprite":"fork","args":{"path":"a","content":"b"}}],"edges":[]}`
	_, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(flow)})
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Exit != protocol.ExitUnsupported || !strings.Contains(refused.Fault.Message, "at w") {
		t.Errorf("Start = %v, want exit %d and the node", err, protocol.ExitUnsupported)
	}
	if runs, err := l.Runs(t.Context(), api.RunList{}); err != nil || len(runs) > 0 {
		t.Errorf("Runs = %v, %v", runs, err)
	}
}

// A host that copies no sprites refuses before anything is recorded.
func TestForkWhereNothingIsCopied(t *testing.T) {
	r := newRemote(t, "")
	r.man.Do(Fault{On: On("POST", "/fork"), Times: -1, Instead: Answer(http.StatusNotFound, "text/plain", "404 page not found")})
	l, _ := lead(t, home.Home(t.TempDir()), func(c *leader.Config) { c.Remote = r.client })
	id := start(t, l, `{"execir_version":"1.0","id":"w","tools":["fs.write"],"entry_node":"w","nodes":[{"id":"w","op":"TOOL_CALL","tool":"fs.write","args":{"path":"a","content":"b"}}],"edges":[]}`, "")
	if v := watch(t, l, id, ""); v.Status != lattice.Succeeded {
		t.Fatalf("%s is %s: %+v", id, v.Status, v.Error)
	}
	_, err := l.Fork(t.Context(), id, api.ForkRequest{Key: "abcdefghij234567", At: "w", N: 2})
	var p *fault.Error
	if !errors.As(err, &p) || p.Exit != protocol.ExitUnsupported || p.Fault.Hint == "" {
		t.Errorf("Fork = %v", err)
	}
	if all, err := l.Runs(t.Context(), api.RunList{}); err != nil || len(all) != 1 {
		t.Errorf("there are %d runs, %v", len(all), err)
	}
}
