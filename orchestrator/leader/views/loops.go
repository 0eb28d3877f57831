package views

import (
	"cmp"
	"context"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Loops shows the runs that are loops (api.Loops).
type Loops struct{ Views *Views }

// defaultLoops is the length of a page of loops if nothing else is said.
const defaultLoops = 100

// ListLoops lists loops, the newest first.
func (l *Loops) ListLoops(ctx context.Context, which api.RunList) (loops []loop.View, next string, err error) {
	which.Flow, which.Limit = loop.Flow, cmp.Or(which.Limit, defaultLoops)
	runs, err := l.Views.Runs(ctx, which)
	if err != nil {
		return nil, "", err
	}
	for _, r := range runs {
		v, err := l.describeLoop(ctx, r)
		if err != nil {
			return nil, "", err
		}
		loops = append(loops, v)
	}
	if len(runs) == which.Limit {
		next = runs[len(runs)-1].RunID
	}
	return loops, next, nil
}

// Loop returns the loop of a run.
func (l *Loops) Loop(ctx context.Context, id string) (loop.View, error) {
	r, err := l.Views.Run(ctx, id)
	if err != nil {
		return loop.View{}, err
	}
	if r.Flow != loop.Flow {
		return loop.View{}, fault.NotFound("loop_not_found", "%s is a run of the flow %s, not a loop", r.RunID, r.Flow).WithHint("lattice loop status lists the loops")
	}
	return l.describeLoop(ctx, r)
}

// describeLoop folds the journal of a loop.
func (l *Loops) describeLoop(ctx context.Context, r api.RunView) (loop.View, error) {
	var f loop.Folder
	if err := l.Views.Records.Outline(ctx, r.RunID, 0, f.Add); err != nil {
		return loop.View{}, err
	}
	return r.LoopView().Describe(&f, r.Standing())
}
