package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Rewind takes a run back to a moment and has it go on from there (api.Travel). What was done to the world since stays
// done, so that is refused unless it is asked for.
func (l *Leader) Rewind(ctx context.Context, id string, req api.RewindRequest) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := l.renewValues(id, req.Values); err != nil {
		return api.RunView{}, err
	}
	if err := l.settle(ctx); err != nil {
		return api.RunView{}, err
	}
	r, err := l.begun(ctx, id)
	if err != nil {
		return api.RunView{}, err
	}
	if epoch := r.runner.State().Epoch; epoch != req.Epoch {
		if done, err := l.rewoundTo(id, req.To); err != nil || done && epoch == req.Epoch+1 {
			if err != nil {
				return api.RunView{}, err
			}
			return l.Drive(ctx, id, api.DriveRequest{Values: req.Values, Detach: req.Detach})
		}
		return api.RunView{}, fault.Busy("rewound_meanwhile", "%s was rewound meanwhile", id).WithHint("lattice show %s", id)
	}
	if err := l.idle(ctx, id); err != nil {
		return api.RunView{}, err
	}
	notice, err := l.goBack(ctx, id, r, req)
	if err != nil {
		return api.RunView{}, err
	}
	if err := l.drive(ctx, id); err != nil && !closingNow(err) {
		return api.RunView{}, err
	}
	l.detach(id, req.Detach)
	view, err := l.view(id)
	view.Notice = notice
	return view, err
}

// goBack appends the fact, and says what whoever asked for it should know. Nothing is pruned meanwhile: the sprite that
// was found is there when the run is active again.
func (l *Leader) goBack(ctx context.Context, id string, r *run, req api.RewindRequest) ([]string, error) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	fact, notice, err := l.wayBack(ctx, id, req)
	if err != nil {
		return nil, err
	}
	fact.Models = l.renewedModels(r, req.Models)
	if err := r.runner.Rewind(ctx, fact); err != nil {
		return nil, fmt.Errorf("rewind run %s: %w", id, err)
	}
	if fact.Models != nil {
		l.mu.Lock()
		r.models = fact.Models
		l.mu.Unlock()
	}
	return notice, nil
}

// wayBack finds the moment, whatever speaks against going there, and what stays as it is.
func (l *Leader) wayBack(ctx context.Context, id string, req api.RewindRequest) (lattice.Rewound, []string, error) {
	p, err := l.past(ctx, id)
	if err != nil {
		return lattice.Rewound{}, nil, err
	}
	pt, err := l.reach(ctx, p, req.To)
	if err != nil {
		return lattice.Rewound{}, nil, err
	}
	if len(pt.Effects) > 0 && !req.AcrossEffects {
		return lattice.Rewound{}, nil, fault.Unsafe("effects_behind", "since %s#%d the run changed what lies outside of its sprite, and going back does not undo that: %s", pt.Node, pt.Visit, strings.Join(effectTexts(pt.Effects), ", ")).WithHint("--across-effects goes back all the same: what is done again is done twice, and what is pushed again goes to another branch; lattice fork leaves this run as it is")
	}
	if err := l.spriteFreeFor(id, p.kept.Sprite); err != nil {
		return lattice.Rewound{}, nil, err
	}
	state, err := engine.StateAt(p.program, id, p.facts, pt)
	if err != nil {
		return lattice.Rewound{}, nil, fmt.Errorf("rewind run %s: %w", id, err)
	}
	var notice []string
	for _, e := range pt.Effects {
		notice = append(notice, "what was done outside stays: "+e.String())
		if e.Branch != "" && ownBranch(e.Branch, id) == "" {
			notice = append(notice, fmt.Sprintf("the flow names the branch %s itself: merge or delete it there, or the next push to it is refused (not_fast_forward)", e.Branch))
		}
	}
	if branch, renamed := pushElsewhere(&state, id, req.Epoch, pt.Effects); renamed {
		notice = append(notice, "its next push goes to "+branch+": the branch before has what was pushed already")
	}
	body, err := state.Encode()
	return lattice.Rewound{Moment: pt.Moment, Pair: pt.Pair, State: body, By: req.By, Disk: l.disk()}, notice, err
}

// pushElsewhere gives the run another branch of its own where it has pushed to the one before: what is pushed stays, and
// what comes now does not follow from it.
func pushElsewhere(then *engine.State, run string, epoch int, effects []engine.WorldEffect) (branch string, renamed bool) {
	repo, ok := then.Ctx["repo"].(map[string]any)
	before, _ := repo["push_branch"].(string)
	if !ok || ownBranch(before, run) == "" || !slices.ContainsFunc(effects, func(e engine.WorldEffect) bool { return ownBranch(e.Branch, run) != "" }) {
		return "", false
	}
	branch = fmt.Sprintf("%s%s-%d", branchPrefix, run, epoch+2) // the first one had no number
	repo = maps.Clone(repo)
	repo["push_branch"] = branch
	then.Ctx = maps.Clone(then.Ctx)
	then.Ctx["repo"] = repo
	return branch, true
}

// branchPrefix begins the names of the branches that runs push to by themselves; behind it stands the run, and a number
// once it was taken back behind a push.
const branchPrefix = "lattice/"

// ownBranch is the name behind the prefix of a branch that is the run's own, "" of any other.
func ownBranch(branch, run string) string {
	name, ok := strings.CutPrefix(branch, branchPrefix)
	if ok && (name == run || strings.HasPrefix(name, run+"-")) {
		return name
	}
	return ""
}

// rewoundTo reports whether the last rewind of a run went to a moment of that name.
func (l *Leader) rewoundTo(id, spec string) (bool, error) {
	history, err := l.store.Load(id)
	if err != nil {
		return false, fmt.Errorf("load run %s: %w", id, err)
	}
	facts := history.Facts
	node, _, _ := strings.Cut(spec, "#")
	for i := len(facts) - 1; i >= 0; i-- {
		fact, err := lattice.DecodeFact(facts[i].Type, facts[i].Body)
		if err != nil {
			return false, err
		}
		if back, ok := fact.(lattice.Rewound); ok {
			return back.Moment.Node == node, nil
		}
	}
	return false, errors.New("a run of a later epoch was never rewound")
}
