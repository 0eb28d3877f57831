package leader

import (
	"context"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Runs lists runs, newest first.
func (l *Leader) Runs(_ context.Context, which api.RunList) ([]api.RunView, error) {
	if which.Before != "" {
		before, err := l.resolve(which.Before)
		if err != nil {
			return nil, err
		}
		which.Before = before
	}
	listed, err := l.list(which)
	if err != nil {
		return nil, err
	}
	views := make([]api.RunView, 0, len(listed))
	for _, r := range listed {
		v, err := l.view(r.ID)
		if err != nil {
			return nil, err
		}
		if which.Open && v.Status.Ended() {
			continue
		}
		if views = append(views, v); which.Limit > 0 && len(views) == which.Limit {
			break
		}
	}
	return views, nil
}

// list returns the records of runs; of open ones there may be more than were asked for.
func (l *Leader) list(which api.RunList) ([]store.RunRecord, error) {
	if !which.Open {
		return l.store.Recent(which.Before, which.Limit)
	}
	open, err := l.store.Open()
	if err != nil || which.Before == "" {
		return open, err
	}
	before, err := l.store.Record(which.Before)
	return slices.DeleteFunc(open, func(r store.RunRecord) bool { return !r.Created.Before(before.Created) }), err
}
