package intents

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
)

// An intent whose creation ended after any of its facts goes on by its key with the plan that was recorded, and starts its run.
func TestResumeIntent(t *testing.T) {
	ctx := asPeer(t)
	request := api.IntentRequest{Kind: "health_detect", Key: "cut", Input: json.RawMessage(`{"command":"true"}`)}
	base := func(context.Context, string) (string, policy.Policy, error) { return "", policy.New(""), nil }
	whole := newSchedulers(t).store
	x := &Pipeline{Facts: &govern.Ledger{Store: whole}, Executor: starter{}, BaseOf: base}
	if _, found, err := x.ResumeIntent(ctx, "cut", api.Values{}); err != nil || found {
		t.Errorf("before it is created: found %t, %v", found, err)
	}
	want, err := x.CreateIntent(ctx, request)
	if err != nil || want.Run == "" {
		t.Fatalf("create: %+v, %v", want, err)
	}
	var facts []audit.Entry
	if err := whole.Audit(audit.IntentOf(want.ID), 0, func(e audit.Entry) error { facts = append(facts, e); return nil }); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= len(facts); n++ {
		runs := starter{}
		x := &Pipeline{Facts: &govern.Ledger{Store: newSchedulers(t).store}, Executor: runs, BaseOf: base}
		planned := false
		for _, e := range facts[:n] {
			var f intent.Fact
			if err := json.Unmarshal(e.Body, &f); err != nil {
				t.Fatal(err)
			}
			planned = planned || f.Type == intent.FactPlanned
			if _, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.Intent, Subject: e.Subject, Key: e.Key}, f, store.Any); err != nil {
				t.Fatal(err)
			}
		}
		s, found, err := x.ResumeIntent(ctx, "cut", api.Values{})
		if err != nil || found != planned {
			t.Errorf("after %d facts: found %t, %v; want %t", n, found, err, planned)
		}
		if _, started := runs[want.Run]; found && (s.Run != want.Run || !started) {
			t.Errorf("after %d facts: the run is %q, started %t; want %q", n, s.Run, started, want.Run)
		}
	}
}
