package dialogue_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
	"github.com/spritekit/lattice/spritekit/fault"
)

// gate gives the thread an intent that people have to approve.
func (w *world) gate(id, prompt string) intent.State {
	p := intent.Plan{Version: 1, Flow: "pull-request", Repo: "https://example.com/acme/site", Base: "abc", Input: []byte(`{"prompt":"` + prompt + `","context":[{"path":"trigger.md","content":"secret text"}]}`), AgentEnv: []string{"MODEL_KEY", "HOME_KEY"}}
	s := intent.State{ID: id, Kind: "pr_create_from_plan", Subject: thread, Status: intent.Gated, Decision: lattice.Ask, Plan: p, Digest: p.Digest(), ProposedBy: &audit.Who{Name: "main:7"}}
	w.gated = append(w.gated, s)
	return s
}

// TestDecideIntents approves and rejects intents that ask in a thread. Their runs are offered the values that the settings hand to agents, and no others.
func TestDecideIntents(t *testing.T) {
	eachKind(t, func(w *world) {
		host := w.talk.Hosts["main"]
		host.Secrets = map[string]string{"MODEL_KEY": "k", "OTHER": "o"}
		w.talk.Hosts["main"] = host
		one, two := w.gate("int_1", "Paint it."), w.gate("int_2", "Burn it.")
		for _, c := range []struct{ who, text, outcome, did string }{
			{"rob", "/lattice approve " + one.Digest[:24], "refused: approve needs the role write", ""},
			{"wilma", "/lattice approve 0123456789ab", "refused: nothing waits for an approval with the digest", ""},
			{"wilma", "/lattice approve " + one.Digest[:24], "approve int_1", "approve int_1 " + one.Digest + "  map[MODEL_KEY:k OTHER:o] by main:"},
			{"wilma", "/lattice approve " + two.Digest[:12], "approve int_2", "approve int_2 " + two.Digest},
			{"wilma", "/lattice reject too early", "refused: 2 requests wait; /lattice reject DIGEST names one", ""},
			{"wilma", "/lattice reject " + two.Digest[:24] + " too early", "reject int_2", "reject int_2 " + two.Digest + " too early map[MODEL_KEY:k OTHER:o] by main:"},
			{"wilma", "/lattice reject 0123456789ab too early", "refused: nothing with the digest 0123456789ab waits", ""},
			{"wilma", "/lattice answer yes", "refused: nothing waits for a decision", ""},
		} {
			if got := w.say(c.who, c.text); !strings.HasPrefix(got, c.outcome) {
				t.Errorf("%s: %q became %q, not %q", c.who, c.text, got, c.outcome)
			}
			if got := w.done(); !strings.HasPrefix(got, c.did) || (got == "") != (c.did == "") {
				t.Errorf("%s: %q did %q, not %q", c.who, c.text, got, c.did)
			}
		}
		w.gated = w.gated[:1]
		if got := w.say("wilma", "/lattice reject defaced words"); got != "reject int_1" || !strings.Contains(w.done(), " defaced words ") {
			t.Errorf("a rejection whose reason begins with hexadecimal letters became %q", got)
		}
		w.gate("int_3", "Wash it.")
		w.fail = fault.Busy("plan_changed", "the plan has changed")
		if got := w.say("wilma", "/lattice approve "+one.Digest); got != "refused: the plan has changed" {
			t.Errorf("a plan that has changed became %q", got)
		}
	})
}

// TestTickIntent ticks boxes of the questions about two intents: a rejection is of the one whose box was ticked.
func TestTickIntent(t *testing.T) {
	eachKind(t, func(w *world) {
		w.gate("int_1", "Paint it.")
		s := w.newScribe()
		w.show(s, "Paint it.")
		question := w.replies()[0]
		if strings.Contains(question, "secret text") || !strings.Contains(question, `"trigger.md"`) {
			t.Errorf("the question shows\n%s", question)
		}
		w.gate("int_2", "Burn it.")
		w.show(s, "Paint it.", "Burn it.")
		id := w.Comment(repository, "bot", w.issue, question)
		w.handle()
		w.EditComment(repository, "wilma", id, strings.Replace(question, "- [ ] reject", "- [x] reject", 1))
		if got := w.handle(); got != "reject int_1" || !strings.HasPrefix(w.done(), "reject int_1 ") {
			t.Errorf("the outcome is %q", got)
		}
		w.gated = nil
		w.EditComment(repository, "wilma", id, strings.Replace(question, "- [ ] approve", "- [x] approve", 1))
		if got := w.handle(); !strings.HasPrefix(got, "refused: ") || w.done() != "" {
			t.Errorf("after the decision, the outcome is %q", got)
		}
	})
}

// TestOffer shows a plan that is offered: the question takes the place of the answer, and the status tells the command. Without the settings
// that the work needs, the answer says so. It is offered once.
func TestOffer(t *testing.T) {
	eachKind(t, func(w *world) {
		run := api.RunView{RunID: "run_1", WorkItem: thread, Flow: "issue-triage", IntentID: "int_0", Status: lattice.Succeeded, Outputs: []byte(`{"answer":"1. Paint it.","plan":"1. Paint it."}`)}
		w.runs = []api.RunView{run}
		offers := 0
		offering := func(offer func() (intent.State, error)) *dialogue.Scribe {
			s := w.newScribe()
			s.Offer = func(context.Context, dialogue.Thread, api.RunView) (intent.State, error) {
				offers++
				return offer()
			}
			return s
		}
		name, _ := dialogue.ParseThread(thread)
		down := offering(func() (s intent.State, err error) { return s, errors.New("the code host is down") })
		if err := down.Show(t.Context(), name); err == nil {
			t.Error("a plan that could not be offered is no error")
		}
		w.show(offering(func() (s intent.State, err error) { return s, fault.Failed("work_settings", "set work") }), "has succeeded", "1. Paint it.\n```\n\nlattice cannot carry it out: ` set work `")
		gate := func() (intent.State, error) { return w.gate("int_1", "Carry out: 1. Paint it."), nil }
		w.show(offering(gate), "Next: a person decides", "cannot carry it out", "Carry out: 1. Paint it.")
		w.show(offering(gate), "Next: a person decides", "cannot carry it out", "Carry out: 1. Paint it.")
		if offers != 3 {
			t.Errorf("the plan was offered %d times", offers)
		}
		w.gated = nil
		w.show(offering(gate), "has succeeded", "cannot carry it out", "int_1 ` does not wait")
		if got := w.replies()[0]; strings.Contains(got, "Next:") {
			t.Errorf("after the decision, the status is\n%s", got)
		}

		// The policy may let the work begin at once: the plan is then the answer.
		run.RunID, run.Outputs = "run_2", []byte(`{"answer":"1. Wash it.","plan":"1. Wash it."}`)
		w.runs = []api.RunView{run}
		w.show(offering(func() (intent.State, error) { return intent.State{ID: "int_2", Decision: lattice.Allow}, nil }), "has succeeded", "cannot carry it out", "does not wait", "run_2 ` answers:\n\n```text\n1. Wash it.")
	})
}

// TestOffered creates the intent for a plan with the input of the settings, the plan and the context of the issue.
func TestOffered(t *testing.T) {
	eachKind(t, func(w *world) {
		run := api.RunView{RunID: "run_1", WorkItem: thread, Flow: "issue-triage", IntentID: "int_0", Status: lattice.Succeeded, Outputs: []byte(`{"plan":"1. Paint it."}`)}
		name, _ := dialogue.ParseThread(thread)
		host := w.talk.Hosts["main"]
		host.Work = api.IntentRequest{Input: []byte(`{"agent":"claude"}`)}
		w.talk.Hosts["main"] = host
		files := []string{"README"}
		w.talk.Files = func(context.Context, string) ([]string, error) { return files, nil }
		_, err := w.talk.Offer(t.Context(), name, run)
		if p := fault.As(err); p == nil || p.Code != "work_settings" || !strings.Contains(p.Message, "[forges.main]") {
			t.Errorf("without tests, the error is %v", err)
		}
		files = []string{"go.mod"}
		if s, err := w.talk.Offer(t.Context(), name, run); err != nil || s.ID != "int_1" {
			t.Errorf("the intent is %q, %v", s.ID, err)
		}
		for _, want := range []string{"intent pr_create_from_plan " + thread, `"agent":"claude"`, `1. Paint it."`, `"title":"It hangs"`, `"body":"Closes #1.`} {
			if got := strings.Join(w.did, "\n"); !strings.Contains(got, want) {
				t.Errorf("the intent lacks %q: %s", want, got)
			}
		}
		w.done()
		run.Flow = "improvement"
		if s, err := w.talk.Offer(t.Context(), name, run); err != nil || s.ID != "" || w.done() != "" {
			t.Errorf("the output of another flow led to %q, %v", s.ID, err)
		}
		host.WorkLacks = "set an agent"
		w.talk.Hosts["main"] = host
		run.Flow = "issue-triage"
		if _, err := w.talk.Offer(t.Context(), name, run); err == nil || err.Error() != "set an agent" {
			t.Errorf("without an agent, the error is %v", err)
		}
	})
}

// TestLongPlan approves a plan that is longer than a comment shows: it is refused, and may be rejected.
func TestLongPlan(t *testing.T) {
	eachKind(t, func(w *world) {
		s := w.gate("int_1", strings.Repeat("Paint it. ", 3000))
		w.show(w.newScribe(), "longer than a comment shows")
		if got := w.replies()[0]; strings.Contains(got, "/lattice approve") || len(got) > 60_000 {
			t.Errorf("the question is\n%s", got)
		}
		if got := w.say("wilma", "/lattice approve "+s.Digest); !strings.HasPrefix(got, "refused: the plan of int_1 is longer") || w.done() != "" {
			t.Errorf("the approval became %q", got)
		}
		if got := w.say("wilma", "/lattice reject "+s.Digest); got != "reject int_1" {
			t.Errorf("the rejection became %q", got)
		}
	})
}
