package runs

import (
	"context"
	"slices"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/spritekit/fault"
)

// claims holds the work items for which runs are being started that want to be alone.
type claims struct {
	mu   sync.Mutex
	held map[string]bool
}

// take adds a claim, and reports whether there was none.
func (c *claims) take(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[name] {
		return false
	}
	if c.held == nil {
		c.held = map[string]bool{}
	}
	c.held[name] = true
	return true
}

func (c *claims) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, name)
}

// claimWorkItem keeps other runs of a flow for a work item from starting until release is called, and fails if there is an open
// one. The run is recorded before release, so that of two runs that start at the same moment only one is recorded.
func (rn *Starter) claimWorkItem(ctx context.Context, flow, item string) (release func(), err error) {
	claim := flow + "\x00" + item
	taken := fault.Busy("loop_exists", "the %s %q has not ended", flow, item).WithHint("lattice loop status %s, or choose another --name", item)
	if !rn.claims.take(claim) {
		return nil, taken
	}
	release = func() { rn.claims.drop(claim) }
	open, err := rn.Views.Runs(ctx, api.RunList{Open: true, WorkItem: item})
	if err == nil && slices.ContainsFunc(open, func(v api.RunView) bool { return v.Flow == flow }) {
		err = taken
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
