package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Loops lists loops, which are runs of the flow loop.
type Loops interface {
	// ListLoops lists loops, the newest first. It looks at a bounded number of runs; next is the run from which the list goes on, "" at
	// its end.
	ListLoops(ctx context.Context, which RunList) (loops []loop.View, next string, err error)
	// Loop returns the loop of a run.
	Loop(ctx context.Context, id string) (loop.View, error)
}

func loopRoutes(s Loops) []Route {
	return []Route{
		raw[[]loop.View](Viewer, http.MethodGet, "/loops", "List loops, the newest first. A header Link names the next page, which may be empty.", mediaJSON, func(w http.ResponseWriter, r *http.Request) {
			which, err := readRunList(r.URL.Query())
			var out []loop.View
			if err == nil {
				out, which.Before, err = s.ListLoops(r.Context(), which)
			}
			if err == nil && which.Before != "" {
				w.Header().Set("Link", "<"+Root+"/loops?"+which.query().Encode()+`>; rel="next"`)
			}
			reply(w, out, err)
		}, runListParams...),
		get("/loops/{id}", "Return the loop of a run, with its iterations and tasks.", func(r *http.Request) (loop.View, error) { return s.Loop(r.Context(), idOf(r)) }),
	}
}

// LoopView returns the part of a loop's view that its run tells.
func (v RunView) LoopView() loop.View {
	return loop.View{RunID: v.RunID, Name: cmp.Or(v.WorkItem, v.RunID), Run: v.Status, Repo: v.Repo, Sprite: v.Sprite, Started: v.CreatedAt}
}

// Standing returns the state of a run that its loop depends on.
func (v RunView) Standing() loop.Standing {
	s := loop.Standing{Driving: v.Driving, Waits: v.Waits, Note: v.Note}
	if v.Error != nil {
		s.Failed, s.Message = v.Error.Node, v.Error.Message
	}
	return s
}

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

// FindIteration returns iteration n of a loop, the last one for 0, with the help of the moments of its run.
func FindIteration(v loop.View, moments []Moment, n int) (Iteration, error) {
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
func FindWork(moments []Moment, v loop.View, n int) *Moment {
	from, to := v.Span(n)
	return firstWork(moments, from, to)
}

// firstWork returns the first moment between two places of a journal at which a loop called its agent. There is none behind 0.
func firstWork(moments []Moment, from, to lattice.Seq) *Moment {
	for _, m := range moments {
		if m.Node == loop.WorkNode && from > 0 && m.Seq >= from && (to == 0 || m.Seq < to) {
			return &m
		}
	}
	return nil
}

// String returns NODE#N, by which the commands name a moment.
func (m Moment) String() string { return fmt.Sprintf("%s#%d", m.Node, m.Visit) }
