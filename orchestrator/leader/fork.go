package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// maxForks bounds the runs of one request: each has a sprite.
const maxForks = 64

// Fork starts runs that go on from a moment of another one (api.Travel). The moment's checkpoint belongs to the other
// run's sprite; each new run copies it with its first command.
func (l *Leader) Fork(ctx context.Context, id string, req api.ForkRequest) ([]api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return nil, err
	}
	switch {
	case req.N < 1 || req.N > maxForks:
		return nil, fault.BadInput("bad_input", "%d copies of a run: from 1 to %d can be made at once", req.N, maxForks)
	case !startKey.MatchString(req.Key):
		return nil, fault.BadInput("bad_request", "the key of a fork is 16 letters and digits")
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	ids, err := l.recordForks(ctx, id, req)
	if err != nil {
		return nil, err
	}
	views := make([]api.RunView, len(ids))
	for n, id := range ids {
		if err := l.drive(ctx, id); err != nil && !closingNow(err) {
			return nil, err
		}
		l.detach(id, req.Detach)
		if views[n], err = l.view(id); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// recordForks records all runs of a request before the first is driven, and nothing is pruned meanwhile: those that end
// soon do not take the sprite away that the others have yet to copy. A request that comes again after a crash goes on from
// the moment that it meant then.
func (l *Leader) recordForks(ctx context.Context, id string, req api.ForkRequest) ([]string, error) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	p, err := l.past(ctx, id)
	if err != nil {
		return nil, err
	}
	ids := make([]string, req.N)
	var first *lattice.RunForked
	for n := range ids {
		ids[n] = lattice.ForkedRun(req.Key, n)
		if rec, err := l.record(ids[n]); err == nil {
			first = rec.kept.Fork
			l.keepValues(ids[n], rec.kept.AgentEnv, req.Values)
			continue
		}
		if first == nil {
			if first, err = l.forkPoint(ctx, p, req); err != nil {
				return nil, err
			}
		}
		if err := l.recordFork(ctx, p, *first, ids[n], req); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// forkPoint is the first fact of the runs, but for what is each one's own.
func (l *Leader) forkPoint(ctx context.Context, p past, req api.ForkRequest) (*lattice.RunForked, error) {
	pt, err := l.reach(ctx, p, req.At)
	if err != nil {
		return nil, err
	}
	state, err := engine.StateAt(p.program, p.ID, p.facts, pt)
	if err != nil {
		return nil, fmt.Errorf("fork run %s: %w", p.ID, err)
	}
	body, err := state.Encode()
	if err != nil {
		return nil, err
	}
	f := &lattice.RunForked{Program: p.program.Digest, From: p.ID, Moment: pt.Moment, Pair: pt.Pair, State: body, Set: req.Set}
	trial := *f
	trial.Pair = nil
	if _, _, err := engine.Step(p.program, engine.New(""), trial); errors.Is(err, engine.ErrAnswer) {
		return nil, fault.BadInput("bad_input", "%s", strings.TrimPrefix(err.Error(), engine.ErrAnswer.Error()+": ")).WithHint("--set x=text or --set 'x:=[1,2]' writes $vars.x")
	}
	if pt.Files != engine.FilesNone {
		if err := l.canCopy(ctx, p.Sprite); err != nil {
			return nil, err
		}
	}
	if pt.Files == engine.FilesUnchanged {
		if err := l.idle(ctx, p.ID); err != nil {
			return nil, err
		}
		pair, err := l.session.Checkpoint(ctx, p.Sprite)
		if err != nil {
			return nil, err
		}
		f.Pair = &pair
	}
	return f, nil
}

// recordFork records one of the runs.
func (l *Leader) recordFork(ctx context.Context, p past, f lattice.RunForked, id string, req api.ForkRequest) error {
	o := p.kept
	o.ResumedFrom, o.Fork = "", &f
	o.AgentEnv = slices.Clone(o.AgentEnv)
	if o.WorkItem == p.ID {
		o.WorkItem = id
	}
	if f.Pair != nil || p.program.CallsSkills() {
		o.Sprite, o.OwnSprite = ownSprite(id), true
	}
	own, err := json.Marshal(map[string]any{"run_id": id, "work_item_id": o.WorkItem})
	if err != nil {
		return fmt.Errorf("encode $ctx: %w", err)
	}
	f.RunID, f.WorkItem, f.Sprite, f.Ctx = id, o.WorkItem, o.Sprite, own
	if o.Sprite != "" {
		f.Disk = l.disk()
	}
	_, secret, err := newRun("")
	if err != nil {
		return err
	}
	o.Values = api.Values{}
	if req.Models != nil && o.Models != nil {
		now := req.Models.Only(p.program.ModelClasses())
		o.Models = &now
	}
	kept, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	l.keepValues(id, o.AgentEnv, req.Values)
	if err := l.store.Create(ctx, store.RunRecord{
		ID: id, WorkItem: o.WorkItem, Created: time.Now(), Program: p.Program, Secret: secret, Options: kept, Sprite: o.Sprite,
	}); err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	return nil
}

// copier is the engine.Forker.
type copier struct{ l *Leader }

// Fork makes a copy of a sprite ready: that of a forked run, in which nothing speaks of the other run as if it were this
// one, or that of an item of a MAP.
func (c copier) Fork(ctx context.Context, run string, from lattice.Pair, to string) (map[string]any, error) {
	l := c.l
	rec, err := l.record(run)
	if err != nil {
		return nil, err
	}
	if err := l.skillsRefused(rec.kept.Options); err != nil {
		return nil, err
	}
	label := ownerLabel(run)
	if to != rec.Sprite {
		label = copyLabel(run)
	}
	if err := l.ensureCopy(ctx, label, from, to); err != nil {
		return nil, err
	}
	if err := l.session.Equip(ctx, to); err != nil {
		return nil, err
	}
	// What was told in the other sprite is not told again in this one.
	err = l.client.Rename(ctx, to, "/workspace/"+protocol.OutboxFile, "/workspace/"+protocol.OutboxFile+"."+from.Sprite)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("put the outbox of %s aside: %w", from.Sprite, err)
	}
	if to != rec.Sprite {
		return map[string]any{}, nil
	}
	if err := l.renameTask(ctx, to, run); err != nil {
		return nil, err
	}
	members := map[string]any{"sprite": to}
	var then struct {
		Ctx map[string]any `json:"ctx"`
	}
	if err := json.Unmarshal(rec.kept.Fork.State, &then); err != nil {
		return nil, fmt.Errorf("read the state of run %s: %w", rec.kept.Fork.From, err)
	}
	if repo, ok := then.Ctx["repo"].(map[string]any); ok {
		repo = maps.Clone(repo)
		repo["push_branch"] = "lattice/" + run
		members["repo"] = repo
	}
	return members, nil
}

// noCopies is why a host that does not fork refuses.
func noCopies() protocol.Fault {
	return protocol.Fault{Code: "unsupported", Message: "this Sprites API copies no sprites, so there are no forks of runs in it and no items with sprites of their own", Hint: "the embedded host does: unset SPRITES_API_URL"}
}

// canCopy refuses where the host copies no sprites, before anything is recorded. It asks for what no host does: a copy that
// bears the name of the sprite itself.
func (l *Leader) canCopy(ctx context.Context, sprite string) error {
	if _, err := l.client.Fork(ctx, sprite, sprites.Current, sprite, ""); cannotFork(err) {
		f := noCopies()
		return fault.Unsupported(f.Code, "%s", f.Message).WithHint("%s", f.Hint)
	}
	return nil
}

// admitCopies refuses a flow whose nodes want sprites of their own where the host copies none, before anything is recorded.
// A host may look for the sprite before it looks for the call, so that one which exists is asked about, where there is one.
func (l *Leader) admitCopies(ctx context.Context, flow *compile.Flow, sprite string) error {
	nodes := flow.Program.CopiesSprites()
	if len(nodes) == 0 || l.host != nil {
		return nil
	}
	if sprite == "" {
		all, err := l.client.List(ctx, "")
		if err != nil {
			return fmt.Errorf("ask whether sprites can be copied: %w", err)
		}
		sprite = "lattice-none"
		if len(all) > 0 {
			sprite = all[0].Name
		}
	}
	err := l.canCopy(ctx, sprite)
	var refused *fault.Error
	if errors.As(err, &refused) {
		var names []string
		for _, n := range nodes {
			names = append(names, n.ID)
		}
		refused.Fault.Message += fmt.Sprintf(`, which "sprite": "fork" asks for at %s`, strings.Join(names, ", "))
	}
	return err
}

// copyLabel marks the copies of a run's sprite that its items have.
func copyLabel(run string) string { return "lattice-copy:" + run }

func (l *Leader) ensureCopy(ctx context.Context, label string, from lattice.Pair, to string) error {
	made, err := l.client.Get(ctx, to)
	if errors.Is(err, sprites.ErrNotFound) {
		made, err = l.client.Fork(ctx, from.Sprite, from.CheckpointID, to, label)
	}
	switch {
	case err == nil && slices.Contains(made.Labels, label):
		return nil
	case err == nil:
		return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_taken", Message: "sprite " + to + " belongs to somebody else"}}
	case cannotFork(err):
		return &lattice.Refusal{Fault: noCopies()}
	case errors.Is(err, sprites.ErrNotFound):
		return &lattice.Refusal{Fault: protocol.Fault{Code: "checkpoint_gone", Message: err.Error()}}
	}
	return fmt.Errorf("copy sprite %s: %w", from.Sprite, err)
}

// dropCopies removes the copies that a run's items and calls had, but for those that are to stay. Those of a failed run are
// kept with its own sprite, to be looked into.
func (l *Leader) dropCopies(ctx context.Context, run, sprite string, stay []string) error {
	if sprite == "" {
		return nil
	}
	all, err := l.client.List(ctx, copyPrefix(sprite))
	if err != nil {
		return fmt.Errorf("look for copies of sprite %s: %w", sprite, err)
	}
	for _, s := range all {
		if slices.Contains(s.Labels, copyLabel(run)) && !slices.Contains(stay, s.Name) {
			err = errors.Join(err, l.client.Delete(ctx, s.Name))
		}
	}
	return err
}

// copiesOf lists the copies that the items of a failed run left; none where the host does not say.
func (l *Leader) copiesOf(ctx context.Context, v api.RunView) []string {
	if v.Status != lattice.Failed || v.Sprite == "" {
		return nil
	}
	all, err := l.client.List(ctx, copyPrefix(v.Sprite))
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		if slices.Contains(s.Labels, copyLabel(v.RunID)) {
			names = append(names, s.Name)
		}
	}
	return names
}

// copyPrefix is how the names of a sprite's copies begin; see the engine.
func copyPrefix(sprite string) string { return fmt.Sprintf("%.40s-", sprite) }

// maxTask bounds a task.json, which what runs in the sprite may have written.
const maxTask = 1 << 20

// renameTask has task.json name the new run.
func (l *Leader) renameTask(ctx context.Context, sprite, run string) error {
	path := "/workspace/" + protocol.TaskFile
	data, err := l.client.ReadFile(ctx, sprite, path, maxTask)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read task.json: %w", err)
	}
	task, err := ir.Decode(data)
	members, ok := task.(map[string]any)
	if err != nil || !ok {
		return nil // what runs in a sprite may write it
	}
	members["run_id"] = run
	if data, err = ir.Marshal(members); err != nil {
		return fmt.Errorf("encode task.json: %w", err)
	}
	if err := l.client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write task.json: %w", err)
	}
	return nil
}
