package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/loop"
)

// Loops lists loops, which are runs of the flow loop.
type Loops interface {
	// ListLoops lists loops, the newest first, 100 if which has no limit; next is the run from which the list goes on, "" at its end.
	ListLoops(ctx context.Context, which RunList) (loops []loop.View, next string, err error)
	// Loop returns the loop of a run.
	Loop(ctx context.Context, id string) (loop.View, error)
}

func loopRoutes(s Loops) []route.Route {
	return []route.Route{
		route.Raw[[]loop.View](route.Viewer, http.MethodGet, "/loops", "List loops, the newest first. A header Link names the next page, which may be empty.", exchange.MediaJSON, func(w http.ResponseWriter, r *http.Request) {
			var (
				out  []loop.View
				next string
			)
			p, err := exchange.PageOf(r, route.Before)
			if err == nil {
				out, next, err = s.ListLoops(r.Context(), readRunList(r, p))
			}
			if err == nil && next != "" {
				exchange.LinkNext(w, r, route.Before, next)
			}
			exchange.Reply(w, out, err)
		}, slices.Concat(runListParams, route.PageParams(route.Before))...),
		route.Get("/loops/{id}", "Return the loop of a run, with its iterations and tasks.", func(r *http.Request) (loop.View, error) { return s.Loop(r.Context(), route.ID(r)) }),
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

// String returns NODE#N, by which the commands name a moment.
func (m Moment) String() string { return fmt.Sprintf("%s#%d", m.Node, m.Visit) }
