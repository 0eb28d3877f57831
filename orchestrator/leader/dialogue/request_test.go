package dialogue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestDecideIntents approves and rejects intents that ask in a thread. Their runs are offered the values that the settings hand to agents, and no others.
func TestDecideIntents(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		host := w.Talk.Hosts["main"]
		host.Secrets = map[string]string{"MODEL_KEY": "k", "OTHER": "o"}
		w.Talk.Hosts["main"] = host
		one, two := w.Gate("int_1", "Paint it."), w.Gate("int_2", "Burn it.")
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
			if got := w.Say(c.who, c.text); !strings.HasPrefix(got, c.outcome) {
				t.Errorf("%s: %q became %q, not %q", c.who, c.text, got, c.outcome)
			}
			if got := w.Done(); !strings.HasPrefix(got, c.did) || (got == "") != (c.did == "") {
				t.Errorf("%s: %q did %q, not %q", c.who, c.text, got, c.did)
			}
		}
		w.Gated = w.Gated[:1]
		if got := w.Say("wilma", "/lattice reject defaced words"); got != "reject int_1" || !strings.Contains(w.Done(), " defaced words ") {
			t.Errorf("a rejection whose reason begins with hexadecimal letters became %q", got)
		}
		w.Gate("int_3", "Wash it.")
		w.FailNext = fault.Busy("plan_changed", "the plan has changed")
		if got := w.Say("wilma", "/lattice approve "+one.Digest); got != "refused: the plan has changed" {
			t.Errorf("a plan that has changed became %q", got)
		}
	})
}

// TestTickIntent ticks boxes of the questions about two intents: a rejection is of the one whose box was ticked.
func TestTickIntent(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		w.Gate("int_1", "Paint it.")
		s := w.NewScribe()
		w.Show(s, "Paint it.")
		question := w.Replies()[0]
		if strings.Contains(question, "secret text") || !strings.Contains(question, `"trigger.md"`) {
			t.Errorf("the question shows\n%s", question)
		}
		w.Gate("int_2", "Burn it.")
		w.Show(s, "Paint it.", "Burn it.")
		id := w.Comment(threadtest.Repository, "bot", w.Issue, question)
		w.Handle()
		w.EditComment(threadtest.Repository, "wilma", id, strings.Replace(question, "- [ ] reject", "- [x] reject", 1))
		if got := w.Handle(); got != "reject int_1" || !strings.HasPrefix(w.Done(), "reject int_1 ") {
			t.Errorf("the outcome is %q", got)
		}
		w.Gated = nil
		w.EditComment(threadtest.Repository, "wilma", id, strings.Replace(question, "- [ ] approve", "- [x] approve", 1))
		if got := w.Handle(); !strings.HasPrefix(got, "refused: ") || w.Done() != "" {
			t.Errorf("after the decision, the outcome is %q", got)
		}
	})
}

// TestOffered creates the intent for a plan with the input of the settings, the plan and the context of the issue.
func TestOffered(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		run := api.RunView{RunID: "run_1", WorkItem: threadtest.Name, Flow: "issue-triage", IntentID: "int_0", Status: lattice.Succeeded, Outputs: []byte(`{"plan":"1. Paint it."}`)}
		name, _ := thread.Parse(threadtest.Name)
		host := w.Talk.Hosts["main"]
		host.Work = api.IntentRequest{Input: []byte(`{"agent":"claude"}`)}
		w.Talk.Hosts["main"] = host
		files := []string{"README"}
		w.Talk.Files = func(context.Context, string) ([]string, error) { return files, nil }
		_, err := w.Talk.Offer(t.Context(), name, run)
		if p := fault.As(err); p == nil || p.Code != "work_settings" || !strings.Contains(p.Message, "[forges.main]") {
			t.Errorf("without tests, the error is %v", err)
		}
		files = []string{"go.mod"}
		if s, err := w.Talk.Offer(t.Context(), name, run); err != nil || s.ID != "int_1" {
			t.Errorf("the intent is %q, %v", s.ID, err)
		}
		for _, want := range []string{"intent pr_create_from_plan " + threadtest.Name, `"agent":"claude"`, `1. Paint it."`, `"title":"It hangs"`, `"body":"Closes #1.`} {
			if got := strings.Join(w.Did, "\n"); !strings.Contains(got, want) {
				t.Errorf("the intent lacks %q: %s", want, got)
			}
		}
		w.Done()
		run.Flow = "improvement"
		if s, err := w.Talk.Offer(t.Context(), name, run); err != nil || s.ID != "" || w.Done() != "" {
			t.Errorf("the output of another flow led to %q, %v", s.ID, err)
		}
		host.WorkLacks = "set an agent"
		w.Talk.Hosts["main"] = host
		run.Flow = "issue-triage"
		if _, err := w.Talk.Offer(t.Context(), name, run); err == nil || err.Error() != "set an agent" {
			t.Errorf("without an agent, the error is %v", err)
		}
	})
}

// TestLongPlan approves a plan that is longer than a comment shows: it is refused, and may be rejected.
func TestLongPlan(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		s := w.Gate("int_1", strings.Repeat("Paint it. ", 3000))
		w.Show(w.NewScribe(), "longer than a comment shows")
		if got := w.Replies()[0]; strings.Contains(got, "/lattice approve") || len(got) > 60_000 {
			t.Errorf("the question is\n%s", got)
		}
		if got := w.Say("wilma", "/lattice approve "+s.Digest); !strings.HasPrefix(got, "refused: the plan of int_1 is longer") || w.Done() != "" {
			t.Errorf("the approval became %q", got)
		}
		if got := w.Say("wilma", "/lattice reject "+s.Digest); got != "reject int_1" {
			t.Errorf("the rejection became %q", got)
		}
	})
}

// TestLongWait approves a request of a run that is longer than a comment shows: it is refused, and may be rejected. It keeps no other
// question from being asked.
func TestLongWait(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		long := lattice.Wait{ID: "w1", Kind: lattice.WaitAction, Prompt: "It asks.", Action: &lattice.Action{Name: "USE_TOOL", Parameters: []byte(`{"arguments":"ls #` + strings.Repeat("word ", 12_000) + `; rm -rf /"}`)}}
		digest := w.SetWait(long)
		w.Known[0].Waits = append(w.Known[0].Waits, lattice.Wait{ID: "w2", Kind: lattice.WaitHuman, Prompt: strings.Repeat("`", 60_000)}, lattice.Wait{ID: "w3", Kind: lattice.WaitHuman, Prompt: "Go on?"})
		w.Show(w.NewScribe(), "waits for a person", "longer than a comment shows", "longer than a comment shows", "Go on?")
		if got := w.Say("wilma", "/lattice approve "+digest); !strings.HasPrefix(got, "refused: the request of run_1 is longer") || w.Done() != "" {
			t.Errorf("the approval became %q", got)
		}
		if got := w.Say("wilma", "/lattice reject "+digest); got != "reject run_1" || !strings.HasPrefix(w.Done(), "reject run_1 w1") {
			t.Errorf("the rejection became %q", got)
		}
	})
}

// TestAnswerOfYesOrNo answers questions that can be approved: an approval names the digest, so that an answer is none.
func TestAnswerOfYesOrNo(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		yesOrNo := map[string]string{"approved": "boolean", "comments": "string"}
		for _, c := range []struct {
			wait          lattice.Wait
			text, outcome string
		}{
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo, Optional: []string{"comments"}}, "yes", "refused: an answer does not approve"},
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo, Optional: []string{"comments"}}, "approved: true", "refused: an answer does not approve"},
			{lattice.Wait{Kind: lattice.WaitSkill, Expected: yesOrNo}, "approved: Y\ncomments: fine", "refused: an answer does not approve"},
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo, Optional: []string{"comments"}}, "approved: No\ncomments: not now", "answer run_1"},
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"approved": "string"}}, "yes", "answer run_1"},
			{lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"go": "boolean"}}, "yes", "answer run_1"},
		} {
			c.wait.ID = "w1"
			w.SetWait(c.wait)
			if got := w.Say("wilma", "/lattice answer "+c.text); !strings.HasPrefix(got, c.outcome) || (w.Done() == "") != strings.HasPrefix(c.outcome, "refused") {
				t.Errorf("%v: the answer %q became %q", c.wait.Expected, c.text, got)
			}
		}
	})
}
