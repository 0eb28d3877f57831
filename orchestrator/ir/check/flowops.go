package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// maxIterations bounds one LOOP, maxBranches one PARALLEL.
const (
	maxIterations = 10_000
	maxBranches   = 64
)

// flowCheck checks the members of nodes that steer the flow.
type flowCheck struct{ *graph }

func (g flowCheck) checkParallel(n *ir.Node, ptr string) {
	switch {
	case len(n.Branches) == 0:
		g.AddError("field_missing", ptr+"/branches", `"branches": [{"name": …, "body": {"entry_node": …, "nodes": […]}}]`, "PARALLEL needs branches")
	case len(n.Branches) > maxBranches:
		g.AddError("document_too_large", ptr+"/branches", "a MAP runs one body for many items", "a PARALLEL has at most %d branches", maxBranches)
	}
	seen := map[string]bool{}
	for i, b := range n.Branches {
		at := fmt.Sprintf("%s/branches/%d", ptr, i)
		switch {
		case !ir.IDPattern().MatchString(b.Name):
			g.AddError("id_invalid", at+"/name", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a branch", b.Name)
		case seen[b.Name] || b.Name == "result" || b.Name == "branch":
			g.AddError("branch_duplicate", at+"/name", "rename the branch", "there is a port %q already", b.Name)
		}
		seen[b.Name] = true
		if b.Body == nil {
			g.AddError("field_missing", at+"/body", `"body": {"entry_node": …, "nodes": […], "edges": […]}`, "a branch has a body")
		}
		g.checkResult(b.Result, at+"/result", g.element)
	}
	if !slices.Contains([]string{"", ir.JoinAll, ir.JoinAny, ir.JoinSettled}, n.Join) {
		g.AddError("join_invalid", ptr+"/join", finding.Near(n.Join, []string{ir.JoinAll, ir.JoinAny, ir.JoinSettled}), "join cannot be %q", n.Join)
	}
	g.checkConcurrency(n, ptr)
	g.checkFork(n, ptr)
}

func (g flowCheck) checkLoop(n *ir.Node, ptr string) {
	if n.Body == nil {
		g.AddError("field_missing", ptr+"/body", `"body": {"entry_node": …, "nodes": […], "edges": […]}`, "LOOP has a body")
	}
	if (n.Until == nil) == (n.While == nil) {
		g.AddError("loop_condition", ptr, `"until": {"op": …} is asked after each iteration, "while" before`, "LOOP has either until or while")
	}
	for name, c := range map[string]*expr.Cond{"until": n.Until, "while": n.While} {
		if _, ok := c.IsCase(); ok || c.IsOtherwise() {
			g.AddError("cond_misplaced", ptr+"/"+name, "write a comparison, such as {\"op\": \"eq\", \"left\": \"$vars.x\", \"right\": 1}", `"case" and "otherwise" are conditions of edges`)
		}
	}
	switch {
	case n.MaxIterations == 0:
		g.AddError("field_missing", ptr+"/max_iterations", `"max_iterations": 10`, "LOOP needs a maximum number of iterations")
	case n.MaxIterations < 0 || n.MaxIterations > maxIterations:
		g.AddError("limit_invalid", ptr+"/max_iterations", "raise the bound only as far as the work needs it", "max_iterations is between 1 and %d", maxIterations)
	}
	g.checkExprText(n.Init, ptr+"/init")
	g.checkResult(n.Result, ptr+"/result", true)
}

func (g flowCheck) checkSet(n *ir.Node, ptr string) {
	if len(n.Set) == 0 {
		g.AddError("field_missing", ptr+"/set", `"set": {"$vars.name": value}`, "SET needs at least one value")
	}
	targets := slices.Sorted(maps.Keys(n.Set))
	for i, target := range targets {
		at := ptr + "/set/" + finding.EscapePointer(target)
		g.checkExprText(n.Set[target], at)
		g.checkWrite(target, at, "values are written to $vars.name (kept) or $tmp.name")
		for _, other := range targets[:i] {
			if strings.HasPrefix(target, other+".") {
				g.AddError("target_conflict", at, "give each value its own place", "%s lies inside of %s, which is written, too", target, other)
			}
		}
	}
}

func (g flowCheck) checkWait(n *ir.Node, ptr string) {
	if (n.Seconds == nil) == (n.At == nil) {
		g.AddError("wait_time", ptr, `"seconds": 60, or "at": "2030-01-31T08:00:00Z"`, "WAIT has either seconds or at")
	}
	g.checkExprText(n.Seconds, ptr+"/seconds")
	g.checkExprText(n.At, ptr+"/at")
	if expression, err := expr.Decode(n.Seconds); n.Seconds != nil && err == nil && !expr.RefersTo(expression) {
		if v, f := expr.EvalValue(expression, expr.Scope{}, 0); f == nil {
			if _, bad := WaitSeconds(v); bad != nil {
				g.AddError("limit_invalid", ptr+"/seconds", `"seconds": 60`, "%s", bad.Message)
			}
		}
	}
	if expression, err := expr.Decode(n.At); n.At != nil && err == nil && !expr.RefersTo(expression) {
		if v, f := expr.EvalValue(expression, expr.Scope{}, 0); f == nil {
			if _, bad := WaitUntil(v); bad != nil {
				g.AddError("wait_time", ptr+"/at", `"2030-01-31T08:00:00Z"`, "%s", bad.Message)
			}
		}
	}
}

// WaitSeconds reads the value of a WAIT's seconds.
func WaitSeconds(v any) (float64, *expr.Failure) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, expr.Failf(expr.FailStateType, "seconds is a number; this is %s", expr.TypeName(v))
	}
	s, err := n.Float64()
	if err != nil || s < 0 || s > maxTimeoutS || math.IsNaN(s) {
		return 0, expr.Failf(expr.FailStateType, "a WAIT takes between 0 and %d seconds, not %s", maxTimeoutS, n)
	}
	return s, nil
}

func (g flowCheck) checkFail(n *ir.Node, ptr string) {
	if n.Kind != "" && (!slices.Contains(expr.FailureKinds(), n.Kind) || n.Kind == expr.FailCancelled) {
		g.AddError("failure_kind_unknown", ptr+"/kind", finding.OneOf(n.Kind, expr.FailureKinds()), "FAIL cannot fail with %q", n.Kind)
	}
	if n.Message == nil {
		g.AddError("field_missing", ptr+"/message", `"message": "there is nothing to send"`, "FAIL needs a message")
	}
	g.checkExprText(n.Message, ptr+"/message")
	g.checkTerminal(n, ptr)
}

func (g flowCheck) checkEnd(n *ir.Node, ptr string) {
	g.checkExprText(n.Output, ptr+"/output")
	g.checkTerminal(n, ptr)
}

// checkTerminal refuses edges behind a node that none leaves.
func (g flowCheck) checkTerminal(n *ir.Node, ptr string) {
	for i, e := range g.Edges {
		if e.From == n.ID {
			g.AddError("edge_unreachable", g.edgePtr(i), "remove it", "no edge leaves %s: %s is the last node of its way", n.ID, n.Op)
		}
	}
}

func (g flowCheck) checkEmit(n *ir.Node, ptr string) {
	if n.Event == nil {
		g.AddError("field_missing", ptr+"/event", `"event": {"kind": "progress", "message": "half done"}`, "EMIT needs an event")
		return
	}
	g.checkExprText(n.Event, ptr+"/event")
	expression, err := expr.Decode(n.Event)
	object, ok := expression.(map[string]any)
	if err != nil || ok && expr.OperatorOf(object) != "" || expr.RefersTo(expression) && !ok {
		return
	}
	if !ok {
		g.AddError("event_invalid", ptr+"/event", `{"kind": "progress", "message": "half done"}`, "an event is an object; this is %s", expr.TypeName(expression))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(eventMembers, k) {
			g.AddError("event_invalid", ptr+"/event/"+finding.EscapePointer(k), finding.Near(k, eventMembers), "an event has no member %q", k)
		}
	}
	if object["message"] == nil {
		g.AddError("event_invalid", ptr+"/event/message", `{"kind": "progress", "message": "half done"}`, "an event has a message")
	}
}

var eventMembers = []string{"kind", "message", "metadata"}

// CheckEvent judges the value of an EMIT's event.
func CheckEvent(v any) *expr.Failure {
	object, ok := v.(map[string]any)
	if !ok {
		return expr.Failf(expr.FailStateType, "an event is an object; this is %s", expr.TypeName(v))
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		_, text := object[k].(string)
		_, members := object[k].(map[string]any)
		switch {
		case !slices.Contains(eventMembers, k):
			return expr.Failf(expr.FailStateType, "an event has no member %q", k)
		case k == "metadata" && !members && object[k] != nil:
			return expr.Failf(expr.FailStateType, "an event's metadata is an object; this is %s", expr.TypeName(object[k]))
		case k != "metadata" && !text:
			return expr.Failf(expr.FailStateType, "an event's %s is a text; this is %s", k, expr.TypeName(object[k]))
		}
	}
	if object["message"] == nil || object["message"] == "" {
		return expr.Failf(expr.FailStateType, "the event has no message")
	}
	return nil
}

func (g flowCheck) checkCompensate(n *ir.Node, ptr string) {
	c, at := n.Compensate, ptr+"/compensate"
	if c == nil {
		return
	}
	if expression, err := expr.Decode(c.Args); c.Args != nil && err == nil {
		expr.CheckExpr(expression, at+"/args", expr.CondScope{Element: g.element, Output: true}, g.Report)
	}
	if c.Tool == "" {
		g.AddError("field_missing", at+"/tool", `"compensate": {"tool": "fs.remove", "args": {"path": "$out.path"}}`, "compensate names a tool")
		return
	}
	if g.doc.Tools != nil && !slices.Contains(g.doc.Tools, c.Tool) {
		g.AddError("tool_not_allowed", at+"/tool", "add it to tools", "%s is not in the document's list of tools", c.Tool)
	}
	skill, ok := g.lookup(c.Tool)
	if !ok {
		g.AddError("tool_unknown", at+"/tool", suggestSkill(c.Tool), "there is no skill %q", c.Tool)
		return
	}
	g.tools[c.Tool] = skill
	if members, static, err := ir.ArgMembers(c.Args); err != nil {
		g.AddError("arg_type", at+"/args", `{"name": value, …}`, "%v", err)
	} else if static {
		g.checkArgMembers(c.Tool, skill, members, at+"/args")
	}
	if done, ok := g.tools[n.Tool]; ok {
		if class, _, _ := ir.EffectiveClass(done, n.Args); class == manifests.ClassRead && n.SideEffect == "" {
			g.AddError("compensate_unneeded", at, "remove it", "%s only reads, so there is nothing to compensate", n.Tool)
		}
	}
}

// WaitUntil reads the value of a WAIT's at: an RFC 3339 instant.
func WaitUntil(v any) (time.Time, *expr.Failure) {
	text, ok := v.(string)
	if !ok {
		return time.Time{}, expr.Failf(expr.FailStateType, "at is a text; this is %s", expr.TypeName(v))
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, expr.Failf(expr.FailStateType, "%q is no instant as RFC 3339 writes them", text)
	}
	return t.UTC(), nil
}
