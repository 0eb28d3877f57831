package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Definite-assignment analysis: a reference to $vars or $tmp must be written on every path that leads to it. It is a
// forward data-flow analysis over two kinds of facts: "whole p" (p was assigned, so any member of it may exist) and
// "exists p" (p or a member of it was assigned). Facts meet by intersection. After a catch, the outputs of the failed node
// are not assigned, nor are those of a node that may be skipped. A body is analysed on its own: it starts with the $vars
// assigned before its node and with an empty $tmp. The $vars that the body of a LOOP always assigns are assigned after it.

// factSet is a bit set over the facts of one flow.
type factSet []uint64

func (s factSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s factSet) add(i int) { s[i/64] |= 1 << (i % 64) }

// intersect removes from s the facts that o does not have and reports whether s changed.
func (s factSet) intersect(o factSet) bool {
	changed := false
	for i := range s {
		if kept := s[i] & o[i]; kept != s[i] {
			s[i], changed = kept, true
		}
	}
	return changed
}

type flow struct {
	*graph
	links  [][]link
	facts  map[string]int
	in     []factSet           // per node; nil when it is not reached
	shapes map[string][]string // see shape
	types  map[string]string   // see typesOf

	// Of a body: the flow around it, and its node's position there.
	outer *flow
	at    int

	inner map[int][]*flow // of the bodies inside, by position
	ends  []int           // nodes behind which the graph is left
	kept  []expr.Ref      // see definiteWrites
}

const errFact = "$err"

func wholeFact(path string) string { return "w" + path }

func existsFact(path string) string { return "e" + path }

// checkFlow checks that every reference is assigned before it is read.
func (g *graph) checkFlow(outer *flow, at int) {
	if f := g.newFlow(outer, at); f != nil {
		f.checkReferences()
	}
}

// newFlow analyses a graph and the graphs inside it. For a body, outer is the flow of the enclosing graph and at the index
// of the body's node there. It returns nil if the graph has no valid entry node.
func (g *graph) newFlow(outer *flow, at int) *flow {
	entry, ok := g.index[g.EntryNode]
	if !ok {
		return nil
	}
	f := &flow{
		graph: g, links: g.linksOf(), facts: map[string]int{errFact: 0}, in: make([]factSet, len(g.Nodes)),
		outer: outer, at: at, inner: map[int][]*flow{},
	}
	for i := range g.Nodes {
		for _, b := range g.bodies[i] {
			if inner := b.newFlow(f, i); inner != nil {
				f.inner[i] = append(f.inner[i], inner)
			}
		}
	}
	f.numberFacts()
	if len(f.facts) > maxFacts {
		g.AddError("document_too_large", g.ptr+"/nodes", "write objects instead of single members", "the graph writes more than %d variables", maxFacts)
		return nil
	}
	f.solveFrom(entry)
	for i := range f.Nodes {
		leaves := slices.ContainsFunc(f.links[i], func(l link) bool { return l.edge != nil })
		if f.in[i] != nil && !leaves && f.Nodes[i].Op != ir.OpFail {
			f.ends = append(f.ends, i)
		}
	}
	f.kept = f.definiteWrites() // once: each body asks those in it, and to ask again in each takes exponential time
	return f
}

func (f *flow) checkReferences() {
	f.shapes, f.types = f.inferShapes(), f.typesOf()
	for i := range f.Nodes {
		if f.in[i] == nil {
			continue
		}
		f.checkReads(i)
		f.checkTypes(i)
		for _, inner := range f.inner[i] {
			inner.checkReferences()
		}
	}
	f.checkEnd()
}

// definiteWrites returns the $vars paths that are assigned at every end of the graph.
func (f *flow) definiteWrites() []expr.Ref {
	end := f.stateAtEnd(func(*ir.Node) bool { return true })
	var out []expr.Ref
	for i := range f.Nodes {
		for _, r := range f.writesOf(i) {
			if end != nil && r.Root == "$vars" && end.has(f.facts[wholeFact(r.StaticPath())]) {
				out = append(out, r)
			}
		}
	}
	return out
}

// stateAtEnd returns the facts that hold after each final node for which counts is true, nil if there is none.
func (f *flow) stateAtEnd(counts func(*ir.Node) bool) factSet {
	var end factSet
	for _, i := range f.ends {
		switch {
		case !counts(&f.Nodes[i]):
		case end == nil:
			end = f.stateAfter(i)
		default:
			end.intersect(f.stateAfter(i))
		}
	}
	return end
}

// outlivesNode reports whether a path lies in $vars: a body sees the $vars of the enclosing graph, but not its $tmp.
func outlivesNode(path string) bool { return strings.HasPrefix(path, "$vars.") }

func (f *flow) factHolds(s factSet, fact string) bool {
	if i, ok := f.facts[fact]; ok && s.has(i) {
		return true
	}
	return f.outer != nil && outlivesNode(fact[1:]) && f.outer.factHolds(f.outer.in[f.at], fact)
}

func (f *flow) shapeOf(path string) ([]string, bool) {
	known, ok := f.shapes[path]
	if !ok && f.outer != nil && outlivesNode(path) {
		return f.outer.shapeOf(path)
	}
	return known, ok
}

// numberFacts assigns a bit to every fact that can become true.
func (f *flow) numberFacts() {
	add := func(fact string) {
		if _, ok := f.facts[fact]; !ok {
			f.facts[fact] = len(f.facts)
		}
	}
	for i := range f.Nodes {
		for _, r := range f.writesOf(i) {
			add(wholeFact(r.StaticPath()))
			for _, p := range r.Prefixes() {
				add(existsFact(p))
			}
		}
		for _, l := range f.links[i] {
			for _, r := range f.provenAlong(i, l) {
				for _, p := range r.Prefixes() {
					add(existsFact(p))
				}
			}
			if l.caught != nil {
				if r, err := expr.ParseTarget(l.caught.Bind); err == nil {
					add(wholeFact(r.StaticPath()))
					for _, p := range r.Prefixes() {
						add(existsFact(p))
					}
				}
			}
		}
	}
}

// writesOf returns the paths that node i has assigned when it completes: its output targets, those of a SET, and the
// definite writes of a LOOP body that runs at least once.
func (f *flow) writesOf(i int) []expr.Ref {
	n := &f.Nodes[i]
	out := targetsOf(n)
	if n.Op == ir.OpLoop && n.Until != nil && f.keeps {
		for _, inner := range f.inner[i] {
			out = append(out, inner.kept...)
		}
	}
	return out
}

// targetsOf returns the paths that n itself assigns.
func targetsOf(n *ir.Node) []expr.Ref {
	var out []expr.Ref
	add := func(target string) {
		if r, err := expr.ParseTarget(target); err == nil {
			out = append(out, r)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(n.Outputs)) {
		add(n.Outputs[port])
	}
	for _, target := range slices.Sorted(maps.Keys(n.Set)) {
		add(target)
	}
	return out
}

// loopWrites returns the $vars paths that the body of a LOOP may assign.
func (f *flow) loopWrites(i int) []expr.Ref {
	var out []expr.Ref
	if n := &f.Nodes[i]; n.Op == ir.OpLoop && n.Body != nil {
		ir.WalkNodes(n.Body.Nodes, "", func(n *ir.Node, _ string) {
			out = append(out, targetsOf(n)...)
			for _, c := range n.Catch {
				if r, err := expr.ParseTarget(c.Bind); err == nil {
					out = append(out, r)
				}
			}
		})
	}
	return slices.DeleteFunc(out, func(r expr.Ref) bool { return r.Root != "$vars" })
}

// provenAlong returns the references that must exist if link l is taken, because its condition tests them.
func (f *flow) provenAlong(from int, l link) []expr.Ref {
	if l.edge == nil || l.edge.When == nil {
		return nil
	}
	out := l.edge.When.Root.ProvenRefs()
	if name, ok := l.edge.When.IsCase(); ok {
		for _, c := range f.Nodes[from].Cases {
			if c.Name == name && c.When != nil && name != f.Nodes[from].Default {
				out = append(out, c.When.Root.ProvenRefs()...)
			}
		}
	}
	return slices.DeleteFunc(out, func(r expr.Ref) bool { return r.Root != "$vars" && r.Root != "$tmp" })
}

func (f *flow) addWrite(s factSet, r expr.Ref) {
	s.add(f.facts[wholeFact(r.StaticPath())])
	f.addExists(s, r)
}

func (f *flow) addExists(s factSet, r expr.Ref) {
	for _, p := range r.Prefixes() {
		if i, ok := f.facts[existsFact(p)]; ok {
			s.add(i)
		}
	}
}

// stateAfter returns the facts that hold when node i has completed.
func (f *flow) stateAfter(i int) factSet {
	s := slices.Clone(f.in[i])
	if f.Nodes[i].Skip != nil {
		return s
	}
	for _, r := range f.writesOf(i) {
		f.addWrite(s, r)
	}
	return s
}

// solveFrom computes the greatest fixed point of the data-flow equations with a worklist, starting at entry.
func (f *flow) solveFrom(entry int) {
	f.in[entry] = make(factSet, len(f.facts)/64+1)
	for work := []int{entry}; len(work) > 0; {
		at := work[0]
		work = work[1:]
		done := f.stateAfter(at)
		for _, l := range f.links[at] {
			s := slices.Clone(done)
			if l.caught != nil {
				s = slices.Clone(f.in[at])
				s.add(f.facts[errFact])
				if r, err := expr.ParseTarget(l.caught.Bind); err == nil {
					f.addWrite(s, r)
				}
			}
			for _, r := range f.provenAlong(at, l) {
				f.addExists(s, r)
			}
			if f.in[l.to] == nil {
				f.in[l.to] = s
			} else if !f.in[l.to].intersect(s) {
				continue
			}
			if !slices.Contains(work, l.to) {
				work = append(work, l.to)
			}
		}
	}
}

// checkReads checks all that node i and its edges read.
func (f *flow) checkReads(i int) {
	n, ptr := &f.Nodes[i], f.nodePtr(i)
	before := f.in[i]
	f.readText(n.Args, ptr+"/args", before)
	f.readText(n.IdempotencyKey, ptr+"/idempotency_key", before)
	f.readText(n.Prompt, ptr+"/prompt", before)
	f.readText(n.Answer, ptr+"/default_answer", before)
	for j, id := range n.Approves { // the question shows their arguments
		if called, ok := f.index[id]; ok {
			f.readText(f.Nodes[called].Args, fmt.Sprintf("%s/approves/%d", ptr, j), before)
		}
	}
	f.readText(n.Items, ptr+"/items", before)
	f.readText(n.Init, ptr+"/init", before)
	f.readText(n.Seconds, ptr+"/seconds", before)
	f.readText(n.At, ptr+"/at", before)
	f.readText(n.Message, ptr+"/message", before)
	f.readText(n.Event, ptr+"/event", before)
	f.readText(n.Output, ptr+"/output", before)
	f.readCond(n.Skip, ptr+"/when_skip", before)
	f.readCond(n.While, ptr+"/while", before)
	for _, target := range slices.Sorted(maps.Keys(n.Set)) {
		f.readText(n.Set[target], ptr+"/set/"+finding.EscapePointer(target), before)
	}
	f.readText(n.Labels, ptr+"/labels", before)
	f.readText(n.Candidates, ptr+"/candidates", before)
	for j, input := range n.From {
		f.readText(input, fmt.Sprintf("%s/from/%d", ptr, j), before)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		f.readText(n.Inputs[name], ptr+"/inputs/"+finding.EscapePointer(name), before)
	}
	f.checkPicks(n, ptr)
	for j, c := range n.Cases {
		f.readCond(c.When, fmt.Sprintf("%s/cases/%d/when", ptr, j), before)
	}
	after := f.stateAfter(i)
	f.readCond(n.Until, ptr+"/until", after)
	if n.Compensate != nil {
		f.readText(n.Compensate.Args, ptr+"/compensate/args", after)
	}
	for _, l := range f.links[i] {
		if l.edge != nil {
			f.readCond(l.edge.When, l.ptr+"/when", after)
		}
	}
}

// checkEnd checks the run's output, or the result of an iteration, against the states of all nodes at which it can end;
// an END may have an output of its own.
func (f *flow) checkEnd() {
	if end := f.stateAtEnd(func(n *ir.Node) bool { return n.Output == nil }); end != nil {
		f.readText(f.Result, f.result, end)
	}
}

func (f *flow) readText(text json.RawMessage, ptr string, s factSet) {
	if text == nil {
		return
	}
	if expression, err := expr.Decode(text); err == nil {
		expr.ExprRefs(expression, ptr, func(r expr.Ref, at string) { f.checkRead(r, at, s, nil) })
	}
}

func (f *flow) readCond(c *expr.Cond, ptr string, s factSet) {
	if c != nil {
		expr.CondRefs(c.Root, ptr, nil, func(r expr.Ref, at string, proved []expr.Ref) { f.checkRead(r, at, s, proved) })
	}
}

// checkRead checks one reference against the facts that hold where it stands.
func (f *flow) checkRead(r expr.Ref, ptr string, s factSet, proved []expr.Ref) {
	holds := func(fact string) bool { return f.factHolds(s, fact) }
	switch r.Root {
	case "$err":
		if !holds(errFact) {
			f.AddError("err_unset", ptr, "read it only in nodes that catch leads to", "$err is known only behind a catch, on every path that leads here")
		}
		return
	case "$in", "$trigger":
		f.checkInputRef(r, ptr)
		return
	case "$vars", "$tmp":
	default:
		return
	}
	prefixes := r.Prefixes()
	if len(prefixes) == 0 || holds(existsFact(prefixes[len(prefixes)-1])) {
		return
	}
	for _, p := range proved {
		if p.StaticPath() == r.StaticPath() {
			return
		}
	}
	for i, p := range prefixes {
		if !holds(wholeFact(p)) {
			continue
		}
		for ; i+1 < len(prefixes); i++ {
			if known, ok := f.shapeOf(prefixes[i]); ok && !slices.Contains(known, r.Segs[i+1].Name) {
				f.AddError("member_unknown", ptr, finding.Near(r.Segs[i+1].Name, known), "%s is never there: what is written to %s has no member %q", r, expr.Ref{Root: r.Root, Segs: r.Segs[:i+1]}, r.Segs[i+1].Name)
				break
			}
		}
		return
	}
	hint := fmt.Sprintf(`write it on every path, or say {"ref":"%s","default":…}`, r)
	if f.owner != nil && r.Root == "$tmp" {
		hint = "a body begins with an empty $tmp: what was computed before is passed in $vars"
	}
	if slices.ContainsFunc(prefixes, func(p string) bool { _, ok := f.facts[wholeFact(p)]; return ok }) {
		f.AddError("ref_unset", ptr, hint, "%s may have no value here: on some path nothing has written it", r)
		return
	}
	f.AddError("ref_unset", ptr, hint, "%s has no value here: nothing writes it", r)
}
