package dashboard

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	loops "github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/loop/iterations"
	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func (d *Dashboard) loopRoutes() []pageRoute {
	return []pageRoute{
		{"GET /loops", "GET /loops", d.showLoops},
		{"GET /loops/{id}", "GET /loops/{id}", d.showLoop},
	}
}

// iterationsOnPage bounds the iterations of a loop that its page lists.
const iterationsOnPage = 80

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
	Step             string // at which it began: there its files are shown, and a person can fork and rewind
	Checkpoint       string
	Report           string
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
	moments, err := d.leader.Moments(v.ctx, view.RunID)
	if err != nil {
		return err
	}
	page.Earlier = max(0, len(view.Iterations)-iterationsOnPage)
	for _, e := range view.Iterations[page.Earlier:] {
		it, err := iterations.Find(view, moments, e.Iteration)
		if err != nil {
			return err
		}
		row := iteration{Entry: e, Checkpoint: it.Checkpoint, Report: describeReport(it.Report)}
		if m := iterations.FindWork(moments, view, e.Iteration); m != nil {
			row.Step = fmt.Sprintf("/runs/%s?step=%d#step", view.RunID, m.Seq)
		}
		if it.After > 0 {
			row.Transcript = fmt.Sprintf("/runs/%s/events?after=%d", view.RunID, it.After)
		}
		if it.From != "" {
			q := url.Values{"from": {it.From}}
			if it.To != "" {
				q.Set("to", it.To)
			}
			row.Diff = "/runs/" + view.RunID + "/compare?" + q.Encode()
		}
		page.Rows = append(page.Rows, row)
	}
	f := frame{Title: view.Name, Nav: "loops", Page: page}
	if !view.Run.Ended() {
		f.Live = api.Root + "/runs/" + view.RunID + "/events"
	}
	return d.showPage(v, "loop", f)
}

// describeReport returns the commands of a verification with their outcomes, "" without one.
func describeReport(r *protocol.VerifyReport) string {
	if r == nil {
		return ""
	}
	var said []string
	for _, c := range r.Commands {
		text := strings.Join(c.Argv, " ") + ": " + c.Status
		if len(c.Failures) > 0 {
			text += fmt.Sprintf(" (%d failed, such as %s)", len(c.Failures), c.Failures[0].ID)
		}
		said = append(said, text)
	}
	if len(r.Restored) > 0 {
		said = append(said, fmt.Sprintf("%d protected files were restored", len(r.Restored)))
	}
	return strings.Join(said, "; ")
}
