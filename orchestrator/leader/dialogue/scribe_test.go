package dialogue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
)

// newScribe returns a scribe that knows only the audit log, as after a restart.
func (w *world) newScribe() *dialogue.Scribe {
	hosts := map[string]dialogue.Host{"main": {Client: func() (dialogue.Client, error) { return w.bot, nil }}}
	return &dialogue.Scribe{Hosts: hosts, Facts: w.Ledger, Runs: w.leader, Settle: w.talk.Settle, Logger: zerolog.Nop()}
}

// show has the scribe show the thread, and requires the beginnings of the comments that are there then.
func (w *world) show(s *dialogue.Scribe, want ...string) {
	w.Helper()
	name, _ := dialogue.ParseThread(thread)
	if err := s.Show(w.Context(), name); err != nil {
		w.Fatal(err)
	}
	got := w.replies()
	if len(got) != len(want) {
		w.Fatalf("there are %d comments, not %d: %q", len(got), len(want), got)
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			w.Errorf("comment %d does not say %q:\n%s", i, want[i], got[i])
		}
	}
}

// TestScribe follows a run that asks, is answered and ends. The scribe is restarted at each step, and writes no comment twice.
func TestScribe(t *testing.T) {
	eachKind(t, func(w *world) {
		w.show(w.newScribe())
		run := api.RunView{RunID: "run_1", WorkItem: thread, Flow: "issue-triage", Status: lattice.Running}
		w.runs = []api.RunView{run}
		w.show(w.newScribe(), "works")

		run.Status, run.Waits = lattice.Waiting, []lattice.Wait{{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Which colour?", Expected: map[string]string{"answer": "string"}}}
		w.runs[0] = run
		for range 2 {
			w.show(w.newScribe(), "waits for a person", "Which colour?")
		}
		run.Status, run.Waits = lattice.Running, nil
		w.runs[0] = run
		w.show(w.newScribe(), "works", "does not wait for this any more.")

		run.Status, run.Outputs = lattice.Succeeded, []byte(`{"answer":"1. Paint it."}`)
		w.runs[0] = run
		for range 2 {
			w.show(w.newScribe(), "has succeeded", "does not wait", "1. Paint it.")
		}
		before, _ := w.Requests()
		s := w.newScribe()
		name, _ := dialogue.ParseThread(thread)
		if err := s.Show(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if after, _ := w.Requests(); after != before {
			t.Errorf("%d requests show a run that ended and was shown", after-before)
		}

		second := api.RunView{RunID: "run_2", WorkItem: thread, Flow: "loop", Status: lattice.Failed, Error: &api.RunError{Message: "no @disk"}}
		w.runs = []api.RunView{second, run}
		w.show(s, "has failed.\n\nIt failed:\n\n```text\nno @disk\n```", "does not wait", "1. Paint it.")
	})
}

// TestLostAnswer loses the answer to the request that creates a comment: the comment is found again.
func TestLostAnswer(t *testing.T) {
	eachKind(t, func(w *world) {
		w.runs = []api.RunView{{RunID: "run_1", WorkItem: thread, Status: lattice.Waiting, Waits: []lattice.Wait{{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"}}}}
		name, _ := dialogue.ParseThread(thread)
		for range 2 { // the status, then the question
			w.LoseAnswer("POST", "1/comments")
			if err := w.newScribe().Show(t.Context(), name); err == nil {
				t.Error("a lost answer is no error")
			}
		}
		w.show(w.newScribe(), "waits for a person", "Go on?")
	})
}

// TestChangedWait changes a wait under the same id: the comment with the old digest is settled, another one is written.
func TestChangedWait(t *testing.T) {
	eachKind(t, func(w *world) {
		wait := lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Push a?"}
		old := w.waiting(wait)
		s := w.newScribe()
		w.show(s, "waits for a person", "Push a?")
		wait.Prompt = "Push b?"
		w.waiting(wait)
		w.show(s, "waits for a person", "does not wait", "Push b?")
		if got := w.say("wilma", "/lattice approve "+old); !strings.HasPrefix(got, "refused: nothing waits for an approval") {
			t.Errorf("the old digest became %q", got)
		}
	})
}

// TestFollowRuns waits for the goroutine to show a run.
func TestFollowRuns(t *testing.T) {
	w := newWorld(t, "gitea")
	w.waiting(lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"})
	written := make(chan struct{}, 10)
	hosts := map[string]dialogue.Host{"main": {Client: func() (dialogue.Client, error) { return noting{w.bot, written}, nil }}}
	s := &dialogue.Scribe{Hosts: hosts, Facts: w.Ledger, Runs: w.leader, Settle: w.talk.Settle, Logger: zerolog.Nop()}
	following, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.Follow(following) })
	stop := func() { cancel(); all.Wait() }
	defer stop()
	w.updates <- api.RunView{RunID: "run_0", WorkItem: "another work item"}
	w.updates <- w.runs[0]
	<-written
	<-written
	stop()
	w.show(s, "waits for a person", "Go on?")
}

// noting is a client that tells of each comment that it wrote.
type noting struct {
	dialogue.Client
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
	eachKind(t, func(w *world) {
		s := w.newScribe()
		name, _ := dialogue.ParseThread(thread)
		path, _ := forge.ParsePath(repository)
		show := func(status lattice.RunStatus, labels ...string) {
			t.Helper()
			w.runs = []api.RunView{{RunID: "run_1", WorkItem: thread, Status: status}}
			for range 2 {
				if err := s.Show(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			issue, err := w.bot.Issue(t.Context(), path, 1)
			if slices.Sort(issue.Labels); err != nil || !slices.Equal(issue.Labels, labels) {
				t.Errorf("while it is %s, the labels are %q, %v", status, issue.Labels, err)
			}
		}
		show(lattice.Running)
		s.Hosts["main"] = dialogue.Host{Client: s.Hosts["main"].Client, Labels: true}
		show(lattice.Running, "lattice:running")
		show(lattice.Waiting, "lattice:waiting")
		w.handle()
		for _, label := range []string{"lattice:done", "lattice:approved", "urgent"} {
			w.Label(repository, "rob", 1, label)
			if got := w.handle(); got != "nothing to do" || w.done() != "" {
				t.Errorf("the label %s became %q", label, got)
			}
		}
		show(lattice.Failed, "lattice:failed", "urgent")
		show(lattice.Succeeded, "lattice:done", "urgent")
	})
}

// TestLateList loses the answer to a new comment, and the code host lists the comment late: it is not written again.
func TestLateList(t *testing.T) {
	eachKind(t, func(w *world) {
		w.runs = []api.RunView{{RunID: "run_1", WorkItem: thread, Status: lattice.Waiting}}
		name, _ := dialogue.ParseThread(thread)
		w.LoseAnswer("POST", "1/comments")
		if err := w.newScribe().Show(t.Context(), name); err == nil {
			t.Error("a lost answer is no error")
		}
		w.Lag(1)
		if err := w.newScribe().Show(t.Context(), name); err == nil {
			t.Error("a late list shows that the comment is not there")
		}
		w.show(w.newScribe(), "waits for a person")
	})
}

// TestQuestions has a run wait for each kind of decision: each is one comment with the inputs that it takes, and a command, a form or a
// box that a person ticks answers it.
func TestQuestions(t *testing.T) {
	eachKind(t, func(w *world) {
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
			w.leader.runs = []api.RunView{{RunID: run, WorkItem: thread, Status: status, Waits: []lattice.Wait{c.wait}}}
			name, _ := dialogue.ParseThread(thread)
			for range 2 {
				if err := w.newScribe().Show(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			var asked []forge.Comment
			path, _ := forge.ParsePath(repository)
			all, err := w.bot.Comments(t.Context(), path, 1)
			for _, k := range all {
				if strings.Contains(k.Body, c.wait.Prompt) {
					asked = append(asked, k)
				}
			}
			if err != nil || len(asked) != 1 || !strings.Contains(asked[0].Body, c.says) || strings.Contains(asked[0].Body, c.not) {
				t.Fatalf("the %s is asked as %+v, %v", c.wait.Kind, asked, err)
			}
			w.handle()
			if c.answer != "" {
				w.say("wilma", c.answer)
			} else {
				w.EditComment(repository, "wilma", asked[0].ID, strings.Replace(asked[0].Body, "- [ ]", "- [x]", 1))
				w.handle()
			}
			if did := w.done(); !strings.Contains(did, run+" ") || !strings.Contains(did, c.did) {
				t.Errorf("the answer to the %s did %q", c.wait.Kind, did)
			}
		}
	})
}
