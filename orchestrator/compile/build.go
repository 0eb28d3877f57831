package compile

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// A Builder composes a workflow graph in Go code; see the example of [Build]. Steps run in the order in which they are
// added, unless an edge connects them otherwise. The methods do not fail: Workflow returns all errors at once.
type Builder struct {
	w      Workflow
	led    map[string]bool // steps that are the target of an edge or a catch
	faults []error
}

// Args are named arguments. A value is a Ref, which is resolved at run time, or a Go value that encodes to JSON; maps and
// slices of type map[string]any, Args and []any may contain both.
type Args map[string]any

// Ref is a reference such as "$vars.clone.dest". A plain string is never a reference, even if it starts with "$".
type Ref string

// In returns a reference to an input of the flow.
func In(name string) Ref { return Ref("$in." + name) }

// Build returns a Builder for a workflow graph with this id.
func Build(id string) *Builder {
	return &Builder{w: Workflow{Version: Version, ID: id, Nodes: []Step{}}, led: map[string]bool{}}
}

// BuiltStep is a step of a Builder, to refer to its outputs and to connect it by edges.
type BuiltStep struct {
	b  *Builder
	id string
	at int
}

// Step adds a call of a skill.
func (b *Builder) Step(id, skill string, in Args) BuiltStep {
	s := Step{ID: id, Type: skill}
	if len(in) > 0 {
		s.In = b.encodeExpression("the inputs of "+id, in)
	}
	b.w.Nodes = append(b.w.Nodes, s)
	return BuiltStep{b, id, len(b.w.Nodes) - 1}
}

// Out returns a reference to an output of the step.
func (s BuiltStep) Out(name string) Ref { return Ref("$vars" + refSegment(s.id) + "." + name) }

// Retry adds retry rules to the step.
func (s BuiltStep) Retry(rules ...ir.Retry) BuiltStep {
	n := &s.b.w.Nodes[s.at]
	n.Retry = append(n.Retry, rules...)
	return s
}

// Catch adds rules that continue at another step if this one fails.
func (s BuiltStep) Catch(rules ...ir.Catch) BuiltStep {
	n := &s.b.w.Nodes[s.at]
	n.Catch = append(n.Catch, rules...)
	for _, c := range rules {
		s.b.led[c.To] = true
	}
	return s
}

// Edge connects two steps. The edge is taken if the condition when is true, written as in
// "$vars.test.status == \"passed\""; "" is always true. A step with an explicit edge gets no implicit one to the step added
// after it.
func (b *Builder) Edge(from, to BuiltStep, when string) {
	e := ir.Edge{From: from.id, To: to.id}
	if when != "" {
		var err error
		if e.When, err = expr.ParseCond(when); err != nil {
			b.faults = append(b.faults, fmt.Errorf("edge from %s to %s: %w", from.id, to.id, err))
		}
	}
	b.w.Edges = append(b.w.Edges, e)
	b.led[to.id] = true
}

// Output sets the output of the flow.
func (b *Builder) Output(v any) { b.w.Output = b.encodeExpression("the output", v) }

// Describe sets the description of the flow.
func (b *Builder) Describe(text string) { b.w.Description = text }

// Workflow returns the graph, or all errors of its construction. It does not check that the graph can run: [Parse] does,
// given the graph as JSON.
func (b *Builder) Workflow() (Workflow, error) {
	if err := errors.Join(b.faults...); err != nil {
		return Workflow{}, fmt.Errorf("build flow %s: %w", b.w.ID, err)
	}
	w := b.w
	w.Edges = append([]ir.Edge{}, w.Edges...)
	leaves := map[string]bool{}
	for _, e := range w.Edges {
		leaves[e.From] = true
	}
	for i := 1; i < len(w.Nodes); i++ {
		from, to := w.Nodes[i-1].ID, w.Nodes[i].ID
		if !leaves[from] && !b.led[to] {
			w.Edges = append(w.Edges, ir.Edge{From: from, To: to})
		}
	}
	return w, nil
}

func (b *Builder) encodeExpression(what string, v any) json.RawMessage {
	text, err := expr.Marshal(valueOf(v))
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("%s: %w", what, err))
		return nil
	}
	return text
}

// valueOf converts a Go value to a value expression. Strings that look like references are quoted, except Refs.
func valueOf(v any) any {
	switch v := v.(type) {
	case Ref:
		return string(v)
	case string:
		if len(v) > 0 && v[0] == '$' {
			return map[string]any{"lit": v}
		}
	case Args:
		return valueOf(map[string]any(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, m := range v {
			out[name] = valueOf(m)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = valueOf(v[i])
		}
		return out
	}
	return v
}
