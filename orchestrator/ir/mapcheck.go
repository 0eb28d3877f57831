package ir

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// mapCheck checks the members of MAP nodes, and how nodes run others at once.
type mapCheck struct{ *graph }

func (g mapCheck) checkMap(n *Node, ptr string) {
	if n.Items == nil {
		g.addError("field_missing", ptr+"/items", `"items": "$vars.files"`, "MAP needs items")
	}
	g.checkExprText(n.Items, ptr+"/items")
	if n.As != "" && n.As != "$item" {
		g.addError("as_invalid", ptr+"/as", `leave "as" out`, "the item is always called $item")
	}
	if n.Body == nil {
		g.addError("field_missing", ptr+"/body", `"body": {"entry_node": …, "nodes": […], "edges": […]}`, "MAP has a body")
	}
	switch {
	case n.MaxItems == 0:
		g.addError("field_missing", ptr+"/max_items", `"max_items": 100`, "MAP needs a maximum number of items")
	case n.MaxItems < 0 || n.MaxItems > maxItems:
		g.addError("limit_invalid", ptr+"/max_items", "leave it out for the default", "max_items is between 1 and %d", maxItems)
	}
	g.checkResult(n.Result, ptr+"/result", true)
	g.checkTolerance(n, ptr)
	g.checkConcurrency(n, ptr)
	g.checkFork(n, ptr)
}

func (g mapCheck) checkTolerance(n *Node, ptr string) {
	switch n.OnError {
	case "", "fail":
		if n.ToleratedFailures != nil {
			g.addError("field_not_allowed", ptr+"/tolerated_failures", `"on_error": "collect"`, "without collect the first failed item fails the MAP")
		}
	case "collect":
		if t := n.ToleratedFailures; t != nil && (*t < 0 || *t > maxItems) {
			g.addError("limit_invalid", ptr+"/tolerated_failures", "leave it out to tolerate any number", "tolerated_failures is between 0 and %d", maxItems)
		}
	default:
		g.addError("on_error_invalid", ptr+"/on_error", "known: fail, collect", "on_error cannot be %q", n.OnError)
	}
}

// checkConcurrency refuses a concurrency above the limits and warns if a body has to run its iterations one at a time:
// the result is the same, it only takes longer.
func (g *graph) checkConcurrency(n *Node, ptr string) {
	most := g.doc.maxParallel()
	if n.Concurrency < 0 || n.Concurrency > most {
		g.addError("limit_invalid", ptr+"/concurrency", `raise "limits": {"max_parallel": …}`, "concurrency is between 1 and limits.max_parallel, which is %d", most)
		return
	}
	wide := n.Concurrency > 1 || n.Op == OpParallel && n.Concurrency == 0 && len(n.Branches) > 1
	if !wide {
		return
	}
	if why := g.top.serialReasons(n); len(why) > 0 {
		if more := len(why) - 3; more > 0 {
			why = append(why[:3], fmt.Sprintf("and %d more nodes", more))
		}
		if n.Op == OpParallel {
			g.addWarning("branches_serial", ptr+"/branches", `say so by "concurrency": 1, or keep to calls that only read`, "branches run one at a time: %s", strings.Join(why, "; "))
			return
		}
		g.addWarning("map_serial", ptr+"/concurrency", "leave concurrency out, or keep to calls that only read", "iterations run one at a time, not %d at once: %s", n.Concurrency, strings.Join(why, "; "))
	}
}

// serialReasons lists the reasons why the bodies of n cannot run concurrently: calls that write share one sprite, and
// people are asked one question at a time (DESIGN 23).
func (v *validator) serialReasons(n *Node) []string {
	return serialReasonsOf(n, v.lookup, func(ref string) []Node {
		name, _, _ := strings.Cut(ref, "@")
		return v.subs[name].Nodes
	})
}

func serialReasonsOf(n *Node, lookup toolLookup, sub func(ref string) []Node) []string {
	var why []string
	forks, sprite := n.ForksSprites(), n.Sprite
	visit := func(n *Node, _ string) {
		switch n.Op {
		case OpHuman:
			why = append(why, n.ID+" asks a person")
		case OpSubgraph:
			inside := &Node{Sprite: sprite, Body: &Body{Nodes: sub(n.Ref)}}
			if len(serialReasonsOf(inside, lookup, sub)) > 0 {
				why = append(why, n.ID+" runs a subgraph that writes or asks")
			}
		case OpToolCall:
			skill, ok := lookup(n.Tool)
			if !ok {
				return // reported where it stands
			}
			class, _, _ := effectiveClass(skill, n.Args)
			if slices.Contains(classes, n.SideEffect) && isStricter(n.SideEffect, class) {
				class = n.SideEffect
			}
			harmless := manifests.ClassRead
			if forks || n.ForksSprites() {
				harmless = manifests.ClassSprite
			}
			if isStricter(class, harmless) {
				why = append(why, fmt.Sprintf("%s calls %s, which is of class %s", n.ID, n.Tool, class))
			}
		default:
		}
	}
	for _, b := range n.innerGraphs() {
		walkNodes(b.Nodes, "", visit)
	}
	return why
}

// spriteFork is the value of sprite that gives each iteration, or a single call, a fork.
const spriteFork = "fork"

// ForksSprites reports whether each iteration of the MAP, each branch of the PARALLEL, or each attempt of the TOOL_CALL n
// runs in its own fork of the sprite, taken when n starts. Writes in a fork are not visible to other forks or after n, so
// forks may write concurrently. They are removed when the run has ended, unless n has keep_sprite.
func (n *Node) ForksSprites() bool { return n.Sprite == spriteFork }

// checkFork checks sprite and keep_sprite.
func (g *graph) checkFork(n *Node, ptr string) {
	if n.Sprite != "" && n.Sprite != "main" && !n.ForksSprites() {
		g.addError("sprite_invalid", ptr+"/sprite", `known: main, fork`, "sprite cannot be %q", n.Sprite)
	}
	if n.KeepSprite && !n.ForksSprites() {
		g.addError("field_not_allowed", ptr+"/keep_sprite", `"sprite": "fork"`, "keep_sprite keeps forks of a sprite, and %s makes none", n.ID)
	}
	if !n.ForksSprites() {
		return
	}
	for _, b := range n.innerGraphs() {
		walkNodes(b.Nodes, "", func(inner *Node, _ string) {
			if inner.ForksSprites() && inner.Op != OpToolCall {
				g.addError("fork_nested", ptr+"/sprite", "remove one of the two", "%s forks sprites inside %s, which forks them too", inner.ID, n.ID)
			}
		})
	}
}

// CopiesInside reports whether a call inside n runs in its own fork of the sprite.
func (p *Program) CopiesInside(n *Node) bool {
	found := false
	visit := func(n *Node, _ string) {
		found = found || n.Op == OpToolCall && n.ForksSprites() || n.Op == OpSubgraph && p.CopiesInside(n)
	}
	for _, b := range n.innerGraphs() {
		walkNodes(b.Nodes, "", visit)
	}
	if n.Op == OpSubgraph && p.subgraphOf(n.Ref).Body != nil {
		walkNodes(p.subgraphOf(n.Ref).Nodes, "", visit)
	}
	return found
}

// CopiesSprites lists the nodes that need a host which can fork sprites, in the order of the document.
func (p *Program) CopiesSprites() []*Node {
	var all []*Node
	p.Walk(func(n *Node, _ int) {
		if n.ForksSprites() {
			all = append(all, n)
		}
	})
	return all
}

func (d *Document) maxParallel() int {
	if l := d.Limits; l != nil && l.MaxParallel > 0 {
		return l.MaxParallel
	}
	return DefaultMaxParallel
}

// variesByItem reports whether a value expression can differ between iterations.
func variesByItem(text json.RawMessage) bool {
	expr, err := Decode(text)
	return err != nil || !exprReads(expr, []string{"$vars", "$ctx", "$in", "$trigger", "$err"})
}
