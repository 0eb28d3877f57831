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

// Rewind takes a run back to a moment and has it go on from there (api.Travel). What was done to the world since stays
// done, so that is refused unless it is asked for.
func (l *Leader) Rewind(ctx context.Context, id string, req api.RewindRequest) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := l.renewSecrets(id, req.Secrets); err != nil {
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
			return l.Drive(ctx, id, api.DriveRequest{Secrets: req.Secrets, Detach: req.Detach})
		}
		return api.RunView{}, api.Refuse(protocol.ExitBusy, "rewound_meanwhile", id+" was rewound meanwhile", "lattice show "+id)
	}
	if err := l.idle(id); err != nil {
		return api.RunView{}, err
	}
	if err := l.goBack(ctx, id, r, req); err != nil {
		return api.RunView{}, err
	}
	if err := l.drive(ctx, id); err != nil && !closingNow(err) {
		return api.RunView{}, err
	}
	l.detach(id, req.Detach)
	return l.view(id)
}

// goBack appends the fact. Nothing is pruned meanwhile: the sprite that was found is there when the run is active again.
func (l *Leader) goBack(ctx context.Context, id string, r *run, req api.RewindRequest) error {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	fact, err := l.wayBack(ctx, id, req)
	if err != nil {
		return err
	}
	if err := r.runner.Rewind(ctx, fact); err != nil {
		return fmt.Errorf("rewind run %s: %w", id, err)
	}
	return nil
}

// wayBack finds the moment, and whatever speaks against going there.
func (l *Leader) wayBack(ctx context.Context, id string, req api.RewindRequest) (lattice.Rewound, error) {
	p, err := l.past(id)
	if err != nil {
		return lattice.Rewound{}, err
	}
	pt, err := l.reach(ctx, p, req.To)
	if err != nil {
		return lattice.Rewound{}, err
	}
	if len(pt.Effects) > 0 && !req.AcrossEffects {
		return lattice.Rewound{}, api.Refuse(protocol.ExitUnsafe, "effects_behind",
			fmt.Sprintf("since %s#%d the run changed what lies outside of its sprite, and going back does not undo that: %s", pt.Node, pt.Visit, strings.Join(pt.Effects, ", ")),
			"--across-effects goes back all the same; what is done again then is done twice")
	}
	if err := l.spriteFreeFor(id, p.kept.Sprite); err != nil {
		return lattice.Rewound{}, err
	}
	state, err := engine.StateAt(p.program, id, p.facts, pt)
	if err != nil {
		return lattice.Rewound{}, fmt.Errorf("rewind run %s: %w", id, err)
	}
	body, err := state.Encode()
	return lattice.Rewound{Moment: pt.Moment, Pair: pt.Pair, State: body, By: req.By}, err
}

// rewoundTo reports whether the last rewind of a run went to a moment of that name.
func (l *Leader) rewoundTo(id, spec string) (bool, error) {
	facts, _, _, err := l.store.Load(id)
	if err != nil {
		return false, fmt.Errorf("load run %s: %w", id, err)
	}
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
