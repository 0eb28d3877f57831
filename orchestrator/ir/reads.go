package ir

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Reads lists the references that a node reads itself, those of the graphs inside of it not counted, each once and in the
// order of the node's members.
func (n *Node) Reads() []string {
	var out []string
	add := func(r expr.Ref) {
		if text := r.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, text := range n.valueExpressions() {
		if expression, err := expr.Decode(text); text != nil && err == nil {
			everyRef(expression, add)
		}
	}
	for _, c := range n.allConditions() {
		if c != nil {
			expr.CondRefs(c.Root, "", nil, func(r expr.Ref, _ string, _ []expr.Ref) { add(r) })
		}
	}
	return out
}

// valueExpressions are the value expressions of a node.
func (n *Node) valueExpressions() []json.RawMessage {
	all := []json.RawMessage{n.Args, n.IdempotencyKey, n.Prompt, n.Answer, n.Items, n.Init, n.Seconds, n.At, n.Message, n.Output, n.Event, n.Labels, n.Candidates}
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		all = append(all, n.Inputs[name])
	}
	all = append(all, n.From...)
	for _, target := range slices.Sorted(maps.Keys(n.Set)) {
		all = append(all, n.Set[target])
	}
	return all
}

func (n *Node) allConditions() []*expr.Cond {
	all := []*expr.Cond{n.Skip, n.While, n.Until}
	for _, c := range n.Cases {
		all = append(all, c.When)
	}
	return all
}

// Writes lists the paths that a node writes itself, sorted.
func (n *Node) Writes() []string {
	out := slices.Concat(slices.Collect(maps.Values(n.Outputs)), slices.Collect(maps.Keys(n.Set)))
	slices.Sort(out)
	return slices.Compact(out)
}

// everyRef calls visit for each reference in a value expression, those too that have a default.
func everyRef(v any, visit func(expr.Ref)) {
	switch v := v.(type) {
	case string:
		if r, err := expr.ParseRef(v); expr.LooksLikeRef(v) && err == nil {
			visit(r)
		}
	case []any:
		for i := range v {
			everyRef(v[i], visit)
		}
	case map[string]any:
		if expr.OperatorOf(v) == "lit" {
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			everyRef(v[k], visit)
		}
	}
}

// Needs returns the class of a TOOL_CALL as far as it is known before the run, and the permissions that it may use.
func (p *Program) Needs(n *Node) (class string, permissions []string) {
	skill, ok := p.Tools[n.Tool]
	if !ok {
		return "", nil
	}
	c, all, _ := EffectiveClass(skill, n.Args)
	if slices.Contains(Classes, n.SideEffect) && IsStricter(n.SideEffect, c) {
		c = n.SideEffect
	}
	return string(c), slices.Sorted(slices.Values(all))
}

// Walk visits all nodes of the program in the order of the document, those inside of others behind them, then those of
// subgraphs. depth is how many nodes are around one.
func (p *Program) Walk(visit func(n *Node, depth int)) {
	var all func(nodes []Node, depth int)
	all = func(nodes []Node, depth int) {
		for i := range nodes {
			visit(&nodes[i], depth)
			for _, b := range nodes[i].InnerGraphs() {
				all(b.Nodes, depth+1)
			}
		}
	}
	all(p.Doc.Nodes, 0)
	for _, name := range slices.Sorted(maps.Keys(p.subs)) {
		all(p.subs[name].Nodes, 1)
	}
}

// Places visits all nodes of a document, those inside of others too, each with its JSON pointer.
func (d *Document) Places(visit func(n *Node, pointer string)) { WalkNodes(d.Nodes, "", visit) }

// DescribeInputs names the inputs of the flow that give the node those of its arguments that text mentions: "command is the
// input test_command". It returns "" if there are none.
func (n *Node) DescribeInputs(text string) string {
	expression, err := expr.Decode(n.Args)
	args, ok := expression.(map[string]any)
	if err != nil || !ok {
		return ""
	}
	var parts []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		value := args[word]
		if object, ok := value.(map[string]any); ok {
			value = object["ref"]
		}
		written, _ := value.(string)
		root, names, _, ok := expr.SplitRef(written)
		if !ok || root != "$in" || len(names) == 0 {
			continue
		}
		if part := word + " is the input " + strings.Join(names, "."); !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}
