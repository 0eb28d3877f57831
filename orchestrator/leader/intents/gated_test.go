package intents

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
)

// Intents that people have to approve are found by their subject, whose case does not matter, until they are decided. Each change of one is
// told; those of intents without a subject, or that start at once, are not.
func TestGatedIntents(t *testing.T) {
	told := 0
	open := newPipelines(t, "")
	x := open()
	x.Changed = func(subject string) {
		if told++; !strings.EqualFold(subject, "main:acme/site#1") {
			t.Errorf("a change of %q is told", subject)
		}
	}
	create := func(kind, subject string) intent.State {
		t.Helper()
		s, err := x.CreateIntent(t.Context(), api.IntentRequest{Kind: kind, Subject: subject, Repo: "/r", Key: kind + subject})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	gated := func(want ...string) {
		t.Helper()
		all, err := open().GatedIntents(t.Context(), "main:Acme/Site#1")
		var got []string
		for _, s := range all {
			got = append(got, s.ID)
		}
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the gated intents are %v, %v, want %v", got, err, want)
		}
	}
	create("health_detect", "main:acme/site#1")
	create("sprite_task_exec", "")
	gated()
	if told != 0 {
		t.Error("changes of intents that do not ask are told")
	}
	one, two := create("pr_create_from_plan", "main:acme/site#1"), create("health_remediate", "main:acme/site#1")
	gated(one.ID, two.ID)
	if told != 2 {
		t.Errorf("%d changes are told", told)
	}
	if _, err := x.DecideIntent(t.Context(), one.ID, api.IntentDecision{Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	gated(two.ID)
	if _, err := x.DecideIntent(t.Context(), two.ID, api.IntentDecision{Decision: "approve", Plan: two.Digest}); err != nil {
		t.Fatal(err)
	}
	gated()
	if told < 4 {
		t.Errorf("%d changes are told", told)
	}
}
