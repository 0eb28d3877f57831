package dashboard

import (
	"fmt"
	"net/url"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	loops "github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/spritekit/loop"
)

func (d *Dashboard) loopRoutes() []route {
	return []route{
		{"GET /loops", "GET /loops", d.showLoops},
		{"GET /loops/{id}", "GET /loops/{id}", d.showLoop},
	}
}

// loopsOnPage bounds the loops of a page: each costs a read of its journal.
const loopsOnPage = 25

func (d *Dashboard) showLoops(v *visit) error {
	list, next, err := d.leader.ListLoops(v.ctx, api.RunList{Before: v.URL.Query().Get("before"), Limit: loopsOnPage})
	if err != nil {
		return err
	}
	page := struct {
		Loops []loops.View
		Older string
		First bool
	}{Loops: list, First: v.URL.Query().Get("before") == ""}
	if next != "" {
		page.Older = "/loops?" + url.Values{"before": {next}}.Encode()
	}
	return d.showPage(v, "loops", frame{Title: "Loops", Nav: "loops", Live: api.Root + "/events", Page: page})
}

// iteration is a row of a loop, with the addresses of its parts.
type iteration struct {
	loop.Entry
	Diff, Transcript string
}

func (d *Dashboard) showLoop(v *visit) error {
	view, err := d.leader.Loop(v.ctx, v.runID())
	if err != nil {
		return err
	}
	page := struct {
		loops.View
		Rows    []iteration
		Earlier int
		Done    string
	}{View: view, Done: fmt.Sprintf("%d of %d", view.Completed, len(view.Tasks))}
	visits := map[int]int{} // of the node that calls the agent, by iteration
	moments, err := d.leader.Moments(v.ctx, view.RunID)
	if err != nil {
		return err
	}
	for i, e := range view.Iterations {
		row := iteration{Entry: e}
		if from, to := view.Span(e.Iteration); from > 0 {
			row.Transcript = fmt.Sprintf("/runs/%s/events?after=%d", view.RunID, from)
			visits[i] = findVisit(moments, from, to)
		}
		page.Rows = append(page.Rows, row)
	}
	for i := range page.Rows {
		if visits[i] == 0 {
			continue
		}
		q := url.Values{"from": {fmt.Sprintf("%s#%d", loops.WorkNode, visits[i])}}
		if visits[i+1] > 0 {
			q.Set("to", fmt.Sprintf("%s#%d", loops.WorkNode, visits[i+1]))
		}
		page.Rows[i].Diff = "/runs/" + view.RunID + "/compare?" + q.Encode()
	}
	page.Earlier = max(0, len(page.Rows)-maxListed)
	page.Rows = page.Rows[page.Earlier:]
	f := frame{Title: view.Name, Nav: "loops", Page: page}
	if !view.Run.Ended() {
		f.Live = api.Root + "/runs/" + view.RunID + "/events"
	}
	return d.showPage(v, "loop", f)
}

// findVisit returns the number of the visit with which the agent was called between two places of a journal, 0 if there is none.
func findVisit(moments []api.Moment, from, to lattice.Seq) int {
	for _, m := range moments {
		if m.Node == loops.WorkNode && m.Seq >= from && (to == 0 || m.Seq < to) {
			return m.Visit
		}
	}
	return 0
}
