package leader_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/loop"
)

// TestLoops: runs of the flow loop are listed as loops, page by page, and as the description says; other runs are not loops.
func TestLoops(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	flow := strings.NewReplacer(`"id":"ask","tools"`, `"id":"loop","tools"`, `"ask"`, `"question"`).Replace(ask)
	for _, f := range []string{flow, ask, flow} {
		watch(t, l, start(t, l, f, ""), "")
	}
	d := newDescription(t, []byte(api.Description()))
	seen := map[string]bool{}
	for next := api.Root + "/loops?limit=1"; next != ""; {
		resp := send(t, server, "GET", next, "")
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s %s %v", next, resp.Status, text, err)
		}
		r, _ := route.Find(api.Routes(nil), "GET", api.Root+"/loops")
		d.check(r, false, text)
		var page []loop.View
		if err := json.Unmarshal(text, &page); err != nil || len(page) > 1 {
			t.Fatalf("%s: %v", text, err)
		}
		for _, v := range page {
			one := body[loop.View](t, send(t, server, "GET", api.Root+"/loops/"+v.RunID, ""))
			if one.Status != "needs_input" || v.Status != one.Status || v.Name == "" || seen[v.RunID] {
				t.Errorf("the loop is %+v, and in the list %+v", one, v)
			}
			seen[v.RunID] = true
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	}
	if len(seen) != 2 {
		t.Errorf("the loops are %v, want 2", seen)
	}
	other := start(t, l, ask, "")
	watch(t, l, other, "")
	if p := body[exchange.Problem](t, send(t, server, "GET", api.Root+"/loops/"+other, "")); p.Fault.Code != "loop_not_found" {
		t.Errorf("a run that is not a loop: %+v", p.Error)
	}
}
