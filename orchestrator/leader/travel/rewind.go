package travel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Rewind takes a run back to a moment and drives it from there (api.Travel). Effects on the world are not undone, so that
// Rewind refuses to cross them unless req.AcrossEffects is set.
func (t *Travel) Rewind(ctx context.Context, id string, req api.RewindRequest) (api.RunView, error) {
	id, err := t.Records.Resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := t.Starter.RenewValues(id, req.Values); err != nil {
		return api.RunView{}, err
	}
	if err := t.Drives.AwaitHandover(ctx); err != nil {
		return api.RunView{}, err
	}
	r, err := t.Drives.LoadBegun(ctx, id)
	if err != nil {
		return api.RunView{}, err
	}
	if epoch := r.Runner.State().Epoch; epoch != req.Epoch {
		if done, err := t.Records.WasRewoundTo(id, req.To); err != nil || done && epoch == req.Epoch+1 {
			if err != nil {
				return api.RunView{}, err
			}
			return t.Starter.Drive(ctx, id, api.DriveRequest{Values: req.Values, Detach: req.Detach})
		}
		return api.RunView{}, fault.Busy("rewound_meanwhile", "%s was rewound by another command", id).WithHint("lattice show %s", id)
	}
	if err := t.Drives.AwaitIdle(ctx, id); err != nil {
		return api.RunView{}, err
	}
	notice, err := t.appendRewind(ctx, id, r, req)
	if err != nil {
		return api.RunView{}, err
	}
	if err := t.Drives.Drive(ctx, id); err != nil && !drive.ClosingNow(err) {
		return api.RunView{}, err
	}
	t.Drives.Detach(id, req.Detach)
	view, err := t.Views.Build(id)
	view.Notice = notice
	return view, err
}

// appendRewind appends the fact and returns notices for the person. It holds back removals, so that the sprite that it found
// exists when the run is active again.
func (t *Travel) appendRewind(ctx context.Context, id string, r *drive.Loaded, req api.RewindRequest) ([]string, error) {
	defer t.Pruner.Suspend()()
	fact, notice, err := t.planRewind(ctx, id, req)
	if err != nil {
		return nil, err
	}
	fact.Models = t.Drives.RenewModels(r, req.Models)
	if err := r.Runner.Rewind(ctx, fact); err != nil {
		return nil, fmt.Errorf("rewind run %s: %w", id, err)
	}
	if fact.Models != nil {
		t.Drives.SetModels(r, fact.Models)
	}
	return notice, nil
}

// planRewind finds the moment, checks that the run can go back to it, and returns the fact with notices for the person.
func (t *Travel) planRewind(ctx context.Context, id string, req api.RewindRequest) (lattice.Rewound, []string, error) {
	p, err := t.loadPast(ctx, id)
	if err != nil {
		return lattice.Rewound{}, nil, err
	}
	pt, err := t.findReachable(ctx, p, req.To)
	if err != nil {
		return lattice.Rewound{}, nil, err
	}
	if len(pt.Effects) > 0 && !req.AcrossEffects {
		return lattice.Rewound{}, nil, fault.Unsafe("effects_behind", "since %s#%d the run changed what lies outside of its sprite, and going back does not undo that: %s", pt.Name(), pt.Visit, strings.Join(history.EffectTexts(pt.Effects), ", ")).WithHint("--across-effects goes back all the same: what is done again is done twice, and what is pushed again goes to another branch; lattice fork leaves this run as it is")
	}
	if err := t.States.CheckSpriteFree(id, p.Kept.Sprite); err != nil {
		return lattice.Rewound{}, nil, err
	}
	state, err := replay.StateAt(p.Parsed, id, p.Facts, pt)
	if err != nil {
		return lattice.Rewound{}, nil, fmt.Errorf("rewind run %s: %w", id, err)
	}
	var notice []string
	for _, e := range pt.Effects {
		notice = append(notice, "done outside and not undone: "+e.String())
		if e.Branch != "" && history.OwnBranch(e.Branch, id) == "" {
			notice = append(notice, fmt.Sprintf("the flow names the branch %s itself: merge or delete it there, or the next push to it is refused (not_fast_forward)", e.Branch))
		}
	}
	if branch, renamed := pushElsewhere(&state, id, req.Epoch, pt.Effects); renamed {
		notice = append(notice, "its next push goes to "+branch+": the former branch keeps the earlier push")
	}
	body, err := state.Encode()
	return lattice.Rewound{Moment: pt.Moment, Pair: pt.Pair, State: body, By: req.By, Disk: t.Disk()}, notice, err
}

// pushElsewhere gives the run another branch of its own if it has pushed to the former one: the pushed commits stay, and new
// ones do not descend from them.
func pushElsewhere(then *runstate.State, run string, epoch int, effects []replay.WorldEffect) (branch string, renamed bool) {
	repo, ok := then.Ctx["repo"].(map[string]any)
	before, _ := repo["push_branch"].(string)
	if !ok || history.OwnBranch(before, run) == "" || !slices.ContainsFunc(effects, func(e replay.WorldEffect) bool { return history.OwnBranch(e.Branch, run) != "" }) {
		return "", false
	}
	branch = fmt.Sprintf("%s%s-%d", history.BranchPrefix, run, epoch+2) // the first one had no number
	repo = maps.Clone(repo)
	repo["push_branch"] = branch
	then.Ctx = maps.Clone(then.Ctx)
	then.Ctx["repo"] = repo
	return branch, true
}
