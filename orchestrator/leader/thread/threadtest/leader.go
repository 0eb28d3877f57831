package threadtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Leader stands for the leader: it has the runs Known, and notes the calls in Did.
type Leader struct {
	mu       sync.Mutex
	Known    []api.RunView
	Did      []string
	FailNext error // the answer to the next request
	// Gated are the intents that people have to approve.
	Gated []intent.State
	// Infos are the payloads of the INFO events of a run.
	Infos []string

	Changed chan api.RunView
}

// Mu returns the lock of the fields, for tests whose requests go on.
func (l *Leader) Mu() *sync.Mutex { return &l.mu }

func (l *Leader) noteCall(what ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.FailNext
	if l.FailNext = nil; err == nil {
		l.Did = append(l.Did, strings.Join(what, " "))
	}
	return err
}

func (l *Leader) Runs(_ context.Context, which api.RunList) ([]api.RunView, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.Known), func(r api.RunView) bool { return r.WorkItem != which.WorkItem }), nil
}

func (l *Leader) Run(_ context.Context, id string) (api.RunView, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.Known, func(r api.RunView) bool { return r.RunID == id })
	if i < 0 {
		return api.RunView{}, fault.NotFound("run_not_found", "there is no run %s", id)
	}
	return l.Known[i], nil
}

func (l *Leader) Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error) {
	what := []string{string(d.Decision), id, d.WaitID, d.Comments, "by", caller.Of(ctx).Name}
	if d.Typed != nil {
		what = append(what, string(d.Typed))
	}
	for _, name := range []string{"answer", "colour"} {
		if v, ok := d.Inputs[name]; ok {
			what = append(what, name+"="+v)
		}
	}
	return api.DecideReply{}, l.noteCall(what...)
}

func (l *Leader) Drive(_ context.Context, id string, _ api.DriveRequest) (api.RunView, error) {
	return api.RunView{}, l.noteCall("drive", id)
}
func (l *Leader) Stop(_ context.Context, id string) (api.RunView, error) {
	return api.RunView{}, l.noteCall("stop", id)
}
func (l *Leader) Cancel(_ context.Context, id, by string) (api.RunView, error) {
	return api.RunView{}, l.noteCall("cancel", id, by)
}
func (l *Leader) CreateIntent(_ context.Context, r api.IntentRequest) (intent.State, error) {
	return intent.State{ID: "int_1"}, l.noteCall("intent", r.Kind, r.Subject, string(r.Input))
}

func (l *Leader) Intent(_ context.Context, id string) (intent.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.Gated {
		if s.ID == id {
			return s, nil
		}
	}
	if id != "int_0" {
		return intent.State{}, fault.NotFound("intent_not_found", "there is no intent %s", id)
	}
	return intent.State{ID: id, Kind: "issue_triage", Subject: Name, ProposedBy: &audit.Who{Name: "main:7"}, Plan: intent.Plan{Input: []byte(`{"title":"It hangs"}`)}}, nil
}

func (l *Leader) Intents(ctx context.Context, _ string, _ int) ([]intent.State, error) {
	return l.GatedIntents(ctx, "")
}

func (l *Leader) GatedIntents(context.Context, string) ([]intent.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.Gated), nil
}

func (l *Leader) DecideIntent(ctx context.Context, id string, d api.IntentDecision) (intent.State, error) {
	return intent.State{}, l.noteCall(d.Decision, id, d.Plan, d.Reason, fmt.Sprint(d.Secrets), "by", caller.Of(ctx).Name)
}

func (l *Leader) ResumeIntent(context.Context, string, api.Values) (s intent.State, found bool, err error) {
	return s, false, nil
}

func (l *Leader) Updates(ctx context.Context, _ lattice.Seq, yield func(api.RunView) error) error {
	for {
		select {
		case v := <-l.Changed:
			if err := yield(v); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Entries yields an event with each of the payloads that the test has set.
func (l *Leader) Entries(_ context.Context, _ string, _ lattice.Seq, yield func(lattice.Entry) error) error {
	for n, payload := range l.Infos {
		body := fmt.Sprintf(`{"protocol_version":"v1","event_type":"INFO","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-02T03:04:05Z","payload":%s}`, payload)
		if err := yield(lattice.Entry{Seq: lattice.Seq(n + 1), Kind: lattice.EntryEvent, Type: "INFO", Body: []byte(body)}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Leader) Outline(context.Context, string, lattice.Seq, func(lattice.Entry) error) error {
	return nil
}
