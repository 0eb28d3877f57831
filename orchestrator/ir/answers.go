package ir

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// AnswerSchema returns the JSON Schema that the answer to a HUMAN node must satisfy, nil if there is none.
func (p *Program) AnswerSchema(n *Node) json.RawMessage {
	return p.documentOf(n).AnswerSchema(n)
}

// AnswerSchema is the same for a node of the document.
func (d *Document) AnswerSchema(n *Node) json.RawMessage {
	var name string
	if n.AnswerSchema == nil || json.Unmarshal(n.AnswerSchema, &name) != nil {
		return n.AnswerSchema
	}
	schema, _ := d.FindOutputSchema(name)
	return schema
}

// OptionalInputs returns the expected inputs of a HUMAN node that an answer may leave out, sorted: those that its answer_schema does
// not require, if it requires one of them.
func (p *Program) OptionalInputs(n *Node) (names []string) {
	o, _ := ViewOf(p.AnswerSchema(n)).ResolveObject()
	required, _ := expr.StringList(o["required"])
	asked := n.ExpectedInputs()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if !slices.Contains(required, name) {
			names = append(names, name)
		}
	}
	if len(names) == len(asked) {
		return nil
	}
	return names
}

// Judged returns the part of an answer that is validated against answer_schema: the expected inputs, and those of
// approved and comments that the schema names.
func (p *Program) Judged(n *Node, answer map[string]any) map[string]any {
	asked := n.ExpectedInputs()
	view := ViewOf(p.AnswerSchema(n))
	return maps.Collect(func(yield func(string, any) bool) {
		for name, v := range answer {
			_, expected := asked[name]
			if (expected || view.speaksOf(name)) && !yield(name, v) {
				return
			}
		}
	})
}
