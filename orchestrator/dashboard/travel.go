package dashboard

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

func (d *Dashboard) travelRoutes() []route {
	return []route{
		{"GET /runs/{id}/compare", "GET /runs/{id}/compare", d.showComparison},
		{"POST /runs/{id}/rewind", "POST /runs/{id}/rewind", d.rewindRun},
		{"POST /runs/{id}/fork", "POST /runs/{id}/fork", d.forkRun},
	}
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
		Moments    []api.Moment
		Other      string // the run from which this one was forked
		Comparison *api.Comparison
		Patch      api.Patch
		Problem    *fault.Error
	}{From: q.Get("from"), To: q.Get("to")}
	body.Other, _, _ = strings.Cut(p.ForkedFrom, " ")
	if body.Moments, err = d.leader.Moments(v.ctx, p.RunID); err != nil {
		return err
	}
	c, err := d.leader.Compare(v.ctx, p.RunID, body.From, body.To)
	switch {
	case err != nil:
		body.Problem = api.AsFault(err)
	default:
		body.Comparison = &c
		if body.Patch, err = d.leader.ComparedFiles(v.ctx, p.RunID, body.From, body.To); err != nil {
			body.Patch.Note = api.AsFault(err).Fault.Message
		}
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
		Problem *fault.Error
	}{Wanted: with}
	var err error
	if body.RunComparison, err = d.leader.CompareRuns(v.ctx, p.RunID, with); err != nil {
		body.Problem = api.AsFault(err)
	}
	body.Nodes, body.Vars, body.Files = body.Nodes[:min(len(body.Nodes), maxNodes)], body.Vars[:min(len(body.Vars), maxNodes)], body.Files[:min(len(body.Files), maxNodes)]
	body.Patch = cutPatch(body.Patch, maxLines/2)
	p.Body = body
	return d.showRun(v, p)
}
