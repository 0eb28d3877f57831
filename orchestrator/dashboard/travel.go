package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

func (d *Dashboard) travelRoutes() []pageRoute {
	return []pageRoute{
		{"GET /runs/{id}/compare", "GET /runs/{id}/compare", d.showComparison},
		{"POST /runs/{id}/rewind", "POST /runs/{id}/rewind", d.rewindRun},
		{"POST /runs/{id}/fork", "POST /runs/{id}/fork", d.forkRun},
	}
}

// stop is a place in a run to which a person can go back: a moment, or a turn of an agent.
type stop struct {
	api.Moment
	To, Title string // as a request names it, and for people
	Turn      *api.Turn
}

// maxStops bounds the stops of a page. The newest are kept.
const maxStops = 150

// listStops returns the newest moments of a run, each followed by the turns of its agent.
func (d *Dashboard) listStops(ctx context.Context, id string) (stops []stop, err error) {
	moments, err := d.leader.Moments(ctx, id)
	if err != nil {
		return nil, err
	}
	turns, err := d.leader.Turns(ctx, id)
	if err != nil {
		return nil, err
	}
	of := map[lattice.Seq][]api.Turn{}
	for _, t := range turns {
		of[t.Seq] = append(of[t.Seq], t)
	}
	for _, m := range moments[max(0, len(moments)-maxStops):] {
		name := fmt.Sprintf("%s#%d", m.Node, m.Visit)
		stops = append(stops, stop{Moment: m, To: name, Title: name})
		for _, t := range of[m.Seq] {
			stops = append(stops, stop{Moment: t.Moment, To: fmt.Sprintf("@%d", t.Turn), Title: fmt.Sprintf("%s, turn %d: %s", name, t.Turn, cmp.Or(t.Tool, t.Agent)), Turn: &t})
		}
	}
	return stops[max(0, len(stops)-maxStops):], nil
}

// findStops returns the moment at which a step began and the turns of its agent, none if the run cannot go back there.
func (d *Dashboard) findStops(ctx context.Context, id string, seq lattice.Seq) ([]stop, error) {
	stops, err := d.listStops(ctx, id)
	return slices.DeleteFunc(stops, func(s stop) bool { return s.Seq != seq }), err
}

// value is a value of a run that a fork may change.
type value struct{ Path, Now string }

// maxValue bounds the text of a value on the page.
const maxValue = 2000

// listValues returns the values at the moment of a stop, by path.
func (d *Dashboard) listValues(ctx context.Context, id string, at stop) (values []value, err error) {
	all, err := d.leader.ValuesAt(ctx, id, at.To)
	if err != nil {
		return nil, err
	}
	for root, members := range map[string]map[string]json.RawMessage{"$in.": all.In, "$vars.": all.Vars} {
		for name, now := range members {
			values = append(values, value{root + name, text.Cut(indentJSON(now), maxValue)})
		}
	}
	slices.SortFunc(values, func(a, b value) int { return strings.Compare(a.Path, b.Path) })
	return values[:min(len(values), maxNodes)], nil
}

// rewindRun takes a run back to a moment. The form names the epoch that the page showed.
func (d *Dashboard) rewindRun(v *visit) error {
	epoch, err := strconv.Atoi(v.PostFormValue("epoch"))
	if err != nil {
		return fault.BadInput("bad_request", "epoch is a number")
	}
	_, err = d.leader.Rewind(v.ctx, v.runID(), api.RewindRequest{To: v.PostFormValue("to"), Epoch: epoch, AcrossEffects: v.PostFormValue("across") == "yes", By: v.Who.Name, Detach: true})
	return v.afterForm(err)
}

// forkRun starts a run that goes on from a moment, with one value changed if the form has one.
func (d *Dashboard) forkRun(v *visit) error {
	request := api.ForkRequest{Key: v.PostFormValue("key"), At: v.PostFormValue("to"), N: 1, Detach: true}
	if path := strings.TrimSpace(v.PostFormValue("path")); path != "" {
		request.Set = []lattice.Assignment{{Path: path, Value: readValue(v.PostFormValue("value"))}}
	}
	made, err := d.leader.Fork(v.ctx, v.runID(), request)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return errors.New("the fork has no run")
	}
	return v.goTo("/runs/" + made[0].RunID)
}

// readValue reads JSON, and takes anything else for a text.
func readValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return nil // every text can be encoded
	}
	return raw
}

// showComparison compares two moments of a run, or the run with the one that it was forked from or another one.
func (d *Dashboard) showComparison(v *visit) error {
	p, err := d.loadRun(v, "compare")
	if err != nil {
		return err
	}
	q := v.URL.Query()
	if with := q.Get("with"); with != "" {
		return d.showRunComparison(v, p, with)
	}
	body := struct {
		From, To   string
		Moments    []stop
		Other      string // the run from which this one was forked
		Comparison *api.Comparison
		Patch      difference.Patch
		More       int // values and files that are not shown
		Problem    *fault.Error
	}{From: q.Get("from"), To: q.Get("to")}
	body.Other, _, _ = strings.Cut(p.ForkedFrom, " ")
	if body.Moments, err = d.listStops(v.ctx, p.RunID); err != nil {
		return err
	}
	c, err := d.leader.Compare(v.ctx, p.RunID, body.From, body.To)
	switch {
	case err != nil:
		body.Problem = exchange.AsFault(err)
	default:
		c.Vars, c.Files = shorten(c.Vars, maxNodes, &body.More), shorten(c.Files, maxNodes, &body.More)
		body.Comparison = &c
		if body.Patch, err = d.leader.ComparedFiles(v.ctx, p.RunID, body.From, body.To); err != nil {
			body.Patch.Note = exchange.AsFault(err).Fault.Message
		}
		body.Patch = cutPatch(body.Patch, maxLines/2)
	}
	p.Body = body
	return d.showRun(v, p)
}

// maxNodes bounds the nodes, values and files that a comparison of two runs lists.
const maxNodes = 60

// showRunComparison compares a run with another one.
func (d *Dashboard) showRunComparison(v *visit, p runPage, with string) error {
	p.Tab = "compare-runs"
	body := struct {
		api.RunComparison
		Wanted  string
		More    int // nodes, values and files that are not shown
		Problem *fault.Error
	}{Wanted: with}
	var err error
	if body.RunComparison, err = d.leader.CompareRuns(v.ctx, p.RunID, with); err != nil {
		body.Problem = exchange.AsFault(err)
	}
	body.Nodes, body.Vars, body.Files = shorten(body.Nodes, maxNodes, &body.More), shorten(body.Vars, maxNodes, &body.More), shorten(body.Files, maxNodes, &body.More)
	body.Patch = cutPatch(body.Patch, maxLines/2)
	p.Body = body
	return d.showRun(v, p)
}
