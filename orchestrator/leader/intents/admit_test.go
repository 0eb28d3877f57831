package intents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
)

// newPipelines returns a function that makes pipelines of one store, each like one of a process of its own, under a policy.
func newPipelines(t *testing.T, text string) func() *Pipeline {
	t.Helper()
	layer, findings := policy.Parse("policy.toml", []byte(text))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	ledger, runs := &govern.Ledger{Store: newSchedulers(t).store}, &canceler{runs: map[string]string{}}
	return func() *Pipeline {
		return &Pipeline{Facts: ledger, Executor: runs, BaseOf: func(context.Context, string) (string, policy.Policy, error) {
			return "c0ffee", policy.New("", layer), nil
		}}
	}
}

// canceler is an Executor that remembers which runs were canceled.
type canceler struct {
	mu   sync.Mutex
	runs map[string]string
}

func (c *canceler) Start(_ context.Context, r api.RunRequest) (api.RunView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.DryRun && c.runs["run_"+r.Key] == "" {
		c.runs["run_"+r.Key] = "running"
	}
	return api.RunView{}, nil
}

func (c *canceler) Run(_ context.Context, id string) (v api.RunView, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[id] == "" {
		return v, fault.NotFound("run_not_found", "there is no run %s", id)
	}
	v.RunID, v.Status = id, "running"
	if c.runs[id] == "canceled" {
		v.Status = "canceled"
	}
	return v, nil
}

func (c *canceler) Cancel(ctx context.Context, id, _ string) (api.RunView, error) {
	c.mu.Lock()
	c.runs[id] = "canceled"
	c.mu.Unlock()
	return c.Run(ctx, id)
}

// as returns the context of a request of a token.
func as(ctx context.Context, token string) context.Context {
	return caller.With(ctx, audit.Who{Name: "token:" + token, UID: -1})
}

// The check reads the intents of the last hour and not those before: here, the older ones cannot be read at all.
func TestRateReadsTheLastHourOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPipelines(t, "rate.intents_per_hour = 3")()
		ctx := as(t.Context(), "ann")
		for i := range 2*pageSize + 1 {
			id := fmt.Sprintf("in_damaged%d", i)
			if _, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.Intent, Subject: audit.IntentOf(id), Key: "intent:" + id}, "damaged", 0); err != nil {
				t.Fatal(err)
			}
		}
		old := intent.Fact{Type: intent.FactProposed, ID: "in_old", Kind: "sprite_task_exec"}
		if _, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.Intent, Subject: audit.IntentOf("in_old"), Key: "intent:in_old"}, old, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(window)
		for i := range 3 {
			if _, err := x.CreateIntent(ctx, api.IntentRequest{Kind: "sprite_task_exec", Key: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := x.CreateIntent(ctx, api.IntentRequest{Kind: "sprite_task_exec", Key: "3"}); fault.As(err) == nil || fault.As(err).Code != "too_many_intents" {
			t.Errorf("the fourth: %v", err)
		}
		n := 0
		for _, err := range x.listBefore("in_old") {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 2*pageSize+1 {
			t.Errorf("%d intents are listed before in_old, want %d", n, 2*pageSize+1)
		}
	})
}

// A person or token creates as many intents in an hour as the policy allows. A refusal is an entry of the audit log; it concerns
// no other person, no repeated request, and no later hour.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPipelines(t, "rate.intents_per_hour = 3")()
		create := func(token, key string) error {
			_, err := x.CreateIntent(as(t.Context(), token), api.IntentRequest{Kind: "sprite_task_exec", Key: key})
			return err
		}
		for i := range 3 {
			if err := create("bot", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
		}
		for range 50 {
			f := fault.As(create("bot", "fourth"))
			if f == nil || f.Code != "too_many_intents" || !f.Retryable || !strings.Contains(f.Hint, "policy.toml:1: rate.intents_per_hour") || !strings.Contains(f.Hint, "wait for 30m0s") {
				t.Fatalf("the fourth: %+v", f)
			}
		}
		if err := errors.Join(create("bot", "2"), create("person", "a")); err != nil {
			t.Errorf("the same request again, and another person: %v", err)
		}
		refused := 0
		if err := x.Facts.Store.Audit("intents", 0, func(e audit.Entry) error {
			refused++
			if e.Kind != audit.IntentRefused || e.Who.String() != "token:bot" {
				t.Errorf("entry %+v", e)
			}
			return nil
		}); err != nil || refused != 1 {
			t.Errorf("%d entries about refusals in one minute, %v", refused, err)
		}
		if all, err := x.Intents(t.Context(), "", 0); err != nil || len(all) != 4 {
			t.Errorf("%d intents, %v", len(all), err)
		} else if page, err := x.Intents(t.Context(), all[1].ID, 1); err != nil || len(page) != 1 || page[0].ID != all[2].ID {
			t.Errorf("the third intent is %+v, %v", page, err)
		}
		time.Sleep(30 * time.Minute)
		if err := create("bot", "fourth"); err != nil {
			t.Errorf("an hour after the first: %v", err)
		}
	})
}

// Of many requests at once, through several processes, as many intents remain as the policy allows.
func TestRateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline := newPipelines(t, "rate.intents_per_hour = 5")
		var made atomic.Int64
		var all sync.WaitGroup
		for i := range 24 {
			x := pipeline()
			all.Go(func() {
				switch _, err := x.CreateIntent(as(t.Context(), "bot"), api.IntentRequest{Kind: "sprite_task_exec", Key: fmt.Sprint(i)}); {
				case err == nil:
					made.Add(1)
				case fault.As(err) == nil || fault.As(err).Code != "too_many_intents":
					t.Error(err)
				}
			})
		}
		all.Wait()
		list, err := pipeline().Intents(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		alive := 0
		for _, s := range list {
			if s.Status == intent.Gated {
				alive++
			}
		}
		if made.Load() != 5 || alive != 5 {
			t.Errorf("%d requests were admitted and %d intents wait, want 5", made.Load(), alive)
		}
	})
}

// A newer intent about the same subject cancels older ones: those that wait for approval at once, and a run that works when its
// own run starts. Another subject, kind or repository is not concerned.
func TestSupersede(t *testing.T) {
	x := newPipelines(t, "")()
	ctx := t.Context()
	create := func(kind, subject, repo string) string {
		t.Helper()
		s, err := x.CreateIntent(ctx, api.IntentRequest{Kind: kind, Subject: subject, Repo: repo, Key: kind + subject + repo + fmt.Sprint(time.Now().UnixNano())})
		if err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	status := func(id string) string {
		t.Helper()
		s, err := x.Intent(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return string(s.Status) + " " + s.Reason
	}
	approve := func(id string) error {
		_, err := x.DecideIntent(ctx, id, api.IntentDecision{Decision: "approve"})
		return err
	}
	first := create("doc_update", "issue-7", "/r")
	others := []string{create("doc_update", "issue-8", "/r"), create("doc_update", "issue-7", "/s"), create("pr_create_from_plan", "issue-7", "/r"),
		create("doc_update", "", "/r"), create("doc_update", "", "/r"), create("sprite_task_exec", "issue-7", ""), create("sprite_task_exec", "issue-7", "")}
	second := create("doc_update", "issue-7", "/r")
	if got := status(first); got != "canceled superseded by "+second {
		t.Errorf("the first is %q", got)
	}
	if f := fault.As(approve(first)); f == nil || f.Code != "intent_state" || !strings.Contains(f.Message, "superseded by "+second) {
		t.Errorf("approve the first: %+v", f)
	}
	if err := approve(second); err != nil {
		t.Fatal(err)
	}
	third := create("doc_update", "issue-7", "/r")
	if got := status(second); got != "executing " {
		t.Errorf("a request alone stopped a run: it is %q", got)
	}
	if err := approve(third); err != nil {
		t.Fatal(err)
	}
	if got := status(second); !strings.HasPrefix(got, "canceled") {
		t.Errorf("the second is %q after the third began", got)
	}
	if got := status(third); got != "executing " {
		t.Errorf("the third is %q", got)
	}
	// A newer push cancels the check that an older one began.
	older, newer := create("doc_detect", "schedule docs", "/r"), create("doc_detect", "schedule docs", "/r")
	if got := status(older); !strings.HasPrefix(got, "canceled") {
		t.Errorf("the check of the older push is %q", got)
	}
	if got := status(newer); got != "executing " {
		t.Errorf("the check of the newer push is %q", got)
	}
	for _, id := range others {
		if got := status(id); got != "gated " {
			t.Errorf("another intent is %q", got)
		}
	}
}

// If a crash kept the newer intent from canceling the older one, the approval of the older one is refused and cancels it.
func TestSupersedeAfterCrash(t *testing.T) {
	x := newPipelines(t, "")()
	ctx := t.Context()
	older, err := x.CreateIntent(ctx, api.IntentRequest{Kind: "doc_update", Subject: "issue-7", Repo: "/r", Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, last, err := x.findNewest(older)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.IntentNewest, Subject: aboutOf(older), Key: "newest:int_b"}, newestFact{"int_b"}, last); err != nil {
		t.Fatal(err)
	}
	_, err = x.DecideIntent(ctx, older.ID, api.IntentDecision{Decision: "approve"})
	if f := fault.As(err); f == nil || f.Code != "superseded" || !strings.Contains(f.Message, "int_b") {
		t.Errorf("approve = %v", err)
	}
	if s, err := x.Intent(ctx, older.ID); err != nil || s.Status != intent.Canceled || s.Run != "" {
		t.Errorf("the older one is %s with the run %q, %v", s.Status, s.Run, err)
	}
}

// An intent waits for weeks. The approval by which its run starts is judged when it is given: the first of two approvals has
// expired by then, and the next process starts one run.
func TestThreeWeeksOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline := newPipelines(t, "intents.sprite_task_exec.approve = { people = 2, expires = '72h' }")
		approve := func(token, id string) (intent.State, error) {
			return pipeline().DecideIntent(as(t.Context(), token), id, api.IntentDecision{Decision: "approve"})
		}
		s, err := pipeline().CreateIntent(as(t.Context(), "bot"), api.IntentRequest{Kind: "sprite_task_exec", Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		incomplete := func(err error) bool { return fault.As(err) != nil && fault.As(err).Code == "approval_incomplete" }
		if _, err := approve("ada", s.ID); !incomplete(err) {
			t.Fatalf("the first approval: %v", err)
		}
		time.Sleep(21 * 24 * time.Hour)
		if _, err := approve("ben", s.ID); !incomplete(err) {
			t.Fatalf("an approval after three weeks: %v, and the first one has expired", err)
		}
		for range 3 { // the same approval again changes nothing
			if s, err = approve("ada", s.ID); err != nil || s.Status != intent.Executing {
				t.Fatalf("the second approval: %s, %v", s.Status, err)
			}
		}
		x := pipeline()
		if runs := x.Executor.(*canceler).runs; len(runs) != 1 || runs[s.Run] != "running" {
			t.Errorf("runs %v, want the one of the intent", runs)
		}
	})
}
