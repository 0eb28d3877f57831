package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

func (g *graph) checkArgMembers(tool string, skill manifests.Skill, members map[string]any, ptr string) {
	input, dynamic := ir.SplitLiterals(members)
	for _, p := range skill.CheckInput(input) {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
		name = finding.PointerUnescaper.Replace(name)
		known := slices.ContainsFunc(skill.Inputs, func(f manifests.Field) bool { return f.Name == name })
		switch _, given := input[name]; {
		case !known:
			g.AddError("arg_unknown", ptr+p.Pointer, finding.Near(name, fieldNames(skill.Inputs)), "%q %s", name, p.Message)
		case dynamic[name]:
		case !given:
			g.AddError("arg_missing", ptr+p.Pointer, "lattice skill show "+tool, "%s: argument %q %s", tool, name, p.Message)
		default:
			g.AddError("arg_type", ptr+p.Pointer, "lattice skill show "+tool, "%s: argument %q %s", tool, name, p.Message)
		}
	}
}

// checkInputs checks input ports and their projections.
func (g *graph) checkInputs(n *ir.Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		at := ptr + "/inputs/" + finding.EscapePointer(name)
		g.checkExprText(n.Inputs[name], at)
		if _, both := n.Projection[name]; both {
			expression, _ := expr.Decode(n.Inputs[name])
			if object, ok := expression.(map[string]any); ok && object["pick"] != nil && expr.OperatorOf(object) == "ref" {
				g.AddError("projection_twice", ptr+"/projection/"+finding.EscapePointer(name), "keep one of the two", "%q is projected here and by its own pick", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Projection)) {
		if _, ok := n.Inputs[name]; !ok {
			g.AddError("port_unknown", ptr+"/projection/"+finding.EscapePointer(name), finding.Near(name, slices.Sorted(maps.Keys(n.Inputs))), "there is no input %q", name)
		}
	}
}

func (g *graph) checkRetry(n *ir.Node, ptr string) {
	for i, r := range n.Retry {
		at := fmt.Sprintf("%s/retry/%d", ptr, i)
		g.checkKinds(r.On, at, i == len(n.Retry)-1)
		if r.MaxAttempts < 0 || r.MaxAttempts > 100 {
			g.AddError("limit_invalid", at+"/max_attempts", "it counts all attempts, the first included", "max_attempts is between 1 and 100")
		}
		for name, s := range map[string]float64{"interval_s": r.IntervalS, "max_delay_s": r.MaxDelayS} {
			if s < 0 || s > maxTimeoutS {
				g.AddError("limit_invalid", at+"/"+name, "leave it out for the default", "%s is between 0 and %d", name, maxTimeoutS)
			}
		}
		if r.BackoffRate != 0 && (r.BackoffRate < 1 || r.BackoffRate > 100) {
			g.AddError("limit_invalid", at+"/backoff_rate", `"backoff_rate": 2`, "backoff_rate is between 1 and 100")
		}
		if r.Jitter != "" && r.Jitter != "none" && r.Jitter != "full" {
			g.AddError("jitter_invalid", at+"/jitter", "known: none, full", "there is no jitter %q", r.Jitter)
		}
	}
}

func (g *graph) checkCatch(n *ir.Node, ptr string) {
	for i, c := range n.Catch {
		at := fmt.Sprintf("%s/catch/%d", ptr, i)
		g.checkKinds(c.On, at, i == len(n.Catch)-1)
		if c.To == "" {
			g.AddError("field_missing", at+"/to", `"to": "report"`, "catch names the node to go to")
		} else {
			g.checkTarget(c.To, at+"/to")
		}
		if c.Bind != "" {
			g.checkWrite(c.Bind, at+"/bind", "bind to $tmp.name or $vars.name")
		}
	}
}

// checkKinds checks the failure kinds of one rule. ALL stands alone, in the last rule.
func (g *graph) checkKinds(on []string, ptr string, last bool) {
	if len(on) == 0 {
		g.AddError("field_missing", ptr+"/on", `["ALL"] takes every kind`, "the rule names no failure kind")
	}
	for i, kind := range on {
		at := ptr + "/on/" + strconv.Itoa(i)
		switch {
		case kind == "ALL":
			if len(on) > 1 || !last {
				g.AddError("all_misplaced", at, "give ALL a rule of its own, the last one", "ALL must be the only kind of the last rule")
			}
		case !slices.Contains(expr.FailureKinds(), kind):
			g.AddError("failure_kind_unknown", at, finding.OneOf(kind, expr.FailureKinds()), "there is no failure kind %q", kind)
		}
	}
}

// checkResult checks the result expression of an iteration or branch.
func (g *graph) checkResult(text json.RawMessage, ptr string, element bool) {
	if expression, err := expr.Decode(text); text != nil && err == nil {
		expr.CheckExpr(expression, ptr, expr.CondScope{Element: element}, g.Report)
	}
}

func (g *graph) edgePtr(i int) string { return g.ptr + "/edges/" + strconv.Itoa(i) }

// Ports of LLM nodes in addition to the members of the output; a member of the same name hides one. LLM_CHOOSE with resolve also
// has "item".
var llmPorts = []string{"attempts", "cached", "class", "escalated", "repaired"}

// portsLLM lists the top-level members of the output of an LLM_… node, nil if they are not known.
func (g *graph) portsLLM(n *ir.Node) []string {
	schema, ok := g.doc.FindOutputSchema(n.OutputSchema)
	var top struct {
		Properties           map[string]json.RawMessage
		AdditionalProperties any
	}
	if !ok || json.Unmarshal(schema, &top) != nil || top.AdditionalProperties != false {
		return nil
	}
	return slices.Sorted(maps.Keys(top.Properties))
}

// extraPorts lists the ports of a node in addition to the members of its output.
func extraPorts(n *ir.Node) []string {
	switch {
	case n.Op == ir.OpLLMChoose && n.Resolve:
		return append([]string{"item"}, llmPorts...)
	case n.Op.LLM():
		return llmPorts
	case n.Op == ir.OpToolCall && n.ForksSprites():
		return []string{"sprite"}
	}
	return nil
}

// checkConcurrency refuses a concurrency above the limits and warns if a body has to run its iterations one at a time:
// the result is the same, it only takes longer.
func (g *graph) checkConcurrency(n *ir.Node, ptr string) {
	most := g.doc.MaxParallel()
	if n.Concurrency < 0 || n.Concurrency > most {
		g.AddError("limit_invalid", ptr+"/concurrency", `raise "limits": {"max_parallel": …}`, "concurrency is between 1 and limits.max_parallel, which is %d", most)
		return
	}
	wide := n.Concurrency > 1 || n.Op == ir.OpParallel && n.Concurrency == 0 && len(n.Branches) > 1
	if !wide {
		return
	}
	if why := g.top.serialReasons(n); len(why) > 0 {
		if more := len(why) - 3; more > 0 {
			why = append(why[:3], fmt.Sprintf("and %d more nodes", more))
		}
		if n.Op == ir.OpParallel {
			g.AddWarning("branches_serial", ptr+"/branches", `say so by "concurrency": 1, or keep to calls that only read`, "branches run one at a time: %s", strings.Join(why, "; "))
			return
		}
		g.AddWarning("map_serial", ptr+"/concurrency", "leave concurrency out, or keep to calls that only read", "iterations run one at a time, not %d at once: %s", n.Concurrency, strings.Join(why, "; "))
	}
}

// checkFork checks sprite and keep_sprite.
func (g *graph) checkFork(n *ir.Node, ptr string) {
	if n.Sprite != "" && n.Sprite != "main" && !n.ForksSprites() {
		g.AddError("sprite_invalid", ptr+"/sprite", `known: main, fork`, "sprite cannot be %q", n.Sprite)
	}
	if n.KeepSprite && !n.ForksSprites() {
		g.AddError("field_not_allowed", ptr+"/keep_sprite", `"sprite": "fork"`, "keep_sprite keeps forks of a sprite, and %s makes none", n.ID)
	}
	if !n.ForksSprites() {
		return
	}
	for _, b := range n.InnerGraphs() {
		ir.WalkNodes(b.Nodes, "", func(inner *ir.Node, _ string) {
			if inner.ForksSprites() && inner.Op != ir.OpToolCall {
				g.AddError("fork_nested", ptr+"/sprite", "remove one of the two", "%s forks sprites inside %s, which forks them too", inner.ID, n.ID)
			}
		})
	}
}

// Bounds of a graph.
const (
	maxNodes = 1000
	maxEdges = 5000
	maxFacts = 20_000 // paths of variables, parents counted
	maxParts = 256    // outputs, cases, choices or inputs to merge of one node
	maxItems = 10_000 // of one MAP
)

// validator checks one document. Its methods each look at one aspect and add their findings.
type validator struct {
	*finding.Report
	doc    *ir.Document
	lookup ir.ToolLookup
	tools  map[string]manifests.Skill // of the nodes, as far as they are known
	places map[string]string          // pointer of every node, in whatever graph, by its id
	top    *validator                 // of the document whose subgraph this one is; else itself
	subs   map[string]ir.Document     // subgraphs, as far as they are sound
	judges []Judge                    // of the top one
	input  *ir.SchemaView             // of $in, once it was asked for
}

// graph is the document's own graph, or one inside of a node.
type graph struct {
	*validator
	ir.Inner
	ptr     string           // pointer of the object that holds the nodes: "" or "/nodes/3/body"
	result  string           // pointer of Result
	owner   *ir.Node         // the node whose body it is; nil for the document's own
	element bool             // $item and $index have a meaning in it
	keeps   bool             // it may write $vars
	index   map[string]int   // node id → position
	bodies  map[int][]*graph // inside of its nodes, by position
}

// passContext sets the context of the graphs inside node i: whether they have $item and whether their $vars are kept.
func (g *graph) passContext(i int) {
	for _, b := range g.bodies[i] {
		b.element = g.element || b.owner.Op != ir.OpParallel
		b.keeps = g.keeps && b.owner.Op == ir.OpLoop
	}
}

func (g *graph) nodePtr(i int) string { return g.ptr + "/nodes/" + strconv.Itoa(i) }

// maxTimeoutS is that of manifests: one year, so that a wrong unit is found.
const maxTimeoutS = manifests.MaxTimeoutS

// checkTarget checks that id names a node of this graph.
func (g *graph) checkTarget(id, ptr string) {
	if _, ok := g.index[id]; ok {
		return
	}
	if at, ok := g.places[id]; ok {
		g.AddError("node_elsewhere", ptr, "lead to a node of the same graph", "no way leads from here to %q at %s: a body is a graph of its own", id, at)
		return
	}
	g.AddError("node_unknown", ptr, finding.Near(id, slices.Sorted(maps.Keys(g.index))), "there is no node %q", id)
}

// checkExprText checks a value expression that the document holds as raw JSON.
func (g *graph) checkExprText(text json.RawMessage, ptr string) {
	if text == nil {
		return
	}
	if expression, err := expr.Decode(text); err == nil {
		expr.CheckExpr(expression, ptr, expr.CondScope{Element: g.element}, g.Report)
	}
}

// checkWrite checks the path of a write and reports whether it is sound.
func (g *graph) checkWrite(path, ptr, hint string) bool {
	r, err := expr.ParseTarget(path)
	switch {
	case err != nil:
		g.AddError("target_invalid", ptr, hint, "%v", err)
	case !g.keeps && r.Root == "$vars":
		g.AddError("vars_in_body", ptr, "write it to $tmp."+r.MemberNames()[0]+", and name that in the result of "+g.owner.ID, "the body of %s cannot write %s: what runs beside it would overwrite it", g.owner.ID, path)
	default:
		return true
	}
	return false
}

func (g *graph) subjectOf(n *ir.Node) string {
	if n.Op == ir.OpToolCall {
		return n.Tool
	}
	return string(n.Op)
}

// parallelPorts are the names of the branches; under any the one that won is told by port branch.
func parallelPorts(n *ir.Node) []string {
	if n.Join == ir.JoinAny {
		return []string{"branch"}
	}
	var names []string
	for _, b := range n.Branches {
		names = append(names, b.Name)
	}
	return names
}

// portsOf lists the top-level members of a node's output, nil when they are not known.
func (g *graph) portsOf(n *ir.Node) []string {
	switch n.Op {
	case ir.OpToolCall:
		skill, ok := g.tools[n.Tool]
		if !ok || skill.Outputs == nil {
			return nil
		}
		names := []string{}
		for _, f := range skill.Outputs {
			names = append(names, f.Name)
		}
		return names
	case ir.OpPack:
		return slices.Sorted(maps.Keys(n.Inputs))
	case ir.OpSwitch:
		return []string{"case"}
	case ir.OpHuman:
		return append(slices.Sorted(maps.Keys(n.ExpectedInputs())), "approved", "comments", "by")
	case ir.OpMap:
		return []string{"failures"}
	case ir.OpLoop:
		return []string{"iterations"}
	case ir.OpParallel:
		return parallelPorts(n)
	case ir.OpSubgraph:
		return []string{}
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		return g.portsLLM(n)
	case ir.OpMerge, ir.OpSet, ir.OpWait, ir.OpEmit, ir.OpFail, ir.OpEnd:
	}
	return nil
}
