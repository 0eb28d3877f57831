package check

import (
	"fmt"
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

// serialReasons lists the reasons why the bodies of n cannot run concurrently: calls that write share one sprite, and
// people are asked one question at a time (DESIGN 23).
func (v *validator) serialReasons(n *ir.Node) []string {
	return ir.SerialReasonsOf(n, v.lookup, func(ref string) []ir.Node {
		name, _, _ := strings.Cut(ref, "@")
		return v.subs[name].Nodes
	})
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
