package travel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/runs"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxForks bounds the runs of one request; each has a sprite.
const maxForks = 64

// Fork starts runs from a moment of another run (api.Travel). The checkpoint belongs to the sprite of that run; the first
// command of each new run copies it.
func (t *Travel) Fork(ctx context.Context, id string, req api.ForkRequest) ([]api.RunView, error) {
	id, err := t.Records.Resolve(id)
	if err != nil {
		return nil, err
	}
	switch {
	case req.N < 1 || req.N > maxForks:
		return nil, fault.BadInput("bad_input", "%d copies of a run: from 1 to %d can be made at once", req.N, maxForks)
	case !history.StartKey().MatchString(req.Key):
		return nil, fault.BadInput("bad_request", "the key of a fork is 16 letters and digits")
	}
	if err := t.Drives.AwaitHandover(ctx); err != nil {
		return nil, err
	}
	ids, err := t.recordForks(ctx, id, req)
	if err != nil {
		return nil, err
	}
	views := make([]api.RunView, len(ids))
	for n, id := range ids {
		if err := t.Drives.Drive(ctx, id); err != nil && !drive.ClosingNow(err) {
			return nil, err
		}
		t.Drives.Detach(id, req.Detach)
		if views[n], err = t.Views.Build(id); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// recordForks records all runs of a request before the first is driven, and holds back removals: a run that ends soon must not
// cause the removal of the sprite that the others still have to copy. A request that is repeated after a crash continues
// from the same moment.
func (t *Travel) recordForks(ctx context.Context, id string, req api.ForkRequest) ([]string, error) {
	defer t.Pruner.Suspend()()
	p, err := t.loadPast(ctx, id)
	if err != nil {
		return nil, err
	}
	ids := make([]string, req.N)
	var first *lattice.RunForked
	for n := range ids {
		ids[n] = lattice.ForkedRun(req.Key, n)
		if rec, err := t.Records.Load(ids[n]); err == nil {
			first = rec.Kept.Fork
			t.Values.Keep(ids[n], rec.Kept.AgentEnv, req.Values)
			continue
		}
		if first == nil {
			if first, err = t.buildForkFact(ctx, p, req); err != nil {
				return nil, err
			}
		}
		if err := t.recordFork(ctx, p, *first, ids[n], req); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// buildForkFact returns the first fact of the new runs, without the members that differ between them.
func (t *Travel) buildForkFact(ctx context.Context, p history.Past, req api.ForkRequest) (*lattice.RunForked, error) {
	pt, err := t.findReachable(ctx, p, req.At)
	if err != nil {
		return nil, err
	}
	state, err := replay.StateAt(p.Parsed, p.ID, p.Facts, pt)
	if err != nil {
		return nil, fmt.Errorf("fork run %s: %w", p.ID, err)
	}
	variables, err := replaceInput(p.Parsed, &state, req.Set)
	if err != nil {
		return nil, err
	}
	body, err := state.Encode()
	if err != nil {
		return nil, err
	}
	f := &lattice.RunForked{Program: p.Parsed.Digest, From: p.ID, Moment: pt.Moment, Pair: pt.Pair, State: body, Set: variables}
	trial := *f
	trial.Pair = nil
	if _, _, err := engine.Step(p.Parsed, runstate.New(""), trial); errors.Is(err, engine.ErrAnswer) {
		return nil, fault.BadInput("bad_input", "%s", strings.TrimPrefix(err.Error(), engine.ErrAnswer.Error()+": ")).WithHint("--set x=text or --set 'x:=[1,2]' writes $vars.x, and --set '$in.x=text' the run's input x")
	}
	if pt.Files != replay.FilesNone {
		if err := t.Copies.CheckSupport(ctx, p.Sprite); err != nil {
			return nil, err
		}
	}
	if pt.Files == replay.FilesUnchanged {
		if err := t.Drives.AwaitIdle(ctx, p.ID); err != nil {
			return nil, err
		}
		pair, err := t.Session.Checkpoint(ctx, p.Sprite)
		if err != nil {
			return nil, err
		}
		f.Pair = &pair
	}
	return f, nil
}

// replaceInput writes the members of the input that set names into the state of a moment, and returns the other assignments. The
// steps before the moment have read the former input.
func replaceInput(p *ir.Program, state *runstate.State, set []lattice.Assignment) (variables []lattice.Assignment, err error) {
	former, _ := state.In.(map[string]any)
	input := maps.Clone(former)
	for _, a := range set {
		root, names, exact, ok := expr.SplitRef(a.Path)
		if !ok || root != "$in" {
			variables = append(variables, a)
			continue
		}
		if !exact || len(names) != 1 {
			return nil, fault.BadInput("bad_input", "%s cannot be changed: name one whole input", a.Path).WithHint("--set '$in.x:={…}' replaces the input x")
		}
		value, err := expr.Decode(a.Value)
		if err != nil {
			return nil, fault.BadInput("bad_input", "value of %s: %v", a.Path, err)
		}
		if input == nil {
			input = map[string]any{}
		}
		input[names[0]] = value
	}
	if len(variables) == len(set) {
		return variables, nil
	}
	state.In = input
	return variables, runs.CheckInput(p, input)
}

// recordFork records one of the runs.
func (t *Travel) recordFork(ctx context.Context, p history.Past, f lattice.RunForked, id string, req api.ForkRequest) error {
	o := p.Kept
	o.ResumedFrom, o.Fork = "", &f
	o.Account, o.Session = cmp.Or(o.Account, p.WorkItem), cmp.Or(o.Session, p.ID)
	o.AgentEnv = slices.Clone(o.AgentEnv)
	if o.WorkItem == p.ID {
		o.WorkItem = id
	}
	then, err := runstate.Decode(f.State)
	if input, ok := then.In.(map[string]any); ok && err == nil {
		o.Begin.Input, err = expr.Marshal(input) // for a run that begins with an answer
	}
	if err != nil {
		return err
	}
	if f.Pair != nil || p.Parsed.CallsSkills() {
		o.Sprite, o.OwnSprite = history.OwnSprite(id), true
	}
	own, err := json.Marshal(map[string]any{"run_id": id, "work_item_id": o.WorkItem})
	if err != nil {
		return fmt.Errorf("encode $ctx: %w", err)
	}
	f.RunID, f.WorkItem, f.Sprite, f.Ctx = id, o.WorkItem, o.Sprite, own
	if o.Sprite != "" {
		f.Disk = t.Disk()
	}
	_, secret, err := runs.NewRun("")
	if err != nil {
		return err
	}
	o.Values = api.Values{}
	if req.Models != nil && o.Models != nil {
		now := req.Models.Only(p.Parsed.ModelClasses())
		o.Models = &now
	}
	kept, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	t.Values.Keep(id, o.AgentEnv, req.Values)
	if err := t.Starter.Ledger.RecordRun(ctx, id, o.FlowName, o.Repo, p.ID); err != nil {
		return err
	}
	if err := t.Store.Create(ctx, store.RunRecord{
		ID: id, WorkItem: o.WorkItem, Created: time.Now(), Program: p.Program, Secret: secret, Options: kept, Sprite: o.Sprite,
	}); err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	return nil
}
