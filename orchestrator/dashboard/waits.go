package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
)

func (d *Dashboard) waitRoutes() []pageRoute {
	return []pageRoute{
		{"GET /waiting", "GET /runs", d.showWaiting},
		{"POST /runs/{id}/decide", "POST /runs/{id}/decide", d.decideWait},
		{"POST /runs/{id}/action", "POST /runs/{id}/actions", d.decideAction},
		{"POST /proposals/{id}/decide", "POST /proposals/{id}/decide", func(v *visit) error {
			_, err := d.leader.DecideProposal(v.ctx, v.runID(), api.ProposalDecision{Decision: lattice.Decision(v.PostFormValue("decision")), Comments: v.PostFormValue("comments")})
			return v.backTo("/proposals", err)
		}},
		{"POST /intents/{id}/decide", "POST /intents/{id}/decide", func(v *visit) error {
			_, err := d.leader.DecideIntent(v.ctx, v.runID(), api.IntentDecision{Decision: v.PostFormValue("decision"), Plan: v.PostFormValue("digest"), Reason: v.PostFormValue("comments")})
			return v.backTo("/intents", err)
		}},
	}
}

// backTo sends the browser to a page when a form was served.
func (v *visit) backTo(path string, err error) error {
	if err != nil {
		return err
	}
	return v.goTo(path)
}

// waitForm is a question to a person, with the form that answers it.
type waitForm struct {
	lattice.Wait
	Run    string
	Flow   string
	Digest string // of all that the form shows; an answer names it
	Effect []string
	Patch  *difference.Patch // of a push
	Fields []field
}

// field is an input of a form.
type field struct {
	Name, Type string
	Kind       string // how it is drawn: text, number, checkbox, select or lines
	Choices    []string
	Optional   bool
	Note       string // its meaning
}

// digestOf returns the digest of a question. An answer to one that has changed since is refused.
func digestOf(w lattice.Wait) string {
	raw, err := json.Marshal(w)
	if err != nil {
		return "" // a wait is plain data
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// makeFields returns the fields for the inputs that a question expects.
func makeFields(w lattice.Wait) (fields []field) {
	if w.YesOrNo() && w.Kind != lattice.WaitUnknown && !w.Legacy() {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.Expected)) {
		f := field{Name: name, Type: w.Expected[name], Kind: "lines", Optional: slices.Contains(w.Optional, name) || w.Default != ""}
		switch f.Type {
		case "string":
			if len(w.Choices) > 0 && name != "comments" {
				f.Kind, f.Choices = "select", w.Choices
			}
		case "boolean":
			f.Kind, f.Choices = "select", []string{"yes", "no"}
		case "integer", "number":
			f.Kind = "number"
		}
		fields = append(fields, f)
	}
	return fields
}

// describeWaits returns the forms for the open questions of a run.
func (d *Dashboard) describeWaits(v *visit, r api.RunView) (forms []waitForm, err error) {
	if r.Status.Ended() {
		return nil, nil
	}
	for _, w := range r.Waits {
		f := waitForm{Wait: w, Run: r.RunID, Flow: r.Flow, Digest: digestOf(w), Fields: makeFields(w)}
		if w.Action != nil {
			f.Effect = timeline.DescribeBinding(w.Action.Binding)
			if len(w.Action.Binding) > 0 {
				p, err := d.leader.Proposed(v.ctx, r.RunID, w.ID)
				if err != nil {
					p = difference.Patch{Note: exchange.AsFault(err).Fault.Message}
				}
				f.Patch = &p
			}
		}
		forms = append(forms, f)
	}
	return forms, nil
}

func (d *Dashboard) showWaiting(v *visit) error {
	runs, err := d.leader.Runs(v.ctx, api.RunList{Open: true, Limit: maxOpen})
	if err != nil {
		return err
	}
	var page struct {
		Waits   []waitForm
		Actions []api.NotedAction
		Intents []intent.State
		Changes []proposal.State
		More    int // that are not shown
	}
	room := maxLines / 2 // of patches
	for _, r := range runs {
		if len(page.Waits) >= maxCards {
			page.More += len(r.Waits)
			continue
		}
		forms, err := d.describeWaits(v, r)
		if err != nil {
			return err
		}
		for _, f := range forms {
			if f.Patch != nil {
				*f.Patch = cutPatch(*f.Patch, room)
				room -= strings.Count(f.Patch.Text, "\n")
			}
			page.Waits = append(page.Waits, f)
		}
	}
	if page.Actions, err = d.leader.Actions(v.ctx, "*"); err != nil {
		return err
	}
	intents, err := d.leader.Intents(v.ctx, "", maxListed)
	if err != nil {
		return err
	}
	for _, i := range intents {
		if i.Status == intent.Gated {
			page.Intents = append(page.Intents, i)
		}
	}
	if page.Changes, err = d.leader.Proposals(v.ctx, api.ProposalList{Open: true}); err != nil {
		return err
	}
	page.Actions = shorten(page.Actions, maxCards, &page.More)
	page.Intents = shorten(page.Intents, maxCards, &page.More)
	page.Changes = shorten(page.Changes, maxCards, &page.More)
	return d.showPage(v, "waiting", frame{Title: "Waiting for you", Nav: "waiting", Live: api.Root + "/events", Page: page})
}

// maxCards bounds the forms of one kind on a page.
const maxCards = 15

// shorten returns the first items of a list, and adds the number of the others to more.
func shorten[T any](list []T, most int, more *int) []T {
	n := min(len(list), most)
	*more += len(list) - n
	return list[:n]
}

// decideWait answers a question. The form names the digest of the question that it showed.
func (d *Dashboard) decideWait(v *visit) error {
	run, err := d.leader.Run(v.ctx, v.runID())
	if err != nil {
		return err
	}
	id := v.PostFormValue("wait")
	i := slices.IndexFunc(run.Waits, func(w lattice.Wait) bool { return w.ID == id })
	if i >= 0 && digestOf(run.Waits[i]) != v.PostFormValue("digest") {
		return fault.Busy("question_changed", "the question has changed since the page showed it").WithHint("read it again, then decide")
	}
	request := api.DecideRequest{WaitID: id, Decision: lattice.Decision(v.PostFormValue("decision")), Comments: v.PostFormValue("comments"), By: v.Who.Name, Detach: true}
	if request.Decision == lattice.Answer {
		request.Inputs = map[string]string{}
		for name, values := range v.PostForm {
			if input, ok := strings.CutPrefix(name, "in."); ok && (values[0] != "" || i >= 0 && !slices.Contains(run.Waits[i].Optional, input)) {
				request.Inputs[input] = values[0]
			}
		}
	}
	_, err = d.leader.Decide(v.ctx, run.RunID, request)
	return v.backTo(cmp.Or(localList(v.PostFormValue("back")), "/runs/"+run.RunID), err)
}

// localList returns the list from which a form was sent, "" for the page of the run.
func localList(back string) string {
	if back == "/waiting" {
		return back
	}
	return ""
}

func (d *Dashboard) decideAction(v *visit) error {
	_, err := d.leader.DecideAction(v.ctx, v.runID(), api.ActionDecision{
		Key: v.PostFormValue("key"), Decision: lattice.Decision(v.PostFormValue("decision")), Comments: v.PostFormValue("comments"), By: v.Who.Name,
	})
	return v.backTo(cmp.Or(localList(v.PostFormValue("back")), "/runs/"+v.PathValue("id")), err)
}
