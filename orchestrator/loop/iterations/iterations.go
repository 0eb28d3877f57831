// Package iterations finds the parts of an iteration of a loop in the moments and the journal of its run. Start with [Find]. It
// reads nothing itself.
package iterations

import (
	"cmp"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Iteration is an iteration of a loop, with the places of its parts.
type Iteration struct {
	RunID string `json:"run_id"`
	loops.Entry
	// From and To are the moments between which its files are compared, and Checkpoint holds the files before it. From is "" if
	// no agent was called, To is "" for the present.
	From       string                 `json:"from,omitempty"`
	To         string                 `json:"to,omitempty"`
	Checkpoint string                 `json:"checkpoint_id,omitempty"`
	Report     *protocol.VerifyReport `json:"report,omitempty"` // of its verification
	// Its part of the journal is behind After and before Before, which is 0 for the last one.
	After  lattice.Seq `json:"after"`
	Before lattice.Seq `json:"before,omitempty"`
}

// Find returns iteration n of a loop, the last one for 0, with the help of the moments of its run.
func Find(v loop.View, moments []api.Moment, n int) (Iteration, error) {
	n = cmp.Or(n, v.Count)
	i := slices.IndexFunc(v.Iterations, func(e loops.Entry) bool { return e.Iteration == n })
	if i < 0 {
		return Iteration{}, fault.NotFound("loop_not_found", "%s has no iteration %d that ended", v.Name, n).WithHint("lattice loop status %s lists the iterations", v.Name)
	}
	it := Iteration{RunID: v.RunID, Entry: v.Iterations[i], Report: v.Report(n)}
	it.After, it.Before = v.Span(n)
	if m := FindWork(moments, v, n); m != nil {
		it.From, it.Checkpoint = m.String(), m.Checkpoint
	}
	if next := firstWork(moments, it.Before, 0); it.From != "" && next != nil {
		it.To = next.String()
	}
	return it, nil
}

// FindWork returns the moment at which iteration n of a loop last called its agent, nil if there is none.
func FindWork(moments []api.Moment, v loop.View, n int) *api.Moment {
	from, to := v.Span(n)
	return firstWork(moments, from, to)
}

// firstWork returns the first moment between two places of a journal at which a loop called its agent. There is none behind 0.
func firstWork(moments []api.Moment, from, to lattice.Seq) *api.Moment {
	for _, m := range moments {
		if m.Node == loop.WorkNode && from > 0 && m.Seq >= from && (to == 0 || m.Seq < to) {
			return &m
		}
	}
	return nil
}
