package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api/route"
)

// RunWithActions is a run with the actions that its skills asked for without waiting.
type RunWithActions struct {
	RunView
	Actions []NotedAction `json:"actions,omitempty"`
}

// Waiters lists everything that waits. A leader and its client implement it.
type Waiters interface {
	Runs(ctx context.Context, which RunList) ([]RunView, error)
	Run(ctx context.Context, id string) (RunView, error)
	Actions(ctx context.Context, id string) ([]NotedAction, error)
}

// ListWaiting lists the runs that wait for a person or a time, and those with actions that their skills asked for.
func ListWaiting(ctx context.Context, s Waiters) ([]RunWithActions, error) {
	runs, err := s.Runs(ctx, RunList{Open: true})
	if err != nil {
		return nil, err
	}
	actions, err := s.Actions(ctx, allRuns)
	if err != nil {
		return nil, err
	}
	asked := map[string][]NotedAction{}
	for _, a := range actions {
		asked[a.RunID] = append(asked[a.RunID], a)
		if !slices.ContainsFunc(runs, func(r RunView) bool { return r.RunID == a.RunID }) { // it has ended
			r, err := s.Run(ctx, a.RunID)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	open := []RunWithActions{}
	for _, r := range runs {
		if len(r.Waits) > 0 || len(asked[r.RunID]) > 0 {
			open = append(open, RunWithActions{r, asked[r.RunID]})
		}
	}
	return open, nil
}

func approvalRoutes(s Waiters) []route.Route {
	return []route.Route{route.ListAll("/approvals", "List the runs that wait for a person or a time, and those with open actions.", route.After, func(r RunWithActions) string { return r.RunID },
		func(r *http.Request) ([]RunWithActions, error) { return ListWaiting(r.Context(), s) })}
}
