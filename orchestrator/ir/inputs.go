package ir

import (
	"encoding/json"
	"maps"
	"slices"
)

// MissingInputs names the top-level members of $in that a run with this input may come to need and in lacks, sorted.
//
// A read counts when any path leads to it, not only when every path does: a run should not stop half way for what
// could have been asked for at its start. But $in never changes during a run, so the walk knows it: conditions over
// $in alone are decided here, and what stands behind an edge or a case that this input cannot take (a guard such as
// {"op":"exists","ref":"$in.x"}) does not count. Nor do references that have a value or a default, and reads of nodes
// that catch ref_unresolved.
func (p *Program) MissingInputs(in map[string]any) []string {
	w := inputWalk{in: in, eval: &condEval{work: maxCondWork}, missing: map[string]bool{}}
	seen := map[string]bool{p.Doc.EntryNode: true}
	for todo := []string{p.Doc.EntryNode}; len(todo) > 0; {
		n := p.nodes[todo[0]]
		todo = todo[1:]
		for _, next := range w.node(n, p.out[n.ID]) {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	w.text(p.Doc.Output)
	return slices.Sorted(maps.Keys(w.missing))
}

// inputWalk visits what a run with the input in can reach and notes what is missing. All conditions share one budget;
// when it is used up the rest is undecided, which only makes more reads count.
type inputWalk struct {
	in      map[string]any
	eval    *condEval
	missing map[string]bool
}

// verdict is what is known of a condition before the run.
type verdict uint8

const (
	undecided verdict = iota
	never
	always
)

func decided(ok bool) verdict {
	if ok {
		return always
	}
	return never
}

// node notes what n and its edges read, and returns the nodes that may follow.
func (w inputWalk) node(n *Node, edges []Edge) []string {
	var next []string
	skipped := never
	if n.Skip != nil {
		skipped = w.when(n.Skip)
	}
	if skipped != always {
		next = append(next, w.inside(n)...)
	}
	for _, c := range n.Catch {
		next = append(next, c.To)
	}
	if n.manages() {
		w.missing = map[string]bool{}
	}
	if skipped != always {
		for _, text := range n.expressions() {
			w.text(text)
		}
	}
	chosen := w.cases(n)
	for _, e := range edges {
		v := undecided
		if name, ok := e.When.IsCase(); !ok {
			v = w.when(e.When)
		} else if !chosen[name] {
			v = never
		} else if len(chosen) == 1 {
			v = always
		}
		if v != never {
			next = append(next, e.To)
		}
		if v == always && e.MaxTraversals == 0 {
			break
		}
	}
	return next
}

// inside returns the first nodes of the graphs that n may run, and notes what their results read. A SUBGRAPH has an $in of
// its own.
func (w inputWalk) inside(n *Node) []string {
	runs := true
	switch {
	case n.manages():
		runs = false
	case n.Op == OpMap:
		runs = w.iterates(n)
	case n.Op == OpLoop:
		runs = n.While == nil || w.when(n.While) != never
	case n.Op == OpParallel:
		runs = n.Join == "" || n.Join == JoinAll
	default:
	}
	var next []string
	for _, b := range n.inner() {
		if runs {
			next = append(next, b.EntryNode)
			w.text(b.Result)
		}
	}
	if n.Until != nil && runs {
		w.when(n.Until)
	}
	return next
}

// manages reports whether the flow knows what to do where n lacks a value.
func (n *Node) manages() bool {
	return slices.ContainsFunc(n.Catch, func(c Catch) bool { return slices.Contains(c.On, FailRef) || slices.Contains(c.On, "ALL") })
}

// iterates reports whether the body of a MAP may run, and no item of it may fail.
func (w inputWalk) iterates(n *Node) bool {
	if n.OnError == "collect" {
		return false
	}
	expr, err := decodeValue(n.Items)
	if err != nil || !exprReads(expr, []string{"$in", "$trigger"}) {
		return true
	}
	items, f := eval(expr, Scope{In: w.in}, 0)
	list, ok := items.([]any)
	return f != nil || !ok || len(list) > 0
}

// cases returns the cases that a SWITCH may choose.
func (w inputWalk) cases(n *Node) map[string]bool {
	chosen := map[string]bool{}
	for _, c := range n.Cases {
		v := w.when(c.When)
		if v != never {
			chosen[c.Name] = true
		}
		if v == always {
			return chosen
		}
	}
	if n.Default != "" {
		chosen[n.Default] = true
	}
	return chosen
}

func (w inputWalk) when(c *Cond) verdict {
	if c == nil {
		return always
	}
	return w.cond(c.root)
}

// cond decides a condition as far as $in alone does, and notes what its evaluation may read.
func (w inputWalk) cond(n *condNode) verdict {
	switch {
	case n == nil:
		return always
	case n.op == "not":
		switch w.cond(n.args[0]) {
		case always:
			return never
		case never:
			return always
		}
		return undecided
	case n.op == "and" || n.op == "or":
		rest := decided(n.op == "and")
		for _, a := range n.args {
			switch w.cond(a) {
			case decided(n.op == "or"): // nothing behind it is evaluated
				return decided(n.op == "or")
			case undecided:
				rest = undecided
			}
		}
		return rest
	case n.reads("$in", "$trigger"):
		if ok, f := w.eval.eval(n, Scope{In: w.in}); f == nil {
			return decided(ok)
		}
	}
	if n.op != "exists" {
		w.ref(n.ref)
	}
	w.expr(n.left)
	w.expr(n.right)
	if n.where != nil {
		w.cond(n.where)
	}
	return undecided
}

// reads reports whether n reads nothing outside of these namespaces.
func (n *condNode) reads(roots ...string) bool {
	inner := slices.Concat(roots, []string{"$item", "$index"})
	for _, a := range n.args {
		if !a.reads(roots...) {
			return false
		}
	}
	return (n.ref.root == "" || slices.Contains(roots, n.ref.root)) && exprReads(n.left, roots) && exprReads(n.right, roots) &&
		(n.where == nil || n.where.reads(inner...))
}

func exprReads(v any, roots []string) bool {
	switch v := v.(type) {
	case string:
		r, err := parseRef(v)
		return !looksLikeRef(v) || err == nil && slices.Contains(roots, r.root)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !exprReads(e, roots) })
	case map[string]any:
		if operator(v) == "lit" {
			return true
		}
		for _, e := range v {
			if !exprReads(e, roots) {
				return false
			}
		}
	}
	return true
}

func (w inputWalk) text(text json.RawMessage) {
	if text == nil {
		return
	}
	if v, err := decodeValue(text); err == nil {
		w.expr(v)
	}
}

// expr notes the references of a value expression that must have a value; a default is needed only where this input
// does not say.
func (w inputWalk) expr(v any) {
	switch v := v.(type) {
	case string:
		if r, err := parseRef(v); err == nil && looksLikeRef(v) {
			w.ref(r)
		}
	case []any:
		for _, e := range v {
			w.expr(e)
		}
	case map[string]any:
		switch operator(v) {
		case "lit":
		case "ref":
			fallback, ok := v["default"]
			switch {
			case !ok:
				w.expr(v["ref"])
			case exprReads(v["ref"], []string{"$in", "$trigger"}):
				if _, f := evalString(v["ref"].(string), Scope{In: w.in}); f != nil {
					w.expr(fallback)
				}
			default:
				w.expr(fallback)
			}
		default:
			for _, e := range v {
				w.expr(e)
			}
		}
	}
}

func (w inputWalk) ref(r ref) {
	names := r.names()
	if r.root != "$in" && r.root != "$trigger" || len(names) == 0 {
		return
	}
	if _, ok := w.in[names[0]]; !ok {
		w.missing[names[0]] = true
	}
}
