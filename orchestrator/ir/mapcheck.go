package ir

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

func (g *graph) checkMap(n *Node, ptr string) {
	if n.Items == nil {
		g.error("field_missing", ptr+"/items", `"items": "$vars.files"`, "MAP runs its body for each of its items and has none")
	}
	g.checkExprText(n.Items, ptr+"/items")
	if n.As != "" && n.As != "$item" {
		g.error("as_invalid", ptr+"/as", `leave "as" out`, "the item is always called $item")
	}
	if n.Body == nil {
		g.error("field_missing", ptr+"/body", `"body": {"entry_node": …, "nodes": […], "edges": […]}`, "MAP has a body")
	}
	switch {
	case n.MaxItems == 0:
		g.error("field_missing", ptr+"/max_items", `"max_items": 100`, "MAP says how many items it takes at most")
	case n.MaxItems < 0 || n.MaxItems > maxItems:
		g.error("limit_invalid", ptr+"/max_items", "", "max_items is between 1 and %d", maxItems)
	}
	if n.Result != nil {
		if expr, err := decodeValue(n.Result); err == nil {
			checkExpr(expr, ptr+"/result", condScope{element: true}, g.report)
		}
	}
	g.checkTolerance(n, ptr)
	g.checkConcurrency(n, ptr)
}

func (g *graph) checkTolerance(n *Node, ptr string) {
	switch n.OnError {
	case "", "fail":
		if n.ToleratedFailures != nil {
			g.error("field_not_allowed", ptr+"/tolerated_failures", `"on_error": "collect"`, "without collect the first failed item fails the MAP")
		}
	case "collect":
		if t := n.ToleratedFailures; t != nil && (*t < 0 || *t > maxItems) {
			g.error("limit_invalid", ptr+"/tolerated_failures", "leave it out to tolerate any number", "tolerated_failures is between 0 and %d", maxItems)
		}
	default:
		g.error("on_error_invalid", ptr+"/on_error", "known: fail, collect", "on_error cannot be %q", n.OnError)
	}
}

// checkConcurrency refuses what the limits do not allow, and warns where a body would not run at once what it asks for:
// the document means the same either way, it only takes longer.
func (g *graph) checkConcurrency(n *Node, ptr string) {
	most := g.doc.maxParallel()
	if n.Concurrency < 0 || n.Concurrency > most {
		g.error("limit_invalid", ptr+"/concurrency", `raise "limits": {"max_parallel": …}`, "concurrency is between 1 and limits.max_parallel, which is %d", most)
		return
	}
	if n.Concurrency < 2 || n.Body == nil {
		return
	}
	if why := serial(n.Body, g.lookup); len(why) > 0 {
		if more := len(why) - 3; more > 0 {
			why = append(why[:3], fmt.Sprintf("and %d more nodes", more))
		}
		g.warn("map_serial", ptr+"/concurrency", "leave concurrency out, or keep to calls that only read", "iterations run one at a time, not %d at once: %s", n.Concurrency, strings.Join(why, "; "))
	}
}

// serial says why iterations of a body cannot run at once: calls that write share one sprite, and people are asked one
// question at a time (DESIGN 23).
func serial(b *Body, lookup func(string) (manifests.Skill, bool)) []string {
	var why []string
	for i := range b.Nodes {
		switch n := &b.Nodes[i]; {
		case n.Op == OpHuman:
			why = append(why, n.ID+" asks a person")
		case n.Op == OpMap && n.Body != nil:
			why = append(why, serial(n.Body, lookup)...)
		case n.Op == OpToolCall:
			skill, ok := lookup(n.Tool)
			if !ok {
				continue // reported where it stands
			}
			class, _, _ := effective(skill, n.Args)
			if slices.Contains(classes, n.SideEffect) && stricter(n.SideEffect, class) {
				class = n.SideEffect
			}
			if class != manifests.ClassRead {
				why = append(why, fmt.Sprintf("%s calls %s, which is of class %s", n.ID, n.Tool, class))
			}
		}
	}
	return why
}

func (d *Document) maxParallel() int {
	if l := d.Limits; l != nil && l.MaxParallel > 0 {
		return l.MaxParallel
	}
	return DefaultMaxParallel
}

// varies reports whether a value expression reads what differs from iteration to iteration.
func varies(text json.RawMessage) bool {
	expr, err := decodeValue(text)
	return err != nil || !exprReads(expr, []string{"$vars", "$ctx", "$in", "$trigger", "$err"})
}

// size counts the nodes and edges of a document with those of its bodies.
func (d *Document) size() (nodes, edges int) {
	nodes, edges = len(d.Nodes), len(d.Edges)
	walk(d.Nodes, "", func(n *Node, _ string) {
		if n.Body != nil {
			nodes, edges = nodes+len(n.Body.Nodes), edges+len(n.Body.Edges)
		}
	})
	return nodes, edges
}

// walk visits nodes, and behind each MAP those of its body, with their pointers; ptr is that of what holds them.
func walk(nodes []Node, ptr string, visit func(n *Node, ptr string)) {
	for i := range nodes {
		n, at := &nodes[i], fmt.Sprintf("%s/nodes/%d", ptr, i)
		visit(n, at)
		if n.Body != nil {
			walk(n.Body.Nodes, at+"/body", visit)
		}
	}
}
