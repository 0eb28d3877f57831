// Package travel goes back in runs, forks them, compares their moments and replays them. Start with Travel; Reviewer shows the
// content of what a run changed or asks to push.
package travel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/runs"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Travel rewinds and forks runs, and compares their moments (api.Travel).
type Travel struct {
	Store   *store.Store
	Client  *sprites.Client
	Session interface {
		Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error)
	}
	Disk    func() string
	Records *history.Records
	States  *history.States
	Views   *views.Views
	Drives  *drive.Drives
	Values  *drive.Values
	Starter *runs.Starter
	Copies  *retention.Copies
	Pruner  *retention.Pruner
}

// loadPast reads the past of a run, and asks the host which files are left.
func (t *Travel) loadPast(ctx context.Context, id string) (history.Past, error) {
	p, err := t.States.ReadPast(id)
	if err != nil {
		return p, err
	}
	return p, errors.Join(t.markRestored(ctx, p), t.States.MarkTorn(p), t.Records.ReadTurns(&p))
}

// markRestored marks the moments that have their files in the sprite as lost if a person has restored the sprite since: the
// host keeps the state before in an automatic checkpoint.
func (t *Travel) markRestored(ctx context.Context, p history.Past) error {
	if len(p.Facts) == 0 || !slices.ContainsFunc(p.Points, func(pt replay.Point) bool { return pt.Files == replay.FilesUnchanged }) {
		return nil
	}
	if v, err := t.Views.Build(p.ID); err != nil || v.Status == lattice.Running {
		return err // its own way back may have been cut off
	}
	all, err := t.Client.AllCheckpoints(ctx, p.Sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the checkpoints of sprite %s: %w", p.Sprite, err)
	}
	last := p.Facts[len(p.Facts)-1].At
	for _, c := range all {
		if c.IsAuto && c.CreateTime.After(last) {
			p.Lose(c.CreateTime, fmt.Sprintf("sprite %s was restored by hand since; its files of then are its checkpoint %s", p.Sprite, c.ID))
		}
	}
	return nil
}

// listCheckpoints returns the ids of a sprite's checkpoints; found is false if the sprite is gone.
func (t *Travel) listCheckpoints(ctx context.Context, sprite string) (ids map[string]bool, found bool, err error) {
	if sprite == "" {
		return nil, false, nil
	}
	all, err := t.Client.Checkpoints(ctx, sprite)
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

// loadReachable returns the history of a run, and the checkpoints of its sprite, as listCheckpoints does.
func (t *Travel) loadReachable(ctx context.Context, id string) (p history.Past, ids map[string]bool, found bool, err error) {
	if id, err = t.Records.Resolve(id); err != nil {
		return p, nil, false, err
	}
	if p, err = t.loadPast(ctx, id); err != nil {
		return p, nil, false, err
	}
	ids, found, err = t.listCheckpoints(ctx, p.Sprite)
	return p, ids, found, err
}

// Moments lists the moments of a run (api.Travel).
func (t *Travel) Moments(ctx context.Context, id string) ([]api.Moment, error) {
	p, ids, found, err := t.loadReachable(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]api.Moment, len(p.Points))
	for i, pt := range p.Points {
		out[i] = p.Judged(pt, ids, found)
	}
	return out, nil
}

// Turns lists the turns of a run's agents (api.Travel).
func (t *Travel) Turns(ctx context.Context, id string) ([]api.Turn, error) {
	p, ids, found, err := t.loadReachable(ctx, id)
	if err != nil {
		return nil, err
	}
	return p.JudgedTurns(ids, found), nil
}

// ValuesAt returns the values of a run at a moment (api.Travel).
func (t *Travel) ValuesAt(ctx context.Context, id, at string) (api.RunValues, error) {
	id, err := t.Records.Resolve(id)
	if err != nil {
		return api.RunValues{}, err
	}
	p, err := t.loadPast(ctx, id)
	if err != nil {
		return api.RunValues{}, err
	}
	var state runstate.State
	if at == "" {
		folded, err := replay.Fold(p.Parsed, id, p.Facts)
		if err != nil {
			return api.RunValues{}, err
		}
		state = folded.State
	} else {
		pt, err := p.Find(at)
		if err != nil {
			return api.RunValues{}, err
		}
		if state, err = replay.StateAt(p.Parsed, id, p.Facts, pt); err != nil {
			return api.RunValues{}, err
		}
	}
	out := api.RunValues{RunID: id}
	in, _ := state.In.(map[string]any)
	if out.In, err = encodeMembers(in); err == nil {
		out.Vars, err = encodeMembers(state.Vars)
	}
	return out, err
}

// encodeMembers encodes each member of an object.
func encodeMembers(object map[string]any) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(object))
	for name, value := range object {
		raw, err := expr.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		out[name] = raw
	}
	return out, nil
}

// findReachable finds a moment by name, and fails if it is not available.
func (t *Travel) findReachable(ctx context.Context, p history.Past, spec string) (replay.Point, error) {
	pt, err := p.Find(spec)
	if err != nil {
		return pt, err
	}
	ids, found, err := t.listCheckpoints(ctx, p.Sprite)
	if err != nil {
		return pt, err
	}
	if why := history.Missing(pt, p.Sprite, ids, found); why != "" {
		return pt, p.Refuse(spec, pt, why, ids, found)
	}
	return pt, nil
}

// Replay replays the journal of a run and compares the outcome (api.Travel).
func (t *Travel) Replay(_ context.Context, id string, journal []lattice.Entry) (api.Replay, error) {
	id, err := t.Records.Resolve(id)
	if err != nil {
		return api.Replay{}, err
	}
	rec, err := t.Records.Load(id)
	if err != nil {
		return api.Replay{}, err
	}
	program, err := t.Records.Parse(rec)
	if err != nil {
		return api.Replay{RunID: id, Diverged: &api.Divergence{What: "program", Message: err.Error()}}, nil
	}
	kept, err := t.Store.Load(id)
	if err != nil {
		return api.Replay{}, fmt.Errorf("load run %s: %w", id, err)
	}
	recorded, replayed := kept.Facts, history.NewHistory(kept)
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
