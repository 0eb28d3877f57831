package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Decide makes a person's decision a fact and has the run go on. The same decision again changes nothing.
func (l *Leader) Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.DecideReply{}, err
	}
	if err := l.renewSecrets(id, d.Secrets); err != nil {
		return api.DecideReply{}, err
	}
	r, err := l.begun(ctx, id)
	if err != nil {
		return api.DecideReply{}, err
	}
	w, err := openWait(id, r.runner.State(), d.WaitID)
	if err != nil {
		return l.duplicate(ctx, id, d, err)
	}
	fact, err := answer(w, d)
	if err != nil {
		return api.DecideReply{}, err
	}
	switch err := r.runner.Decide(ctx, fact); {
	case errors.Is(err, engine.ErrStale):
		return l.duplicate(ctx, id, api.DecideRequest{WaitID: w.ID, Decision: d.Decision}, notWaiting(id, r.runner.State()))
	case errors.Is(err, engine.ErrAnswer):
		return api.DecideReply{}, api.Refuse(protocol.ExitBadInput, "bad_answer", err.Error(), "")
	case err != nil:
		return api.DecideReply{}, fmt.Errorf("record the decision: %w", err)
	}
	if err := l.drive(ctx, id); err != nil {
		return api.DecideReply{}, err
	}
	v, err := l.view(id)
	return api.DecideReply{WaitID: w.ID, Run: v}, err
}

// openWait picks the wait that a decision is about.
func openWait(id string, s engine.State, want string) (lattice.Wait, error) {
	var ids []string
	for _, w := range s.Waits {
		if w.ID == want || want == "" && len(s.Waits) == 1 {
			return w, nil
		}
		ids = append(ids, w.ID+" ("+w.Node+")")
	}
	if want == "" && len(ids) > 1 {
		return lattice.Wait{}, api.Refuse(protocol.ExitBadInput, "several_waits", fmt.Sprintf("%s waits for several answers: %s", id, strings.Join(ids, ", ")), "--wait ID")
	}
	return lattice.Wait{}, notWaiting(id, s)
}

func notWaiting(id string, s engine.State) error {
	return api.Refuse(protocol.ExitFailed, "not_waiting", fmt.Sprintf("%s does not wait for that; it is %s", id, s.Status), "lattice show "+id)
}

// duplicate answers a decision on a wait that is closed: a no-op when the same was decided before, else refusal.
func (l *Leader) duplicate(ctx context.Context, id string, d api.DecideRequest, refusal error) (api.DecideReply, error) {
	var last *lattice.Answered
	err := l.Entries(ctx, id, 0, func(e lattice.Entry) error {
		if e.Kind != lattice.EntryFact || e.Type != (lattice.Answered{}).FactType() {
			return nil
		}
		f, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return err
		}
		if a := f.(lattice.Answered); d.WaitID == "" || a.WaitID == d.WaitID {
			last = &a
		}
		return nil
	})
	if err != nil {
		return api.DecideReply{}, err
	}
	if last == nil || last.Decision != d.Decision || d.Decision == lattice.Answer {
		return api.DecideReply{}, refusal
	}
	if err := l.drive(ctx, id); err != nil { // an approval whose run was cut off is approved again by people: go on
		return api.DecideReply{}, err
	}
	v, err := l.view(id)
	return api.DecideReply{WaitID: last.WaitID, Duplicate: true, Run: v}, err
}
