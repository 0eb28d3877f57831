package govern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// pushTo returns an inspected push of a head to branches of the remote /r.
func pushTo(head string, branches ...string) lattice.Action {
	var bindings []string
	for _, b := range branches {
		bindings = append(bindings, fmt.Sprintf(`{"remote":"/r","branch":%q,"head":%q}`, b, head))
	}
	a := lattice.Action{Key: head, RunID: "run1", CallID: "call-" + head, Name: protocol.ActionPushBranch, Parameters: json.RawMessage(`{}`), Binding: json.RawMessage(bindings[0])}
	if more := bindings[1:]; len(more) > 0 {
		a.Parameters = json.RawMessage(`{"also":[` + strings.Repeat(`{},`, len(more)-1) + `{}]}`)
		a.Binding = json.RawMessage(strings.TrimSuffix(bindings[0], "}") + `,"also":[` + strings.Join(more, ",") + `]}`)
	}
	return a
}

// A newer push to a branch rejects the older ones of its run that wait, with an entry each, and their approval is refused. It
// does not touch decided pushes, pushes to another branch, and repeated requests.
func TestNewerPushSupersedesOlder(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &Ledger{Store: s}
	p := &Approvals{Ledger: l, PolicyOf: func(context.Context, string) (policy.Policy, error) { return policy.New(""), nil }, RepoOf: func(string) (string, string, bool) { return "/r", "r", true }}
	judge := func(a lattice.Action, d lattice.Verdict) {
		t.Helper()
		if err := l.RecordJudged(t.Context(), action.Judged{Action: a, Decision: d}); err != nil {
			t.Fatal(err)
		}
	}
	decide := func(a lattice.Action, d lattice.Decision) string {
		err := p.Decide(t.Context(), a, "", d, "")
		if refused, ok := errors.AsType[*fault.Error](err); ok {
			return refused.Code
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	first, other, both, denied := pushTo("1", "fix"), pushTo("2", "docs"), pushTo("3", "fix", "lib"), pushTo("4", "docs")
	judge(first, lattice.Ask)
	judge(other, lattice.Ask)
	if code := decide(other, lattice.Approve); code != "" {
		t.Errorf("approve the push to another branch: %s", code)
	}
	judge(both, lattice.Ask)
	judge(first, lattice.Ask) // the request is read again after a crash
	judge(denied, lattice.Deny)
	if code := decide(first, lattice.Approve); code != "superseded" {
		t.Errorf("approve the older push: %q, want superseded", code)
	}
	for _, a := range []lattice.Action{other, both} {
		if code := decide(a, lattice.Approve); code != "" {
			t.Errorf("approve %s: %s", a.Key, code)
		}
	}
	again := first
	again.CallID = "later"
	judge(again, lattice.Ask)
	if code := decide(again, lattice.Approve); code != "" {
		t.Errorf("approve the push that was asked for again: %s", code)
	}
	var rejected []string
	if err := l.eachAction("run1", func(_ audit.Entry, b actionBody) { rejected = append(rejected, b.Of+" by "+b.SupersededBy) }, audit.ActionRejected); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rejected, ", "); got != "1 by 3, 3 by 1" {
		t.Errorf("rejected %s", got)
	}
}
