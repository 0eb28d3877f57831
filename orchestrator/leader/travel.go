package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// travel goes back in runs, copies them and compares their moments (api.Travel).
type travel struct {
	store   *store.Store
	client  *sprites.Client
	session interface {
		Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error)
	}
	disk    func() string
	records *records
	states  *states
	views   *views
	drives  *drives
	values  *values
	runs    *runs
	copies  *copies
	pruner  *pruner
}

// loadPast reads a run's past, and asks the host what has become of the files.
func (t *travel) loadPast(ctx context.Context, id string) (past, error) {
	p, err := t.states.readPast(id)
	if err != nil {
		return p, err
	}
	return p, errors.Join(t.markRestored(ctx, p), t.states.markTorn(p))
}

// markRestored marks moments whose files would be those in the sprite, if somebody has put the sprite back since: the host
// keeps the state before in a checkpoint of its own.
func (t *travel) markRestored(ctx context.Context, p past) error {
	if len(p.facts) == 0 || !slices.ContainsFunc(p.points, func(pt replay.Point) bool { return pt.Files == replay.FilesUnchanged }) {
		return nil
	}
	if v, err := t.views.build(p.ID); err != nil || v.Status == lattice.Running {
		return err // its own way back may have been cut off
	}
	all, err := t.client.AllCheckpoints(ctx, p.Sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the checkpoints of sprite %s: %w", p.Sprite, err)
	}
	last := p.facts[len(p.facts)-1].At
	for _, c := range all {
		if c.IsAuto && c.CreateTime.After(last) {
			p.lose(c.CreateTime, fmt.Sprintf("sprite %s was restored by hand since; what it held then is its checkpoint %s", p.Sprite, c.ID))
		}
	}
	return nil
}

// listCheckpoints says which checkpoints a run's sprite has; found is false when the sprite is gone.
func (t *travel) listCheckpoints(ctx context.Context, sprite string) (ids map[string]bool, found bool, err error) {
	if sprite == "" {
		return nil, false, nil
	}
	all, err := t.client.Checkpoints(ctx, sprite)
	switch {
	case errors.Is(err, sprites.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("look for the checkpoints of sprite %s: %w", sprite, err)
	}
	ids = make(map[string]bool, len(all))
	for _, c := range all {
		ids[c.ID] = true
	}
	return ids, true, nil
}

// Moments lists where a run's nodes began (api.Travel).
func (t *travel) Moments(ctx context.Context, id string) ([]api.Moment, error) {
	id, err := t.records.resolve(id)
	if err != nil {
		return nil, err
	}
	p, err := t.loadPast(ctx, id)
	if err != nil {
		return nil, err
	}
	ids, found, err := t.listCheckpoints(ctx, p.Sprite)
	if err != nil {
		return nil, err
	}
	out := make([]api.Moment, len(p.points))
	for i, pt := range p.points {
		out[i] = p.judged(pt, ids, found)
	}
	return out, nil
}

// findReachable finds a moment that can be gone to.
func (t *travel) findReachable(ctx context.Context, p past, spec string) (replay.Point, error) {
	pt, err := p.find(spec)
	if err != nil {
		return pt, err
	}
	ids, found, err := t.listCheckpoints(ctx, p.Sprite)
	if err != nil {
		return pt, err
	}
	if why := missing(pt, p.Sprite, ids, found); why != "" {
		return pt, fault.NotFound("moment_unavailable", "%s cannot go back to %s#%d: %s", p.ID, pt.Node, pt.Visit, why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
	}
	return pt, nil
}

// Replay tells a run again by its journal (api.Travel).
func (t *travel) Replay(_ context.Context, id string, journal []lattice.Entry) (api.Replay, error) {
	id, err := t.records.resolve(id)
	if err != nil {
		return api.Replay{}, err
	}
	rec, err := t.records.load(id)
	if err != nil {
		return api.Replay{}, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return api.Replay{RunID: id, Diverged: &api.Divergence{What: "program", Message: "the recorded program is not valid: " + findings[0].Message}}, nil
	}
	kept, err := t.store.Load(id)
	if err != nil {
		return api.Replay{}, fmt.Errorf("load run %s: %w", id, err)
	}
	recorded, replayed := kept.Facts, history(kept)
	if journal != nil {
		replayed.Facts = journal
	}
	told, err := replay.Verify(program, id, rec.Secret, replayed)
	if err != nil {
		return api.Replay{}, err
	}
	if d := replay.Differs(recorded, replayed.Facts); d != nil && (told.Diverged == nil || told.Diverged.Seq == 0 || d.Seq <= told.Diverged.Seq) {
		told.Diverged = d
	}
	out := api.Replay{RunID: id, OK: told.Diverged == nil, Facts: told.Facts, StateSum: told.StateSum}
	if told.Diverged != nil {
		d := api.Divergence(*told.Diverged)
		out.Diverged = &d
	}
	return out, nil
}
