package check

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

func (v *validator) checkDocument() {
	v.checkHead()
	v.checkTemplates()
	if v.top == v {
		v.subs = v.checkSubgraphs(v.lookup)
	}
	nodes, edges := v.doc.CountParts()
	if nodes > maxNodes || edges > maxEdges {
		v.AddError("document_too_large", "/nodes", "split the flow", "a document has at most %d nodes and %d edges", maxNodes, maxEdges)
		return
	}
	g := v.newGraph(ir.Inner{Body: &ir.Body{EntryNode: v.doc.EntryNode, Nodes: v.doc.Nodes, Edges: v.doc.Edges}, Result: v.doc.Output}, "", nil)
	g.result, g.keeps = "/output", true
	g.checkGraph()
	g.checkExprText(v.doc.Output, "/output")
	g.checkFlow(nil, 0)
}

// newGraph numbers the nodes of a graph and of those in it. Ids are unique in the whole document.
func (v *validator) newGraph(b ir.Inner, ptr string, owner *ir.Node) *graph {
	g := &graph{validator: v, Inner: b, ptr: ptr, owner: owner, index: map[string]int{}, bodies: map[int][]*graph{}}
	for i := range b.Nodes {
		n, at := &b.Nodes[i], g.nodePtr(i)
		switch first, ok := v.places[n.ID]; {
		case n.ID == "":
			v.AddError("field_missing", at+"/id", `"id": "read"`, "a node has an id")
		case ok:
			v.AddError("id_duplicate", at+"/id", "rename one of the two; ids are unique in the whole document", "the node at %s is called %q already", first, n.ID)
		default:
			if !ir.IDPattern().MatchString(n.ID) {
				v.AddError("id_invalid", at+"/id", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid id", n.ID)
			}
			v.places[n.ID] = at
			g.index[n.ID] = i
		}
		ptrs, results := n.InnerPtrs(at)
		for j, b := range n.InnerGraphs() {
			inner := v.newGraph(b, ptrs[j], n)
			inner.result = results[j]
			g.bodies[i] = append(g.bodies[i], inner)
		}
	}
	return g
}

func (g *graph) checkGraph() {
	switch {
	case len(g.Nodes) == 0:
		g.AddError("field_missing", g.ptr+"/nodes", `"nodes": [{"id": "done", "op": "END"}]`, "there is at least one node")
	case g.EntryNode == "":
		g.AddError("field_missing", g.ptr+"/entry_node", `"entry_node": "`+g.Nodes[0].ID+`"`, "entry_node names the node that runs first")
	default:
		g.checkTarget(g.EntryNode, g.ptr+"/entry_node")
	}
	for i := range g.Nodes {
		g.checkNode(&g.Nodes[i], g.nodePtr(i))
		g.passContext(i)
		for _, body := range g.bodies[i] {
			body.checkGraph()
		}
	}
	g.checkEdges()
}

func (v *validator) checkHead() {
	d := v.doc
	if d.ID != "" && !ir.IDPattern().MatchString(d.ID) {
		v.AddError("id_invalid", "/id", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid id", d.ID)
	}
	if d.Revision < 0 {
		v.AddError("limit_invalid", "/revision", `"revision": 1`, "a revision is not negative")
	}
	v.checkInputSchema()
	for i, name := range d.CtxRequires {
		if name == "" {
			v.AddError("id_invalid", "/ctx_requires/"+strconv.Itoa(i), "remove it, or name the member", "a member of $ctx has a name")
		}
	}
	seen := map[string]bool{}
	for i, name := range d.Tools {
		at := "/tools/" + strconv.Itoa(i)
		if seen[name] {
			v.AddWarning("tool_duplicate", at, "remove one of the two", "%s is listed twice", name)
		}
		seen[name] = true
		if _, ok := v.lookup(name); !ok {
			v.AddError("tool_unknown", at, suggestSkill(name), "there is no skill %q", name)
		}
	}
	v.checkLimits()
}

// suggestSkill returns a hint for the name of a skill that is unknown.
func suggestSkill(name string) string {
	var names []string
	for _, s := range manifests.Skills() {
		names = append(names, s.Name)
	}
	return cmp.Or(finding.Near(name, names), "lattice skill ls lists the skills")
}

func (v *validator) checkLimits() {
	l := v.doc.Limits
	if l == nil {
		return
	}
	within := func(name string, got, most float64) {
		if got < 0 || got > most || math.IsNaN(got) {
			v.AddError("limit_invalid", "/limits/"+name, "leave it out for the default", "%s is between 0 (the default) and %g, not %g", name, most, got)
		}
	}
	within("max_steps", float64(l.MaxSteps), 1e6)
	within("max_calls", float64(l.MaxCalls), 1e6)
	within("max_llm_calls", float64(l.MaxLLMCalls), 1e6)
	within("max_tokens", float64(l.MaxTokens), 1e9)
	within("max_cost_usd", l.MaxCostUSD, 1e6)
	within("timeout_s", l.TimeoutS, maxTimeoutS)
	within("max_parallel", float64(l.MaxParallel), 256)
	within("max_state_bytes", float64(l.MaxStateBytes), 64<<20)
}

func (g *graph) checkNode(n *ir.Node, ptr string) {
	if n.Op == "" {
		g.AddError("field_missing", ptr+"/op", "known: "+strings.Join(ir.OpNames(ir.Ops()), ", "), "a node has an op")
		return
	}
	if !slices.Contains(ir.Ops(), n.Op) {
		return // or reported when it was decoded
	}
	if _, ok := n.Skip.IsCase(); ok || n.Skip.IsOtherwise() {
		g.AddError("cond_misplaced", ptr+"/when_skip", "write a comparison, such as {\"op\": \"eq\", \"left\": \"$vars.x\", \"right\": 1}", `"case" and "otherwise" are conditions of edges`)
	}
	if n.Skip != nil && (n.Op == ir.OpSwitch || n.Op == ir.OpFail || n.Op == ir.OpEnd) {
		g.AddError("field_not_allowed", ptr+"/when_skip", "put the condition on an edge", "%s decides where the flow goes; it is not skipped", n.Op)
	}
	for _, name := range n.PresentMembers() {
		if !slices.Contains(ir.NodeFields[name], n.Op) {
			g.AddError("field_not_allowed", ptr+"/"+name, "remove it; it belongs to "+strings.Join(ir.OpNames(ir.NodeFields[name]), ", "), "%s has no %q", n.Op, name)
		}
	}
	if n.Outputs != nil && slices.Contains([]ir.Op{ir.OpSet, ir.OpWait, ir.OpEmit, ir.OpFail, ir.OpEnd}, n.Op) {
		g.AddError("field_not_allowed", ptr+"/outputs", "remove it", "%s puts nothing out", n.Op)
	}
	if n.TimeoutS < 0 || n.TimeoutS > maxTimeoutS {
		g.AddError("limit_invalid", ptr+"/timeout_s", "leave it out for the default", "timeout_s is between 0 and %d", maxTimeoutS)
	}
	if max(len(n.Outputs), len(n.Cases), len(n.Choices), len(n.From)) > maxParts {
		g.AddError("document_too_large", ptr, "split the node in two", "a node has at most %d outputs, cases, choices or inputs to merge", maxParts)
		return
	}
	g.checkRetry(n, ptr)
	g.checkCatch(n, ptr)
	switch n.Op {
	case ir.OpToolCall:
		callCheck{g}.checkToolCall(n, ptr)
	case ir.OpPack:
		callCheck{g}.checkPack(n, ptr)
	case ir.OpSwitch:
		callCheck{g}.checkSwitch(n, ptr)
	case ir.OpHuman:
		callCheck{g}.checkHuman(n, ptr)
	case ir.OpMerge:
		callCheck{g}.checkMerge(n, ptr)
	case ir.OpMap:
		mapCheck{g}.checkMap(n, ptr)
	case ir.OpParallel:
		flowCheck{g}.checkParallel(n, ptr)
	case ir.OpLoop:
		flowCheck{g}.checkLoop(n, ptr)
	case ir.OpSubgraph:
		g.checkSubgraph(n, ptr)
	case ir.OpSet:
		flowCheck{g}.checkSet(n, ptr)
	case ir.OpWait:
		flowCheck{g}.checkWait(n, ptr)
	case ir.OpEmit:
		flowCheck{g}.checkEmit(n, ptr)
	case ir.OpFail:
		flowCheck{g}.checkFail(n, ptr)
	case ir.OpEnd:
		flowCheck{g}.checkEnd(n, ptr)
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		llmCheck{g}.checkLLM(n, ptr)
	}
	g.checkOutputs(n, ptr)
}

// checkOutputs checks targets and ports. Two outputs of one node may not write over each other.
func (g *graph) checkOutputs(n *ir.Node, ptr string) {
	ports := g.portsOf(n)
	for _, port := range slices.Sorted(maps.Keys(n.Outputs)) {
		at := ptr + "/outputs/" + finding.EscapePointer(port)
		if port != "result" && ports != nil && !slices.Contains(ports, port) && !slices.Contains(extraPorts(n), port) {
			g.AddError("port_unknown", at, finding.Near(port, append(slices.Clone(ports), "result")), "%s has no output %q", g.subjectOf(n), port)
		}
		if !g.checkWrite(n.Outputs[port], at, "outputs are written to $vars.name (kept) or $tmp.name") {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(n.Outputs)) {
			a, b := n.Outputs[port], n.Outputs[other]
			if port < other && (a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")) {
				g.AddError("target_conflict", at, "give each output its own place", "the outputs %q and %q write to the same place", port, other)
			}
		}
	}
}
