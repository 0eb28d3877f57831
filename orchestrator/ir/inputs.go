package ir

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// MissingInputs returns the sorted names of the top-level members of $in that a run with this input may read and that in
// does not have.
//
// A read counts if any path leads to it, so that a run does not stop half way for a value that could have been given at
// the start. $in is constant during a run, so conditions over $in alone are evaluated here; nodes that this input cannot
// reach (because of a guard such as {"op":"exists","ref":"$in.x"}) do not count. Nor do references that have a value or a
// default, and reads of nodes that catch ref_unresolved.
func (p *Program) MissingInputs(in map[string]any) []string {
	w := inputWalk{in: in, eval: &expr.CondEval{Work: expr.MaxCondWork}, missing: map[string]bool{}}
	seen := map[string]bool{p.Doc.EntryNode: true}
	for todo := []string{p.Doc.EntryNode}; len(todo) > 0; {
		n := p.nodes[todo[0]]
		todo = todo[1:]
		for _, next := range w.visitNode(n, p.out[n.ID]) {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	w.noteText(p.Doc.Output)
	return slices.Sorted(maps.Keys(w.missing))
}

// inputWalk visits the nodes that a run with the input in can reach and records missing members. All conditions share one
// work limit; when it is exceeded, the remaining conditions are undecided, which only makes more reads count.
type inputWalk struct {
	in      map[string]any
	eval    *expr.CondEval
	missing map[string]bool
}

// verdict is the value of a condition as far as it is known before the run.
type verdict uint8

const (
	undecided verdict = iota
	never
	always
)

func verdictOf(ok bool) verdict {
	if ok {
		return always
	}
	return never
}

// visitNode records the reads of n and its edges and returns the nodes that may follow.
func (w inputWalk) visitNode(n *Node, edges []Edge) []string {
	var next []string
	skipped := never
	if n.Skip != nil {
		skipped = w.decideEdge(n.Skip)
	}
	if skipped != always {
		next = append(next, w.visitInner(n)...)
	}
	for _, c := range n.Catch {
		next = append(next, c.To)
	}
	if n.catchesMissing() {
		w.missing = map[string]bool{}
	}
	if skipped != always {
		for _, text := range n.valueExpressions() {
			w.noteText(text)
		}
	}
	chosen := w.possibleCases(n)
	for _, e := range edges {
		v := undecided
		if name, ok := e.When.IsCase(); !ok {
			v = w.decideEdge(e.When)
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

// visitInner returns the entry nodes of the graphs that n may run and records the reads of their results. A SUBGRAPH has
// its own $in.
func (w inputWalk) visitInner(n *Node) []string {
	runs := true
	switch {
	case n.catchesMissing():
		runs = false
	case n.Op == OpMap:
		runs = w.mustIterate(n)
	case n.Op == OpLoop:
		runs = n.While == nil || w.decideEdge(n.While) != never
	case n.Op == OpParallel:
		runs = n.Join == "" || n.Join == JoinAll
	default:
	}
	var next []string
	for _, b := range n.InnerGraphs() {
		if runs {
			next = append(next, b.EntryNode)
			w.noteText(b.Result)
		}
	}
	if n.Until != nil && runs {
		w.decideEdge(n.Until)
	}
	return next
}

// catchesMissing reports whether n catches unresolved references.
func (n *Node) catchesMissing() bool {
	return slices.ContainsFunc(n.Catch, func(c Catch) bool { return slices.Contains(c.On, expr.FailRef) || slices.Contains(c.On, "ALL") })
}

// mustIterate reports whether the body of a MAP may run and a failing item fails the MAP.
func (w inputWalk) mustIterate(n *Node) bool {
	if n.OnError == "collect" {
		return false
	}
	expression, err := expr.Decode(n.Items)
	if err != nil || !expr.ExprReads(expression, []string{"$in", "$trigger"}) {
		return true
	}
	items, f := expr.EvalValue(expression, expr.Scope{In: w.in}, 0)
	list, ok := items.([]any)
	return f != nil || !ok || len(list) > 0
}

// possibleCases returns the cases that a SWITCH may choose.
func (w inputWalk) possibleCases(n *Node) map[string]bool {
	chosen := map[string]bool{}
	for _, c := range n.Cases {
		v := w.decideEdge(c.When)
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

func (w inputWalk) decideEdge(c *expr.Cond) verdict {
	if c == nil {
		return always
	}
	return w.decideCond(c.Root)
}

// decideCond evaluates a condition as far as it depends on $in alone and records the reads of its evaluation.
func (w inputWalk) decideCond(n *expr.CondNode) verdict {
	switch {
	case n == nil:
		return always
	case n.Op == "not":
		switch w.decideCond(n.Args[0]) {
		case always:
			return never
		case never:
			return always
		}
		return undecided
	case n.Op == "and" || n.Op == "or":
		rest := verdictOf(n.Op == "and")
		for _, a := range n.Args {
			switch w.decideCond(a) {
			case verdictOf(n.Op == "or"): // nothing behind it is evaluated
				return verdictOf(n.Op == "or")
			case undecided:
				rest = undecided
			}
		}
		return rest
	case n.ReadsOnly("$in", "$trigger"):
		if ok, f := w.eval.Eval(n, expr.Scope{In: w.in}); f == nil {
			return verdictOf(ok)
		}
	}
	if n.Op != "exists" {
		w.noteRef(n.Ref)
	}
	w.noteExpr(n.Left)
	w.noteExpr(n.Right)
	if n.Where != nil {
		w.decideCond(n.Where)
	}
	return undecided
}

func (w inputWalk) noteText(text json.RawMessage) {
	if text == nil {
		return
	}
	if v, err := expr.Decode(text); err == nil {
		w.noteExpr(v)
	}
}

// noteExpr notes the references of a value expression that must have a value; a default is needed only where this input
// does not say.
func (w inputWalk) noteExpr(v any) {
	switch v := v.(type) {
	case string:
		if r, err := expr.ParseRef(v); err == nil && expr.LooksLikeRef(v) {
			w.noteRef(r)
		}
	case []any:
		for _, e := range v {
			w.noteExpr(e)
		}
	case map[string]any:
		switch expr.OperatorOf(v) {
		case "lit":
		case "ref":
			fallback, ok := v["default"]
			switch {
			case !ok:
				w.noteExpr(v["ref"])
			case expr.ExprReads(v["ref"], []string{"$in", "$trigger"}):
				if _, f := expr.EvalString(v["ref"].(string), expr.Scope{In: w.in}); f != nil {
					w.noteExpr(fallback)
				}
			default:
				w.noteExpr(fallback)
			}
		default:
			for _, e := range v {
				w.noteExpr(e)
			}
		}
	}
}

func (w inputWalk) noteRef(r expr.Ref) {
	names := r.MemberNames()
	if r.Root != "$in" && r.Root != "$trigger" || len(names) == 0 {
		return
	}
	if _, ok := w.in[names[0]]; !ok {
		w.missing[names[0]] = true
	}
}
