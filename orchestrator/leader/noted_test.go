package leader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/runs"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// performed counts what an actor did, by key. Doing an action again does nothing.
type performed struct {
	calls  int
	done   map[string]bool
	refuse bool
}

func (p *performed) Do(_ context.Context, a lattice.Action) ([]byte, error) {
	p.calls++
	if p.refuse {
		return nil, &lattice.Refusal{Fault: protocol.Fault{Code: "push_rejected", Message: "the remote refused it"}}
	}
	p.done[a.Key] = true
	return []byte(`{"branch":"lattice/x"}`), nil
}

// killedAt fails every append from the fact of a type on, before it is stored or after.
type killedAt struct {
	driver.Log
	fact  string
	after bool
	dead  *bool
}

func (k killedAt) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for _, e := range entries {
		if e.Type == k.fact {
			*k.dead = true
			if k.after {
				_, _ = k.Log.Append(ctx, run, after, entries)
			}
		}
	}
	if *k.dead {
		return 0, errors.New("killed")
	}
	return k.Log.Append(ctx, run, after, entries)
}

const packs = `{"execir_version":"1.0","id":"packs","tools":[],"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"a":1}}],"edges":[]}`

// openLeader opens a leader on home with an actor of the test's.
func openLeader(t testing.TB, home home.Home, actor runs.Performer, wrap func(driver.Log) driver.Log) *Leader {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Home: home, Version: "test", Self: self, Environ: os.Environ(), Log: zerolog.Nop(), Warn: func(string) {}, WrapLog: wrap})
	if err != nil {
		t.Fatal(err)
	}
	l.Notes.Actor = actor
	return l
}

// runWithActions makes a run that has ended, and whose skills noted a push and a label.
func runWithActions(t *testing.T, home home.Home) string {
	t.Helper()
	return runWithNotes(t, home,
		lattice.ActionNoted{Action: lattice.Action{Key: "push1", Name: protocol.ActionPushBranch}, Verdict: lattice.Ask},
		lattice.ActionNoted{Action: lattice.Action{Key: "label1", Name: protocol.ActionLabelIssue}, Verdict: lattice.Ask})
}

// runWithNotes makes a run that has ended, and whose skills asked for these actions.
func runWithNotes(t *testing.T, home home.Home, notes ...lattice.ActionNoted) string {
	t.Helper()
	l := openLeader(t, home, nil, nil)
	v, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(packs)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Watch(t.Context(), v.RunID, 0, func(api.WatchLine) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(home.Store())
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Load(v.RunID)
	if err != nil {
		t.Fatal(err)
	}
	chain := h.Facts[len(h.Facts)-1].Chain
	var entries []lattice.Entry
	for _, note := range notes {
		body, err := json.Marshal(note)
		if err != nil {
			t.Fatal(err)
		}
		e := lattice.Entry{Run: v.RunID, At: time.Now(), Kind: lattice.EntryFact, Type: "ActionNoted", Body: body}
		chain = lattice.Chain(chain, e)
		e.Chain = chain
		entries = append(entries, e)
	}
	if _, err := s.Append(t.Context(), v.RunID, h.Last, entries); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return v.RunID
}

func statusOf(t *testing.T, l *Leader, run, key string) string {
	t.Helper()
	all, err := l.Actions(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Key == key {
			return a.Status
		}
	}
	return "not there"
}

// TestActionDecisionsSurviveAKill kills the leader at each append of an approval, before and after it: the action is
// performed after its approval is on disk alone, an approval repeated later ends the matter, and it is done once.
func TestActionDecisionsSurviveAKill(t *testing.T) {
	for _, at := range []struct {
		fact   string
		after  bool
		status string // behind the kill
		calls  int    // before it
	}{
		{"ActionDecided", false, api.ActionOpen, 0},
		{"ActionDecided", true, api.ActionApproved, 0},
		{"ActionSettled", false, api.ActionApproved, 1},
		{"ActionSettled", true, api.ActionFulfilled, 1},
	} {
		home := home.Home(t.TempDir())
		run := runWithActions(t, home)
		actor, dead := &performed{done: map[string]bool{}}, false
		l := openLeader(t, home, actor, func(log driver.Log) driver.Log { return killedAt{log, at.fact, at.after, &dead} })
		approve := api.ActionDecision{Key: "push1", Decision: lattice.Approve, By: "ada", Comments: "fine"}
		if _, err := l.DecideAction(t.Context(), run, approve); err == nil {
			t.Fatalf("%+v: the kill went unnoticed", at)
		}
		_ = l.Close()
		if actor.calls != at.calls {
			t.Errorf("%+v: the action was performed %d times before the kill", at, actor.calls)
		}

		l = openLeader(t, home, actor, nil)
		if got := statusOf(t, l, run, "push1"); got != at.status {
			t.Errorf("%+v: the action is %q", at, got)
		}
		if at.status == api.ActionApproved {
			if open, err := l.Actions(t.Context(), "*"); err != nil || len(open) != 2 {
				t.Errorf("%+v: open actions = %+v, %v; want the approved one among them", at, open, err)
			}
			if _, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push1", Decision: lattice.Reject, By: "bob"}); err == nil {
				t.Errorf("%+v: an action that may have been done was rejected", at)
			}
		}
		for range 2 {
			if a, err := l.DecideAction(t.Context(), run, approve); err != nil || a.Status != api.ActionFulfilled || a.By != "ada" || a.Comments != "fine" {
				t.Errorf("%+v: approved again: %+v, %v", at, a, err)
			}
		}
		if len(actor.done) != 1 {
			t.Errorf("%+v: %d actions were done", at, len(actor.done))
		}
		if told, err := l.Replay(t.Context(), run, nil); err != nil || !told.OK {
			t.Errorf("%+v: Replay = %+v, %v", at, told.Diverged, err)
		}
		if report, err := l.CheckStore(t.Context(), nil); err != nil || !report.OK {
			t.Errorf("%+v: CheckStore = %+v, %v", at, report, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBegunActionsAreSettled holds that an action whose outcome was lost is shown, and that a person's approval performs it
// again under its key.
func TestBegunActionsAreSettled(t *testing.T) {
	home := home.Home(t.TempDir())
	push, message := lattice.Action{Key: "push1", Name: protocol.ActionPushBranch}, lattice.Action{Key: "message1", Name: protocol.ActionNotifyUser}
	run := runWithNotes(t, home, lattice.ActionNoted{Action: push, Verdict: lattice.Allow, Begun: true},
		lattice.ActionNoted{Action: message, Verdict: lattice.Allow, Begun: true})
	actor := &performed{done: map[string]bool{}}
	l := openLeader(t, home, actor, nil)
	if open, err := l.Actions(t.Context(), "*"); err != nil || len(open) != 2 {
		t.Errorf("open actions = %+v, %v; want both", open, err)
	}
	for _, key := range []string{"push1", "message1"} {
		if a, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: key, Decision: lattice.Approve, By: "ada"}); err != nil || a.Status != api.ActionFulfilled {
			t.Errorf("approve %s = %+v, %v", key, a, err)
		}
	}
	if actor.calls != 2 || !actor.done["push1"] || !actor.done["message1"] {
		t.Errorf("performed %d actions, %v; want both", actor.calls, actor.done)
	}
	if open, err := l.Actions(t.Context(), "*"); err != nil || len(open) != 0 {
		t.Errorf("open actions = %+v, %v; want none", open, err)
	}
	if report, err := l.CheckStore(t.Context(), nil); err != nil || !report.OK {
		t.Errorf("CheckStore = %+v, %v", report, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedActionIsOpenAgain holds that a push that the remote refuses stays open, with the reason, and can be rejected.
func TestRefusedActionIsOpenAgain(t *testing.T) {
	home := home.Home(t.TempDir())
	run := runWithActions(t, home)
	actor := &performed{done: map[string]bool{}, refuse: true}
	l := openLeader(t, home, actor, nil)
	if _, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push1", Decision: lattice.Approve, By: "ada"}); err == nil {
		t.Error("a refused push was reported as done")
	}
	all, err := l.Actions(t.Context(), run)
	if err != nil || all[0].Status != api.ActionOpen || all[0].Detail != "not done: the remote refused it" || all[0].By != "" {
		t.Errorf("Actions = %+v, %v", all, err)
	}
	if a, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push1", Decision: lattice.Reject, By: "ada"}); err != nil || a.Status != api.ActionRejected {
		t.Errorf("reject = %+v, %v", a, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewerPushReplacesOpenOne holds that a push is rejected when its run asks for a newer one to the same branch, and that it
// cannot be approved any more.
func TestNewerPushReplacesOpenOne(t *testing.T) {
	home := home.Home(t.TempDir())
	note := func(key, branch string) lattice.ActionNoted {
		return lattice.ActionNoted{Action: lattice.Action{Key: key, Name: protocol.ActionPushBranch, Parameters: json.RawMessage(`{}`), Binding: json.RawMessage(`{"remote":"/r","branch":"` + branch + `"}`)}, Verdict: lattice.Ask}
	}
	run := runWithNotes(t, home, note("push1", "fix"), note("push2", "docs"), note("push3", "fix"))
	actor := &performed{done: map[string]bool{}}
	l := openLeader(t, home, actor, nil)
	open, err := l.Actions(t.Context(), "*")
	if err != nil || len(open) != 2 || open[0].Key != "push2" || open[1].Key != "push3" {
		t.Errorf("open actions = %+v, %v", open, err)
	}
	_, err = l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push1", Decision: lattice.Approve, By: "ada"})
	if refused, ok := errors.AsType[*fault.Error](err); !ok || refused.Code != "superseded" || actor.calls != 0 {
		t.Errorf("approve the older push: %v, %d calls; want superseded", err, actor.calls)
	}
	if a, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push1", Decision: lattice.Reject, By: "ada"}); err != nil || a.Status != api.ActionRejected || a.Detail != "superseded by push3" {
		t.Errorf("reject the older push: %+v, %v", a, err)
	}
	if a, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: "push3", Decision: lattice.Approve, By: "ada"}); err != nil || a.Status != api.ActionFulfilled {
		t.Errorf("approve the newer push: %+v, %v", a, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestBackupHoldsActionDecisions holds that decisions about noted actions come back with a backup.
func TestBackupHoldsActionDecisions(t *testing.T) {
	first, other := home.Home(t.TempDir()), home.Home(t.TempDir())
	run := runWithActions(t, first)
	l := openLeader(t, first, &performed{done: map[string]bool{}}, nil)
	for key, d := range map[string]lattice.Decision{"push1": lattice.Reject, "label1": lattice.Approve} {
		if _, err := l.DecideAction(t.Context(), run, api.ActionDecision{Key: key, Decision: d, By: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	said := int64(0)
	if err := errors.Join(l.BackupStore(t.Context(), func(size int64) io.Writer { said = size; return f }), f.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || said <= 0 || info.Size() < said || info.Size() > said+16<<10 {
		t.Errorf("a backup said %d bytes before it came: %v, %v", said, info, err)
	}
	if f, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := storage.Restore(t.Context(), other, other.Store(), f, false, nil); err != nil {
		t.Fatal(err)
	}
	l = openLeader(t, other, nil, nil)
	if push, label := statusOf(t, l, run, "push1"), statusOf(t, l, run, "label1"); push != api.ActionRejected || label != api.ActionFulfilled {
		t.Errorf("after the restore the push is %s and the label %s", push, label)
	}
	if open, err := l.Actions(t.Context(), "*"); err != nil || len(open) > 0 {
		t.Errorf("open actions after the restore = %+v, %v", open, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
