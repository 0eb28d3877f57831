package check

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// mapCheck checks the members of MAP nodes, and how nodes run others at once.
type mapCheck struct{ *graph }

func (g mapCheck) checkMap(n *ir.Node, ptr string) {
	if n.Items == nil {
		g.AddError("field_missing", ptr+"/items", `"items": "$vars.files"`, "MAP needs items")
	}
	g.checkExprText(n.Items, ptr+"/items")
	if n.As != "" && n.As != "$item" {
		g.AddError("as_invalid", ptr+"/as", `leave "as" out`, "the item is always called $item")
	}
	if n.Body == nil {
		g.AddError("field_missing", ptr+"/body", `"body": {"entry_node": …, "nodes": […], "edges": […]}`, "MAP has a body")
	}
	switch {
	case n.MaxItems == 0:
		g.AddError("field_missing", ptr+"/max_items", `"max_items": 100`, "MAP needs a maximum number of items")
	case n.MaxItems < 0 || n.MaxItems > maxItems:
		g.AddError("limit_invalid", ptr+"/max_items", "leave it out for the default", "max_items is between 1 and %d", maxItems)
	}
	g.checkResult(n.Result, ptr+"/result", true)
	g.checkTolerance(n, ptr)
	g.checkConcurrency(n, ptr)
	g.checkFork(n, ptr)
}

func (g mapCheck) checkTolerance(n *ir.Node, ptr string) {
	switch n.OnError {
	case "", "fail":
		if n.ToleratedFailures != nil {
			g.AddError("field_not_allowed", ptr+"/tolerated_failures", `"on_error": "collect"`, "without collect the first failed item fails the MAP")
		}
	case "collect":
		if t := n.ToleratedFailures; t != nil && (*t < 0 || *t > maxItems) {
			g.AddError("limit_invalid", ptr+"/tolerated_failures", "leave it out to tolerate any number", "tolerated_failures is between 0 and %d", maxItems)
		}
	default:
		g.AddError("on_error_invalid", ptr+"/on_error", "known: fail, collect", "on_error cannot be %q", n.OnError)
	}
}

// serialReasons lists the reasons why the bodies of n cannot run concurrently: calls that write share one sprite, and
// people are asked one question at a time (DESIGN 23).
func (v *validator) serialReasons(n *ir.Node) []string {
	return ir.SerialReasonsOf(n, v.lookup, func(ref string) []ir.Node {
		name, _, _ := strings.Cut(ref, "@")
		return v.subs[name].Nodes
	})
}
