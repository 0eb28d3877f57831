package dialogue

import (
	"context"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// handlePull cancels the runs of a pull request that people took over: it has a commit that lattice did not push, or it is
// closed.
func (d *Dialogue) handlePull(ctx context.Context, host string, e hook.Delivery) (string, error) {
	t := thread.Thread{Host: host, Repo: e.Repo, Number: e.Number}
	opened, err := d.Facts.RunsOfPull(host, e.Repo, e.Number)
	if err != nil || len(opened) == 0 {
		return "nothing to do", err
	}
	client, self, err := d.connect(ctx, host)
	if err != nil {
		return settleError(err)
	}
	if e.Sender.ID == self.ID {
		return "nothing to do: lattice did it", nil
	}
	now, err := client.Pull(ctx, e.Repo, e.Number) // the delivery may be late
	if err != nil {
		return settleError(err)
	}
	runs, err := thread.FindRuns(ctx, d.Runs, d.Facts, t, 0)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.Status.Ended() || !slices.Contains(opened, r.RunID) {
			continue
		}
		pulls, err := d.Facts.Pulls(r.RunID)
		if err != nil {
			return "", err
		}
		why := ""
		for _, p := range pulls {
			switch {
			case !thread.OfPull(p).Same(t):
			case !now.Open:
				why = "closed the pull request"
			case e.Action == hook.Synchronized && now.Head.SHA != p.Head && e.Head != p.Head:
				why = fmt.Sprintf("pushed %.12s", now.Head.SHA)
			}
		}
		if why == "" {
			continue
		}
		if _, err := d.Runs.Cancel(ctx, r.RunID, thread.NameUser(host, e.Sender)+", who "+why); err != nil {
			return "", err
		}
		return fmt.Sprintf("canceled %s: %s %s", r.RunID, e.Sender.Login, why), nil
	}
	return "nothing to do", nil
}
