package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// Bounds of a graph.
const (
	maxNodes = 1000
	maxEdges = 5000
	maxFacts = 20_000 // paths of variables, parents counted
	maxParts = 256    // outputs, cases or choices of one node
)

var idPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// failureKinds is the closed list that retry and catch choose from.
var failureKinds = []string{
	FailTimeout, FailTool, FailToolUnavailable, FailToolDenied, "parse_failure", FailSchema, "invariant_failure", "refusal", "truncated",
	"provider_error", "rate_limited", FailRef, FailStateType, FailNoEdge, FailLimit, FailCancelled, FailHumanRejected, FailHumanTimeout,
}

// validator checks one document. Its methods each look at one aspect and add their findings.
type validator struct {
	*report
	doc    *Document
	lookup func(name string) (manifests.Skill, bool)
	tools  map[string]manifests.Skill // of the nodes, as far as they are known
	index  map[string]int             // node id → position
}

func (v *validator) check() {
	v.checkHead()
	if len(v.doc.Nodes) > maxNodes || len(v.doc.Edges) > maxEdges {
		v.error("document_too_large", "/nodes", "split the flow", "a document has at most %d nodes and %d edges", maxNodes, maxEdges)
		return
	}
	v.checkIDs()
	for i := range v.doc.Nodes {
		v.checkNode(&v.doc.Nodes[i], "/nodes/"+strconv.Itoa(i))
	}
	v.checkGraph()
	v.checkFlow()
}

func (v *validator) checkHead() {
	d := v.doc
	if d.ID != "" && !idPattern.MatchString(d.ID) {
		v.error("id_invalid", "/id", "letters, digits, _ . and -, a letter first, at most 64", "%q is no id", d.ID)
	}
	if d.Revision < 0 {
		v.error("limit_invalid", "/revision", "", "a revision is not negative")
	}
	if d.InputSchema != nil {
		v.warn("input_schema_unchecked", "/input_schema", "", "this lattice does not check the input against a schema")
	}
	v.checkExprText(d.Output, "/output")
	for i, name := range d.CtxRequires {
		if name == "" {
			v.error("id_invalid", "/ctx_requires/"+strconv.Itoa(i), "", "a member of $ctx has a name")
		}
	}
	seen := map[string]bool{}
	for i, name := range d.Tools {
		at := "/tools/" + strconv.Itoa(i)
		if seen[name] {
			v.warn("tool_duplicate", at, "", "%s is listed twice", name)
		}
		seen[name] = true
		if _, ok := v.lookup(name); !ok {
			v.error("tool_unknown", at, near(name, builtinNames()), "there is no skill %q", name)
		}
	}
	v.checkLimits()
}

func builtinNames() []string {
	var names []string
	for _, s := range manifests.Skills() {
		names = append(names, s.Name)
	}
	return names
}

func (v *validator) checkLimits() {
	l := v.doc.Limits
	if l == nil {
		return
	}
	within := func(name string, got, most float64) {
		if got < 0 || got > most || math.IsNaN(got) {
			v.error("limit_invalid", "/limits/"+name, "", "%s is between 0 (the default) and %g, not %g", name, most, got)
		}
	}
	within("max_steps", float64(l.MaxSteps), 1e6)
	within("max_llm_calls", float64(l.MaxLLMCalls), 1e6)
	within("max_tokens", float64(l.MaxTokens), 1e9)
	within("max_cost_usd", l.MaxCostUSD, 1e6)
	within("timeout_s", l.TimeoutS, maxTimeoutS)
	within("max_parallel", float64(l.MaxParallel), 256)
	within("max_state_bytes", float64(l.MaxStateBytes), 64<<20)
}

// maxTimeoutS is one year, so that a wrong unit is found.
const maxTimeoutS = 366 * 24 * 3600

func (v *validator) checkIDs() {
	v.index = map[string]int{}
	for i := range v.doc.Nodes {
		id, at := v.doc.Nodes[i].ID, fmt.Sprintf("/nodes/%d/id", i)
		switch first, ok := v.index[id]; {
		case id == "":
			v.error("field_missing", at, "", "a node has an id")
			continue
		case !idPattern.MatchString(id):
			v.error("id_invalid", at, "letters, digits, _ . and -, a letter first, at most 64", "%q is no id", id)
		case ok:
			v.error("id_duplicate", at, "", "node %d is called %q already", first, id)
			continue
		}
		v.index[id] = i
	}
	switch d := v.doc; {
	case len(d.Nodes) == 0:
		v.error("field_missing", "/nodes", "", "a document has at least one node")
	case d.EntryNode == "":
		v.error("field_missing", "/entry_node", "", "entry_node names the node that runs first")
	default:
		v.checkTarget(d.EntryNode, "/entry_node")
	}
}

// checkTarget checks that id names a node.
func (v *validator) checkTarget(id, ptr string) {
	if _, ok := v.index[id]; !ok {
		v.error("node_unknown", ptr, near(id, slices.Sorted(maps.Keys(v.index))), "there is no node %q", id)
	}
}

// checkExprText checks a value expression that the document holds as raw JSON.
func (v *validator) checkExprText(text json.RawMessage, ptr string) {
	if text == nil {
		return
	}
	if expr, err := decodeValue(text); err == nil {
		checkExpr(expr, ptr, false, v.report)
	}
}

// nodeFields lists the members of a node that belong to some ops only.
var nodeFields = map[string][]Op{
	"inputs": {OpPack, OpHuman}, "projection": {OpPack, OpHuman}, "timeout_s": {OpToolCall, OpHuman}, "retry": {OpToolCall},
	"tool": {OpToolCall}, "args": {OpToolCall}, "side_effect": {OpToolCall}, "idempotency_key": {OpToolCall}, "sprite": {OpToolCall},
	"cases": {OpSwitch}, "default": {OpSwitch},
	"prompt": {OpHuman}, "choices": {OpHuman}, "expected_inputs": {OpHuman}, "default_answer": {OpHuman}, "on_timeout": {OpHuman},
}

// present names the op-bound members that a node has.
func (n *Node) present() []string {
	has := map[string]bool{
		"inputs": n.Inputs != nil, "projection": n.Projection != nil, "timeout_s": n.TimeoutS != 0, "retry": n.Retry != nil,
		"tool": n.Tool != "", "args": n.Args != nil, "side_effect": n.SideEffect != "", "idempotency_key": n.IdempotencyKey != nil, "sprite": n.Sprite != "",
		"cases": n.Cases != nil, "default": n.Default != "",
		"prompt": n.Prompt != nil, "choices": n.Choices != nil, "expected_inputs": n.Expected != nil, "default_answer": n.Answer != nil, "on_timeout": n.OnTimeout != "",
	}
	maps.DeleteFunc(has, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(has))
}

func (v *validator) checkNode(n *Node, ptr string) {
	if n.Op == "" {
		v.error("field_missing", ptr+"/op", "known: "+strings.Join(ops, ", "), "a node has an op")
		return
	}
	if !slices.Contains(ops, string(n.Op)) {
		return // reported when it was decoded
	}
	for _, name := range n.present() {
		if !slices.Contains(nodeFields[name], n.Op) {
			v.error("field_not_allowed", ptr+"/"+name, "", "%s has no %q", n.Op, name)
		}
	}
	if n.TimeoutS < 0 || n.TimeoutS > maxTimeoutS {
		v.error("limit_invalid", ptr+"/timeout_s", "", "timeout_s is between 0 and %d", maxTimeoutS)
	}
	if len(n.Outputs) > maxParts || len(n.Cases) > maxParts || len(n.Choices) > maxParts {
		v.error("document_too_large", ptr, "", "a node has at most %d outputs, cases or choices", maxParts)
		return
	}
	v.checkRetry(n, ptr)
	v.checkCatch(n, ptr)
	switch n.Op {
	case OpToolCall:
		v.checkToolCall(n, ptr)
	case OpPack:
		v.checkPack(n, ptr)
	case OpSwitch:
		v.checkSwitch(n, ptr)
	case OpHuman:
		v.checkHuman(n, ptr)
	}
	v.checkOutputs(n, ptr)
}

// checkOutputs checks targets and ports. Two outputs of one node may not write over each other.
func (v *validator) checkOutputs(n *Node, ptr string) {
	ports := v.ports(n)
	for _, port := range slices.Sorted(maps.Keys(n.Outputs)) {
		at := ptr + "/outputs/" + escapePointer(port)
		if port != "result" && ports != nil && !slices.Contains(ports, port) {
			v.error("port_unknown", at, near(port, append(slices.Clone(ports), "result")), "%s has no output %q", v.subject(n), port)
		}
		if _, err := parseTarget(n.Outputs[port]); err != nil {
			v.error("target_invalid", at, "outputs are written to $vars.name (kept) or $tmp.name", "%v", err)
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(n.Outputs)) {
			a, b := n.Outputs[port], n.Outputs[other]
			if port < other && (a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")) {
				v.error("target_conflict", at, "give each output its own place", "the outputs %q and %q write to the same place", port, other)
			}
		}
	}
}

func (v *validator) subject(n *Node) string {
	if n.Op == OpToolCall {
		return n.Tool
	}
	return string(n.Op)
}

// ports lists the top-level members of a node's output, nil when they are not known.
func (v *validator) ports(n *Node) []string {
	switch n.Op {
	case OpToolCall:
		skill, ok := v.tools[n.Tool]
		if !ok || skill.Outputs == nil {
			return nil
		}
		names := []string{}
		for _, f := range skill.Outputs {
			names = append(names, f.Name)
		}
		return names
	case OpPack:
		return slices.Sorted(maps.Keys(n.Inputs))
	case OpSwitch:
		return []string{"case"}
	case OpHuman:
		return append(slices.Sorted(maps.Keys(n.ExpectedInputs())), "approved", "comments", "by")
	}
	return nil
}
