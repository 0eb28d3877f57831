package follow

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// ListWaiting lists the runs that wait for a person or a time, and those with actions that their skills asked for.
func ListWaiting(ctx context.Context, c *connect.Conn) ([]timeline.RunWithActions, error) {
	runs, err := c.Runs(ctx, api.RunList{Open: true})
	if err != nil {
		return nil, err
	}
	actions, err := c.Actions(ctx, "*")
	if err != nil {
		return nil, err
	}
	asked := map[string][]api.NotedAction{}
	for _, a := range actions {
		asked[a.RunID] = append(asked[a.RunID], a)
	}
	open := []timeline.RunWithActions{}
	for _, r := range runs {
		if len(r.Waits) > 0 || len(asked[r.RunID]) > 0 {
			open = append(open, timeline.RunWithActions{RunView: r, Actions: asked[r.RunID]})
		}
		delete(asked, r.RunID)
	}
	for _, id := range cli.SortedKeys(asked) { // of runs that have ended
		r, err := c.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		open = append(open, timeline.RunWithActions{RunView: r, Actions: asked[id]})
	}
	return open, nil
}
