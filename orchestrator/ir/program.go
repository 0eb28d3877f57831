package ir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gowebpki/jcs"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// EdgeOrder returns the positions of edges as they are tried: larger priority first, then array order.
func EdgeOrder(edges []Edge) []int {
	order := make([]int, len(edges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(edges[b].Priority, edges[a].Priority) })
	return order
}

// SerialReasonsOf returns why the bodies of n cannot run concurrently. sub returns the nodes of a subgraph.
func SerialReasonsOf(n *Node, lookup ToolLookup, sub func(ref string) []Node) []string {
	return serialSearch{lookup, sub, map[string]bool{}}.findReasons(n)
}

// serialSearch searches bodies for nodes that cannot run concurrently. It searches each subgraph once: several nodes can refer
// to it, also a node in itself while a document is checked.
type serialSearch struct {
	lookup ToolLookup
	sub    func(ref string) []Node
	serial map[string]bool // of the subgraphs that were searched
}

func (s serialSearch) findReasons(n *Node) []string {
	var why []string
	forks, sprite := n.ForksSprites(), n.Sprite
	visit := func(n *Node, _ string) {
		switch n.Op {
		case OpHuman:
			why = append(why, n.ID+" asks a person")
		case OpSubgraph:
			if _, searched := s.serial[n.Ref]; !searched {
				s.serial[n.Ref] = false
				s.serial[n.Ref] = len(s.findReasons(&Node{Sprite: sprite, Body: &Body{Nodes: s.sub(n.Ref)}})) > 0
			}
			if s.serial[n.Ref] {
				why = append(why, n.ID+" runs a subgraph that writes or asks")
			}
		case OpToolCall:
			skill, ok := s.lookup(n.Tool)
			if !ok {
				return // reported where it stands
			}
			class, _, _ := EffectiveClass(skill, n.Args)
			if slices.Contains(Classes, n.SideEffect) && IsStricter(n.SideEffect, class) {
				class = n.SideEffect
			}
			harmless := manifests.ClassRead
			if forks || n.ForksSprites() {
				harmless = manifests.ClassSprite
			}
			if IsStricter(class, harmless) {
				why = append(why, fmt.Sprintf("%s calls %s, which is of class %s", n.ID, n.Tool, class))
			}
		default:
		}
	}
	for _, b := range n.InnerGraphs() {
		WalkNodes(b.Nodes, "", visit)
	}
	return why
}

// spriteFork is the value of sprite that gives each iteration, or a single call, a fork.
const spriteFork = "fork"

// VariesByItem reports whether a value expression can differ between iterations.
func VariesByItem(text json.RawMessage) bool {
	expression, err := expr.Decode(text)
	return err != nil || !expr.ExprReads(expression, []string{"$vars", "$ctx", "$in", "$trigger", "$err"})
}

func DigestOf(data []byte) (string, error) {
	canonical, err := jcs.Transform(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// NewProgram returns the program of a checked document with the manifests of its tools and its subgraphs.
func NewProgram(doc Document, digest string, tools map[string]manifests.Skill, subs map[string]Document) *Program {
	p := &Program{Doc: doc, Digest: digest, Tools: tools, nodes: map[string]*Node{}, out: map[string][]Edge{}, wide: map[string]int{}, subs: map[string]Inner{}, homes: map[string]*Document{}, marked: map[string]bool{}}
	for name, sub := range subs {
		inner := sub.prefixIDs(name)
		p.subs[name] = inner
		WalkNodes(inner.Nodes, "", func(n *Node, _ string) { p.homes[n.ID] = &sub })
	}
	for _, inner := range p.subs { // now that all are known: their nodes refer to others
		p.addGraph(inner.Body)
	}
	p.addGraph(&Body{Nodes: p.Doc.Nodes, Edges: p.Doc.Edges})
	return p
}

// addGraph makes the nodes of a graph, and of those inside, known by their ids.
func (p *Program) addGraph(b *Body) {
	p.addEdges(b.Edges)
	WalkNodes(b.Nodes, "", func(n *Node, _ string) {
		p.nodes[n.ID] = n
		if n.Restore != "" {
			p.marked[n.Restore] = true
		}
		for _, inner := range n.InnerGraphs() {
			p.addEdges(inner.Edges)
		}
		switch n.Op {
		case OpMap, OpParallel:
			p.wide[n.ID] = p.iterationWidth(n)
		default:
		}
	})
}

func (p *Program) addEdges(edges []Edge) {
	for _, i := range EdgeOrder(edges) {
		p.out[edges[i].From] = append(p.out[edges[i].From], edges[i])
	}
}

func (p *Program) iterationWidth(n *Node) int {
	lookup := func(name string) (manifests.Skill, bool) { s, ok := p.Tools[name]; return s, ok }
	sub := func(ref string) []Node { return p.subgraphOf(ref).Nodes }
	switch {
	case len(SerialReasonsOf(n, lookup, sub)) > 0:
		return 1
	case n.Op == OpParallel && n.Concurrency == 0:
		return min(len(n.Branches), p.MaxParallel())
	}
	return max(1, n.Concurrency)
}

// Width is how many iterations of the MAP, or branches of the PARALLEL, n run at once: its concurrency, or 1 where they
// write or ask people.
func (p *Program) Width(n *Node) int { return max(1, p.wide[n.ID]) }

// Inner is the graph that iteration i of n runs: for a PARALLEL its branch i, for others always the same.
func (p *Program) Inner(n *Node, i int) Inner {
	if n.Op == OpSubgraph {
		return p.subgraphOf(n.Ref)
	}
	if n.Op == OpParallel {
		return n.InnerGraphs()[i]
	}
	return n.InnerGraphs()[0]
}

func (p *Program) subgraphOf(ref string) Inner {
	name, _, _ := SplitSubgraphRef(ref)
	return p.subs[name]
}

// CallsSkills reports whether a run of the program needs a sprite.
func (p *Program) CallsSkills() bool { return len(p.Tools) > 0 }

// MaxParallel is how many calls may be under way at once.
func (p *Program) MaxParallel() int { return p.Doc.MaxParallel() }

// WithoutEchoes drops findings about members that were misshapen and are therefore seen as missing.
func WithoutEchoes(findings, misshapen []finding.Finding) []finding.Finding {
	bad := map[string]bool{}
	for _, f := range misshapen {
		if f.Code != "field_unknown" && f.Code != "key_duplicate" {
			bad[f.Pointer] = true
		}
	}
	n := 0
	return slices.DeleteFunc(findings, func(f finding.Finding) bool {
		n++
		if n <= len(misshapen) {
			return false
		}
		for p := f.Pointer; ; p = p[:strings.LastIndex(p, "/")] {
			if bad[p] {
				return true
			}
			if p == "" {
				return false
			}
		}
	})
}

var ExecIR = Format{Name: "ExecIR", Member: "execir_version", Version: Version}

var digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

var versionPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(0|[1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})$`) })

// Class returns the class of a call of node n with these evaluated args, variants applied, and the permissions that it
// may be handed, optional ones included. The
// node's side_effect counts when it is stricter than the manifest. An unknown tool is of class world.
func (p *Program) Class(n *Node, args json.RawMessage) (manifests.Class, []string) {
	skill, ok := p.Tools[n.Tool]
	if !ok {
		return manifests.ClassWorld, nil
	}
	var input map[string]json.RawMessage
	if err := json.Unmarshal(args, &input); err != nil {
		input = nil
	}
	class, permissions := skill.Effective(input)
	if n.SideEffect != "" && IsStricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	return class, slices.Concat(permissions, skill.OptionalPermissions)
}

// ToolLookup finds the manifest of a skill.
type ToolLookup = func(name string) (manifests.Skill, bool)
