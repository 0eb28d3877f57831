package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
)

func (d *Dashboard) runRoutes() []pageRoute {
	return []pageRoute{
		{"GET /{$}", "GET /runs", func(v *visit) error { return v.goTo("/runs") }},
		{"GET /runs", "GET /runs", d.showRuns},
		{"GET /runs/{id}", "GET /runs/{id}", d.showTimeline},
		{"GET /runs/{id}/graph", "GET /runs/{id}/program", d.showGraph},
		{"GET /runs/{id}/candidates", "GET /runs/{id}/candidates", d.showCandidates},
		{"GET /runs/{id}/log", "GET /runs/{id}/log", d.showLog},
		{"GET /runs/{id}/events", "GET /runs/{id}/entries", d.showEvents},
		{"GET /runs/{id}/changes", "GET /runs/{id}/patch", d.showChanges},
		{"POST /runs/{id}/cancel", "POST /runs/{id}/cancel", func(v *visit) error {
			_, err := d.leader.Cancel(v.ctx, v.runID(), v.Who.Name)
			return v.afterForm(err)
		}},
		{"POST /runs/{id}/stop", "POST /runs/{id}/stop", func(v *visit) error {
			_, err := d.leader.Stop(v.ctx, v.runID())
			return v.afterForm(err)
		}},
		{"POST /runs/{id}/drive", "POST /runs/{id}/drive", func(v *visit) error {
			_, err := d.leader.Drive(v.ctx, v.runID(), api.DriveRequest{Detach: true})
			return v.afterForm(err)
		}},
	}
}

// runID returns the id in the address, "" for the newest.
func (v *visit) runID() string {
	if id := v.PathValue("id"); id != "latest" {
		return id
	}
	return ""
}

// afterForm sends the browser to the page of the run when a form about it was served.
func (v *visit) afterForm(err error) error {
	if err != nil {
		return err
	}
	return v.goTo("/runs/" + v.PathValue("id"))
}

const (
	runsOnPage = 50
	maxLooked  = 500 // runs that one page looks at, so that a filter which few match costs no more
)

// runFilter selects runs; it is the query of the address.
type runFilter struct{ Status, Flow, Repo string }

func (f runFilter) wantsRun(v api.RunView) bool {
	return (f.Status == "" || f.Status == string(v.Status) || f.Status == "open" && !v.Status.Ended() || f.Status == "waiting" && len(v.Waits) > 0) &&
		strings.Contains(v.Flow, f.Flow) && strings.Contains(v.Repo, f.Repo)
}

func (f runFilter) encodeQuery() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"status": f.Status, "flow": f.Flow, "repo": f.Repo} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func (d *Dashboard) showRuns(v *visit) error {
	q := v.URL.Query()
	f := runFilter{q.Get("status"), q.Get("flow"), q.Get("repo")}
	page := struct {
		Filter   runFilter
		Statuses []string
		Runs     []api.RunView
		Older    string
		First    bool
	}{Filter: f, Statuses: []string{"open", "waiting", "running", "succeeded", "failed", "canceled"}, First: q.Get("before") == ""}
	which := api.RunList{Before: q.Get("before"), Limit: runsOnPage, Open: f.Status == "open" || f.Status == "waiting" || f.Status == "running"}
	for looked := 0; looked < maxLooked && len(page.Runs) < runsOnPage; looked += runsOnPage {
		runs, err := d.leader.Runs(v.ctx, which)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if which.Before = r.RunID; f.wantsRun(r) {
				page.Runs = append(page.Runs, r)
			}
			if len(page.Runs) == runsOnPage {
				break
			}
		}
		page.Older = ""
		if len(runs) < runsOnPage && len(page.Runs) < runsOnPage {
			break
		}
		older := f.encodeQuery()
		older.Set("before", which.Before)
		page.Older = "/runs?" + older.Encode()
	}
	return d.showPage(v, "runs", frame{Title: "Runs", Nav: "runs", Live: api.Root + "/events", Page: page})
}

// runPage holds the content of all tabs of a run.
type runPage struct {
	api.RunView
	Tab     string
	Actions []api.NotedAction
	Waits   []waitForm
	More    int // waits and actions that are not shown
	Lasted  time.Duration
	Tries   bool // it makes attempts side by side
	Body    any
}

// nodeUse is the use of models by one node.
type nodeUse struct {
	Node string
	api.ModelUse
}

// Spent lists the nodes that asked models, the dearest first.
func (p runPage) Spent() (nodes []nodeUse) {
	if p.Models == nil {
		return nil
	}
	for node, use := range p.Models.Nodes {
		nodes = append(nodes, nodeUse{node, use})
	}
	slices.SortFunc(nodes, func(a, b nodeUse) int { return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(a.Node, b.Node)) })
	return nodes[:min(len(nodes), maxNodes)]
}

// loadRun reads a run, which the address may name by the beginning of its id.
func (d *Dashboard) loadRun(v *visit, tab string) (runPage, error) {
	view, err := d.leader.Run(v.ctx, v.runID())
	if err != nil {
		return runPage{}, err
	}
	program, err := d.leader.Program(v.ctx, view.RunID)
	if err != nil {
		return runPage{}, err
	}
	p := runPage{RunView: view, Tab: tab, Lasted: view.UpdatedAt.Sub(view.CreatedAt), Tries: hasCandidates(program)}
	if !view.Status.Ended() {
		p.Lasted = time.Since(view.CreatedAt)
	}
	return p, nil
}

// showRun answers with a tab of a run.
func (d *Dashboard) showRun(v *visit, p runPage) error {
	f := frame{Title: cmp.Or(p.Flow, p.RunID), Nav: "runs", Page: p}
	if !p.Status.Ended() || p.Driving {
		f.Live = api.Root + "/runs/" + p.RunID + "/events?after=" + strconv.FormatUint(uint64(p.LastSeq), 10)
	}
	return d.showPage(v, "run-"+p.Tab, f)
}

func (d *Dashboard) showTimeline(v *visit) error {
	p, err := d.loadRun(v, "timeline")
	if err != nil {
		return err
	}
	if p.OpenActions {
		if p.Actions, err = d.leader.Actions(v.ctx, p.RunID); err != nil {
			return err
		}
	}
	p.Actions = slices.DeleteFunc(p.Actions, func(a api.NotedAction) bool { return a.Status != api.ActionOpen })
	p.Actions = shorten(p.Actions, maxCards, &p.More)
	if p.Waits, err = d.describeWaits(v, p.RunView); err != nil {
		return err
	}
	p.Waits = shorten(p.Waits, maxCards, &p.More)
	room := maxLines / 2
	for _, w := range p.Waits {
		if w.Patch != nil {
			*w.Patch = cutPatch(*w.Patch, room)
			room -= strings.Count(w.Patch.Text, "\n")
		}
	}
	t, last, err := d.readTimeline(v.ctx, p.RunView)
	if err != nil {
		return err
	}
	if !p.Status.Ended() {
		last = time.Now()
	}
	from, err := strconv.Atoi(cmp.Or(v.URL.Query().Get("from"), "-1"))
	if err != nil {
		return fault.BadInput("bad_request", "from is the number of a step")
	}
	body := struct {
		waterfall
		Events []event
		Stops  []stop
		Values []value // at the first of the stops
	}{waterfall: drawWaterfall(t, p.CreatedAt, maxTime(last, p.CreatedAt), v.URL.Query().Get("step"), from)}
	if s := body.Selected; s != nil {
		if body.Events, err = d.readEvents(v.ctx, p.RunID, lattice.Seq(max(int64(s.Seq)-1, 0)), maxStepEvents, func(e lattice.Entry) bool {
			return s.Ended.IsZero() || !e.At.After(s.Ended)
		}); err != nil {
			return err
		}
		if s.Path() == "" {
			if body.Stops, err = d.findStops(v.ctx, p.RunID, s.Seq); err != nil {
				return err
			}
			if len(body.Stops) > 0 {
				if body.Values, err = d.listValues(v.ctx, p.RunID, body.Stops[0]); err != nil {
					return err
				}
			}
		}
	}
	p.Body = body
	return d.showRun(v, p)
}

// readTimeline returns the steps of a run, and the time of its last entry.
func (d *Dashboard) readTimeline(ctx context.Context, r api.RunView) (t *timeline.Timeline, last time.Time, err error) {
	t = timeline.New()
	err = d.leader.Outline(ctx, r.RunID, 0, func(e lattice.Entry) error {
		t.Add(e)
		last = e.At
		return nil
	})
	t.Pause(r.Waits)
	return t, last, err
}

const (
	maxStepEvents = 40
	maxEvents     = 150 // of a page of events
)

// event is one entry of a journal, in words and as it is.
type event struct {
	lattice.Entry
	Words string
}

// errEnough ends a read of entries.
var errEnough = errors.New("enough entries")

// readEvents returns up to most entries of a run behind a position, for as long as they are wanted.
func (d *Dashboard) readEvents(ctx context.Context, id string, after lattice.Seq, most int, wanted func(lattice.Entry) bool) (events []event, err error) {
	err = d.leader.Entries(ctx, id, after, func(e lattice.Entry) error {
		if !wanted(e) {
			return errEnough
		}
		words := timeline.DescribeEvent(e)
		if e.Kind == lattice.EntryFact {
			words = strings.Join(e.Started, ", ")
		}
		if events = append(events, event{e, words}); len(events) == most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return events, err
}

func (d *Dashboard) showEvents(v *visit) error {
	p, err := d.loadRun(v, "events")
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(cmp.Or(v.URL.Query().Get("after"), "0"), 10, 63)
	if err != nil {
		return fault.BadInput("bad_request", "after is a sequence number")
	}
	body := struct {
		Events []event
		Next   lattice.Seq
		First  bool
	}{First: after == 0}
	if body.Events, err = d.readEvents(v.ctx, p.RunID, lattice.Seq(after), maxEvents, func(lattice.Entry) bool { return true }); err != nil {
		return err
	}
	if len(body.Events) == maxEvents {
		body.Next = body.Events[maxEvents-1].Seq
	}
	p.Body = body
	return d.showRun(v, p)
}

func (d *Dashboard) showLog(v *visit) error {
	p, err := d.loadRun(v, "log")
	if err != nil {
		return err
	}
	return d.showRun(v, p)
}

func (d *Dashboard) showChanges(v *visit) error {
	p, err := d.loadRun(v, "changes")
	if err != nil {
		return err
	}
	patch, err := d.leader.Proposed(v.ctx, p.RunID, "")
	if asked := fault.As(err); asked != nil { // of a run that asked for no push
		patch, err = difference.Patch{Note: asked.Fault.Message}, nil
	}
	if err != nil {
		return err
	}
	p.Body = patch
	return d.showRun(v, p)
}
