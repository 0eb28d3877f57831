package compile

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// Builder makes a workflow graph from code. Steps are done one behind the other in the order in which they are added,
// unless Edge says otherwise. Faults are gathered; Workflow tells the first ones of all of them.
//
//	b := compile.Build("tested")
//	clone := b.Step("clone", "git.clone", compile.Args{"url": compile.In("url")})
//	test := b.Step("test", "test.run", compile.Args{"cwd": clone.Out("dest"), "allow_red": true})
//	b.Output(compile.Args{"status": test.Out("status")})
//	w, err := b.Workflow()
type Builder struct {
	w      Workflow
	led    map[string]bool // steps that an edge or a catch leads to
	faults []error
}

// Args are value expressions by name: Go values stand for themselves, a Ref for what it refers to.
type Args map[string]any

// Ref is a reference, such as "$vars.clone.dest". Plain strings are texts, whatever they look like.
type Ref string

// In refers to an input of the flow.
func In(name string) Ref { return Ref("$in." + name) }

// Build begins a workflow graph of this id.
func Build(id string) *Builder {
	return &Builder{w: Workflow{Version: Version, ID: id, Nodes: []Step{}}, led: map[string]bool{}}
}

// BuiltStep is a step that was added, for references and edges.
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

// Out refers to an output of the step.
func (s BuiltStep) Out(name string) Ref { return Ref("$vars" + refSegment(s.id) + "." + name) }

// Retry has the step tried again by these rules.
func (s BuiltStep) Retry(rules ...ir.Retry) BuiltStep {
	n := &s.b.w.Nodes[s.at]
	n.Retry = append(n.Retry, rules...)
	return s
}

// Catch leads failures of the step to others.
func (s BuiltStep) Catch(rules ...ir.Catch) BuiltStep {
	n := &s.b.w.Nodes[s.at]
	n.Catch = append(n.Catch, rules...)
	for _, c := range rules {
		s.b.led[c.To] = true
	}
	return s
}

// Edge leads from one step to another where a condition holds, in its text form ("$vars.test.status == \"passed\""); ""
// is always. A step that has an edge of its own is not led on to the one that was added behind it.
func (b *Builder) Edge(from, to BuiltStep, when string) {
	e := ir.Edge{From: from.id, To: to.id}
	if when != "" {
		var err error
		if e.When, err = ir.ParseCond(when); err != nil {
			b.faults = append(b.faults, fmt.Errorf("edge from %s to %s: %w", from.id, to.id, err))
		}
	}
	b.w.Edges = append(b.w.Edges, e)
	b.led[to.id] = true
}

// Output is what a run of the flow results in.
func (b *Builder) Output(v any) { b.w.Output = b.encodeExpression("the output", v) }

// Describe says what the flow is for.
func (b *Builder) Describe(text string) { b.w.Description = text }

// Workflow is the graph as it was built. Whether it can run, Parse of its JSON says.
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
	text, err := ir.Marshal(valueOf(v))
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("%s: %w", what, err))
		return nil
	}
	return text
}

// valueOf makes a value expression of Go values: only a Ref refers to something.
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
