package views

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Loops shows the runs that are loops (api.Loops).
type Loops struct{ Views *Views }

// A list of loops has defaultLoops if nothing else is said, and looks at maxLooked runs at most.
const (
	defaultLoops = 50
	maxLooked    = 500
)

// ListLoops lists loops, the newest first.
func (l *Loops) ListLoops(ctx context.Context, which api.RunList) (loops []loop.View, next string, err error) {
	most := which.Limit
	if most == 0 {
		most = defaultLoops
	}
	which.Limit = 100
	for looked := 0; looked < maxLooked; looked += which.Limit {
		runs, err := l.Views.Runs(ctx, which)
		if err != nil {
			return nil, "", err
		}
		for _, r := range runs {
			which.Before = r.RunID
			if r.Flow != loop.Flow {
				continue
			}
			v, err := l.Loop(ctx, r.RunID)
			if err != nil {
				return nil, "", err
			}
			if loops = append(loops, v); len(loops) == most {
				return loops, which.Before, nil
			}
		}
		if len(runs) < which.Limit {
			return loops, "", nil
		}
	}
	return loops, which.Before, nil
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
	var f loop.Folder
	if err := l.Views.Records.Outline(ctx, r.RunID, 0, f.Add); err != nil {
		return loop.View{}, err
	}
	return r.LoopView().Describe(&f, r.Standing())
}
