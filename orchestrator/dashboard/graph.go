package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"

	"github.com/spritekit/lattice/orchestrator/diagram"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// graphRow is a node in words, for those to whom the picture says nothing.
type graphRow struct {
	Node   string
	Mark   mark
	Visits int
}

// showGraph draws the flow of a run, with the state of each node by shape, colour and word.
func (d *Dashboard) showGraph(v *visit) error {
	p, err := d.loadRun(v, "graph")
	if err != nil {
		return err
	}
	raw, err := d.leader.Program(v.ctx, p.RunID)
	if err != nil {
		return err
	}
	var doc ir.Document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	t, _, err := d.readTimeline(v.ctx, p.RunView)
	if err != nil {
		return err
	}
	rows := listNodes(t)
	states := map[string]mark{}
	for _, r := range rows {
		states[r.Node] = r.Mark
	}
	graph := diagram.Of(doc, nil)
	graph.Mark(func(id string) (sign, class string) { return states[id].Sign, states[id].Class })
	body := struct {
		SVG  template.HTML
		Note string
		Rows []graphRow
	}{Rows: rows[:min(len(rows), maxListed)]}
	svg, err := graph.SVG()
	switch {
	case errors.Is(err, diagram.ErrTooLarge):
		body.Note = "The flow is too large to be drawn; the table lists its nodes."
	case err != nil:
		return err
	}
	body.SVG = template.HTML(svg) // package diagram escapes its texts
	p.Body = body
	return d.showRun(v, p)
}

// listNodes returns the nodes that were begun, each with its newest state.
func listNodes(t *timeline.Timeline) (rows []graphRow) {
	at := map[string]int{}
	for _, s := range t.All() {
		i, ok := at[s.Node]
		if !ok {
			i = len(rows)
			at[s.Node], rows = i, append(rows, graphRow{Node: s.Node})
		}
		rows[i].Visits++
		rows[i].Mark = stepMarks[s.State]
	}
	return rows
}
