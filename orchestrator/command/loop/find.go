package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

// isLoop reports whether a run is a loop.
func isLoop(v api.RunView) bool { return v.Flow == loop.Flow }

// isOpenLoop reports whether a run is a loop that has not ended.
func isOpenLoop(v api.RunView) bool { return isLoop(v) && !v.Status.Ended() }

// completeLoops completes the runs of loops.
func completeLoops(env *setup.Env, keep func(api.RunView) bool) cobra.CompletionFunc {
	return complete.Runs(env, keep)
}

// nameOf returns the name of a loop.
func nameOf(v api.RunView) string { return v.LoopView().Name }

// findLoop returns the loop that has a name, the newest of several. Without a name it is the newest that keep accepts; a command that
// changes a loop refuses to choose among several.
func findLoop(ctx context.Context, c *connect.Conn, name string, changes bool, keep func(api.RunView) bool) (api.RunView, error) {
	if strings.HasPrefix(name, "run_") {
		v, err := c.Run(ctx, name)
		if err == nil && !isLoop(v) {
			return v, fault.NotFound("loop_not_found", "%s is a run of the flow %s, not a loop", name, v.Flow).WithHint("lattice show %s", name)
		}
		return v, err
	}
	all, err := candidates(ctx, c, name)
	if err != nil {
		return api.RunView{}, err
	}
	if len(all) == 0 {
		if name == "" {
			return api.RunView{}, fault.NotFound("loop_not_found", "there is no loop").WithHint("lattice loop start --repo . --spec FILE --agent NAME")
		}
		return api.RunView{}, fault.NotFound("loop_not_found", "there is no loop %q", name).WithHint("lattice loop status lists the loops")
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(v api.RunView) bool { return !keep(v) })
	switch {
	case len(chosen) == 0:
		chosen = all
	case changes && name == "" && len(chosen) > 1:
		var names []string
		for _, v := range chosen {
			names = append(names, nameOf(v))
		}
		return api.RunView{}, fault.BadInput("bad_input", "there are %d loops: %s", len(chosen), strings.Join(names, ", ")).WithHint("name one of them")
	}
	return c.Run(ctx, chosen[0].RunID)
}

// recent is the number of the newest loops among which a command without a name looks, besides those that have not ended.
const recent = 10

// candidates returns the loops that have a name, or those that a command without one can mean, newest first.
func candidates(ctx context.Context, c *connect.Conn, name string) ([]api.RunView, error) {
	if name != "" {
		return c.Runs(ctx, api.RunList{Flow: loop.Flow, WorkItem: name})
	}
	all, err := c.Runs(ctx, api.RunList{Flow: loop.Flow, Limit: recent})
	if err != nil {
		return nil, err
	}
	open, err := c.Runs(ctx, api.RunList{Flow: loop.Flow, Open: true})
	listed := map[string]bool{}
	for _, v := range all {
		listed[v.RunID] = true
	}
	return append(all, slices.DeleteFunc(open, func(v api.RunView) bool { return listed[v.RunID] })...), err
}

// inspectLoop folds the journal of a loop.
func inspectLoop(ctx context.Context, c *connect.Conn, v api.RunView) (loop.View, error) {
	view := v.LoopView()
	var f loop.Folder
	if err := c.Outline(ctx, v.RunID, 0, f.Add); err != nil {
		return view, err
	}
	view, err := view.Describe(&f, v.Standing())
	if p := v.Problem; err == nil && p != nil && p.Code == "budget_exhausted" && view.Status == loop.Interrupted {
		return withoutBudget(view, p), nil
	}
	return view, err
}

// withoutBudget returns the view of a loop whose next call does not fit a budget of the policy, which may be that of all forks of
// its run, of a repository or of a day.
func withoutBudget(v loop.View, p *fault.Error) loop.View {
	var about struct {
		Unit string `json:"unit"`
	}
	v.Status, v.Reason = loop.Outcome(loops.DecideMaxCost), p.Message
	if json.Unmarshal(p.Details, &about) == nil && about.Unit == "time" {
		v.Status = loop.Outcome(loops.DecideMaxDuration)
	}
	v = v.Complete()
	raise, _, _ := strings.Cut(p.Hint, ";")
	v.Next = []string{raise, "lattice loop resume " + v.Name}
	return v
}

const exitCodes = `
Exit codes: 0 done or ok, 10 blocked, 11 max iterations, 12 max cost, 13 stuck, 14 repeated error, 15 crashed, 75 needs input,
124 max duration, 130 stopped; and 1 failed, 2 bad input, 3 not found, 6 busy, 7 unsafe.`
