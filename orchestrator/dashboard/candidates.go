package dashboard

import (
	"encoding/json"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// candidate is an attempt on the page.
type candidate struct {
	api.Candidate
	Change difference.Patch
}

// hasCandidates reports whether a flow makes attempts side by side.
func hasCandidates(program json.RawMessage) bool {
	var doc ir.Document
	if json.Unmarshal(program, &doc) != nil {
		return false
	}
	return slices.ContainsFunc(doc.Nodes, func(n ir.Node) bool { return n.Op == ir.OpMap && n.ForksSprites() })
}

// showCandidates shows the attempts of a run side by side, with a form to choose one if the run asks.
func (d *Dashboard) showCandidates(v *visit) error {
	p, err := d.loadRun(v, "candidates")
	if err != nil {
		return err
	}
	found, err := d.leader.Candidates(v.ctx, p.RunID)
	if err != nil {
		return err
	}
	body := struct {
		Candidates []candidate
		Wait       *lattice.Wait // that asks which one to keep
		Digest     string
	}{}
	for _, c := range found {
		change := cutPatch(difference.Patch{Text: c.Patch}, maxLines/2/max(1, len(found)))
		body.Candidates = append(body.Candidates, candidate{c, change})
	}
	for _, w := range p.RunView.Waits {
		if w.Kind == lattice.WaitHuman && w.Expected["try"] == "integer" && len(w.Expected) == 1 {
			body.Wait, body.Digest = &w, digestOf(w)
		}
	}
	p.Body = body
	return d.showRun(v, p)
}
