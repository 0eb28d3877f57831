package scribe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/scribe"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestScribe follows a run that asks, is answered and ends. The scribe is restarted at each step, and writes no comment twice.
func TestScribe(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		w.Show(w.NewScribe())
		run := api.RunView{RunID: "run_1", WorkItem: threadtest.Name, Flow: "issue-triage", Status: lattice.Running}
		w.Known = []api.RunView{run}
		w.Show(w.NewScribe(), "works")

		run.Status, run.Waits = lattice.Waiting, []lattice.Wait{{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Which colour?", Expected: map[string]string{"answer": "string"}}}
		w.Known[0] = run
		for range 2 {
			w.Show(w.NewScribe(), "waits for a person", "Which colour?")
		}
		run.Status, run.Waits = lattice.Running, nil
		w.Known[0] = run
		w.Show(w.NewScribe(), "works", "does not wait for this any more.")

		run.Status, run.Outputs = lattice.Succeeded, []byte(`{"answer":"1. Paint it."}`)
		w.Known[0] = run
		for range 2 {
			w.Show(w.NewScribe(), "has succeeded", "does not wait", "1. Paint it.")
		}
		before, _ := w.Requests()
		s := w.NewScribe()
		if err := w.ShowOnce(s); err != nil {
			t.Fatal(err)
		}
		if after, _ := w.Requests(); after != before {
			t.Errorf("%d requests show a run that ended and was shown", after-before)
		}

		second := api.RunView{RunID: "run_2", WorkItem: threadtest.Name, Flow: "loop", Status: lattice.Failed, Error: &api.RunError{Message: "no @disk"}}
		w.Known = []api.RunView{second, run}
		w.Show(s, "has failed.\n\nIt failed:\n\n```text\nno @disk\n```", "does not wait", "1. Paint it.")
	})
}

// TestLostAnswer loses the answer to the request that creates a comment: the comment is found again.
func TestLostAnswer(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		w.Known = []api.RunView{{RunID: "run_1", WorkItem: threadtest.Name, Status: lattice.Waiting, Waits: []lattice.Wait{{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"}}}}
		for range 2 { // the status, then the question
			w.LoseAnswer("POST", "1/comments")
			if err := w.ShowOnce(w.NewScribe()); err == nil {
				t.Error("a lost answer is no error")
			}
		}
		w.Show(w.NewScribe(), "waits for a person", "Go on?")
	})
}

// TestChangedWait changes a wait under the same id: the comment with the old digest is settled, another one is written.
func TestChangedWait(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		wait := lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Push a?"}
		old := w.SetWait(wait)
		s := w.NewScribe()
		w.Show(s, "waits for a person", "Push a?")
		wait.Prompt = "Push b?"
		w.SetWait(wait)
		w.Show(s, "waits for a person", "does not wait", "Push b?")
		if got := w.Say("wilma", "/lattice approve "+old); !strings.HasPrefix(got, "refused: nothing waits for an approval") {
			t.Errorf("the old digest became %q", got)
		}
	})
}

// TestFollowRuns waits for the goroutine to show a run.
func TestFollowRuns(t *testing.T) {
	w := threadtest.NewWorld(t, "gitea")
	w.SetWait(lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"})
	written := make(chan struct{}, 10)
	hosts := map[string]scribe.Host{"main": {Client: func() (scribe.Client, error) { return noting{w.Bot, written}, nil }}}
	s := &scribe.Scribe{Hosts: hosts, Facts: w.Ledger, Runs: w.Leader, Settle: w.Talk.Settle, Logger: zerolog.Nop()}
	following, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.Follow(following) })
	stop := func() { cancel(); all.Wait() }
	defer stop()
	w.Changed <- api.RunView{RunID: "run_0", WorkItem: "another work item"}
	w.Changed <- w.Known[0]
	<-written
	<-written
	stop()
	w.Show(s, "waits for a person", "Go on?")
}

// noting is a client that tells of each comment that it wrote.
type noting struct {
	scribe.Client
	written chan struct{}
}

func (n noting) CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error) {
	c, err := n.Client.CreateComment(ctx, p, number, body)
	n.written <- struct{}{}
	return c, err
}

// TestLabels shows states as labels. A label that a person sets decides nothing, and is replaced when the state changes; other labels
// stay.
func TestLabels(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		s := w.NewScribe()
		path, _ := forge.ParsePath(threadtest.Repository)
		show := func(status lattice.RunStatus, labels ...string) {
			t.Helper()
			w.Known = []api.RunView{{RunID: "run_1", WorkItem: threadtest.Name, Status: status}}
			for range 2 {
				if err := w.ShowOnce(s); err != nil {
					t.Fatal(err)
				}
			}
			issue, err := w.Bot.Issue(t.Context(), path, 1)
			if slices.Sort(issue.Labels); err != nil || !slices.Equal(issue.Labels, labels) {
				t.Errorf("while it is %s, the labels are %q, %v", status, issue.Labels, err)
			}
		}
		show(lattice.Running)
		s.Hosts["main"] = scribe.Host{Client: s.Hosts["main"].Client, Labels: true}
		show(lattice.Running, "lattice:running")
		show(lattice.Waiting, "lattice:waiting")
		w.Handle()
		for _, label := range []string{"lattice:done", "lattice:approved", "urgent"} {
			w.Label(threadtest.Repository, "rob", 1, label)
			if got := w.Handle(); got != "nothing to do" || w.Done() != "" {
				t.Errorf("the label %s became %q", label, got)
			}
		}
		show(lattice.Failed, "lattice:failed", "urgent")
		show(lattice.Succeeded, "lattice:done", "urgent")
	})
}

// TestLateList loses the answer to a new comment, and the code host lists the comment late: it is not written again.
func TestLateList(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		w.Known = []api.RunView{{RunID: "run_1", WorkItem: threadtest.Name, Status: lattice.Waiting}}
		w.LoseAnswer("POST", "1/comments")
		if err := w.ShowOnce(w.NewScribe()); err == nil {
			t.Error("a lost answer is no error")
		}
		w.Lag(1)
		if err := w.ShowOnce(w.NewScribe()); err == nil {
			t.Error("a late list shows that the comment is not there")
		}
		w.Show(w.NewScribe(), "waits for a person")
	})
}

// TestQuestions has a run wait for each kind of decision: each is one comment with the inputs that it takes, and a command, a form or a
// box that a person ticks answers it.
func TestQuestions(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		one, two := map[string]string{"answer": "string"}, map[string]string{"colour": "string", "answer": "boolean"}
		for i, c := range []struct {
			wait      lattice.Wait
			says, not string
			answer    string // "" ticks the first box
			did       string
		}{
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: one}, "it takes ` string `", "approve", "/lattice answer blue", "answer=blue"},
			{lattice.Wait{Kind: lattice.WaitSkill, Expected: two, Optional: []string{"answer"}}, "answer: (boolean, optional)\ncolour: (string)", "approve", "/lattice answer\n### colour\nblue", "colour=blue"},
			{lattice.Wait{Kind: lattice.WaitSkill, Expected: two}, "/lattice reject REASON", "approve", "/lattice answer\ncolour: blue\nanswer: true", "answer=true colour=blue"},
			{lattice.Wait{Kind: lattice.WaitAction, Action: &lattice.Action{Name: "PUSH_BRANCH"}}, "PUSH_BRANCH", "/lattice answer", "", "approve run_"},
			{lattice.Wait{Kind: lattice.WaitQuestion, Expected: one, Choices: []string{"red", "blue"}}, "One of:\n\n```text\nred\nblue", "reject", "/lattice answer blue", "answer=blue"},
			{lattice.Wait{Kind: lattice.WaitBlocked, Expected: one}, "it takes ` string `", "reject", "/lattice answer blue", "answer=blue"},
		} {
			c.wait.ID, c.wait.Prompt = fmt.Sprintf("w%d", i), fmt.Sprintf("Question %d?", i)
			run := fmt.Sprintf("run_%d", i)
			status := map[bool]lattice.RunStatus{true: lattice.BlockedWaitingForUser, false: lattice.Waiting}[c.wait.Kind == lattice.WaitQuestion]
			w.Known = []api.RunView{{RunID: run, WorkItem: threadtest.Name, Status: status, Waits: []lattice.Wait{c.wait}}}
			for range 2 {
				if err := w.ShowOnce(w.NewScribe()); err != nil {
					t.Fatal(err)
				}
			}
			var asked []forge.Comment
			path, _ := forge.ParsePath(threadtest.Repository)
			all, err := w.Bot.Comments(t.Context(), path, 1)
			for _, k := range all {
				if strings.Contains(k.Body, c.wait.Prompt) {
					asked = append(asked, k)
				}
			}
			if err != nil || len(asked) != 1 || !strings.Contains(asked[0].Body, c.says) || strings.Contains(asked[0].Body, c.not) {
				t.Fatalf("the %s is asked as %+v, %v", c.wait.Kind, asked, err)
			}
			w.Handle()
			if c.answer != "" {
				w.Say("wilma", c.answer)
			} else {
				w.EditComment(threadtest.Repository, "wilma", asked[0].ID, strings.Replace(asked[0].Body, "- [ ]", "- [x]", 1))
				w.Handle()
			}
			if did := w.Done(); !strings.Contains(did, run+" ") || !strings.Contains(did, c.did) {
				t.Errorf("the answer to the %s did %q", c.wait.Kind, did)
			}
		}
	})
}

// TestOffer shows a plan that is offered: the question takes the place of the answer, and the status tells the command. Without the settings
// that the work needs, the answer says so. It is offered once.
func TestOffer(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		run := api.RunView{RunID: "run_1", WorkItem: threadtest.Name, Flow: "issue-triage", IntentID: "int_0", Status: lattice.Succeeded, Outputs: []byte(`{"answer":"1. Paint it.","plan":"1. Paint it."}`)}
		w.Known = []api.RunView{run}
		offers := 0
		offering := func(offer func() (intent.State, error)) *scribe.Scribe {
			s := w.NewScribe()
			s.Offer = func(context.Context, thread.Thread, api.RunView) (intent.State, error) {
				offers++
				return offer()
			}
			return s
		}
		down := offering(func() (s intent.State, err error) { return s, errors.New("the code host is down") })
		if err := w.ShowOnce(down); err == nil {
			t.Error("a plan that could not be offered is no error")
		}
		w.Show(offering(func() (s intent.State, err error) { return s, fault.Failed("work_settings", "set work") }), "has succeeded", "1. Paint it.\n```\n\nlattice cannot carry it out: ` set work `")
		gate := func() (intent.State, error) { return w.Gate("int_1", "Carry out: 1. Paint it."), nil }
		w.Show(offering(gate), "Next: a person decides", "cannot carry it out", "Carry out: 1. Paint it.")
		w.Show(offering(gate), "Next: a person decides", "cannot carry it out", "Carry out: 1. Paint it.")
		if offers != 3 {
			t.Errorf("the plan was offered %d times", offers)
		}
		w.Gated = nil
		w.Show(offering(gate), "has succeeded", "cannot carry it out", "int_1 ` does not wait")
		if got := w.Replies()[0]; strings.Contains(got, "Next:") {
			t.Errorf("after the decision, the status is\n%s", got)
		}

		// The policy may let the work begin at once: the plan is then the answer.
		run.RunID, run.Outputs = "run_2", []byte(`{"answer":"1. Wash it.","plan":"1. Wash it."}`)
		w.Known = []api.RunView{run}
		w.Show(offering(func() (intent.State, error) { return intent.State{ID: "int_2", Decision: lattice.Allow}, nil }), "has succeeded", "cannot carry it out", "does not wait", "run_2 ` answers:\n\n```text\n1. Wash it.")
	})
}
