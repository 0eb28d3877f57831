package ir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gowebpki/jcs"

	"github.com/spritekit/lattice/manifests"
)

// Parse decodes a document strictly (at most MaxDocumentBytes; duplicate and unknown keys refused, except meta and x-…)
// and validates it against the manifests of its tools. All findings are returned at once, in the order of their
// pointers; the program is nil if one of them is an error. A document of an unsupported version gets that one finding.
// judges examine the document and its subgraphs and add their findings.
func Parse(data []byte, tools func(name string) (manifests.Skill, bool), judges ...Judge) (*Program, []Finding) {
	var r report
	v := &validator{tools: map[string]manifests.Skill{}, judges: judges}
	v.top = v
	doc, ok := parseDocument(data, &r, v, tools)
	if !ok {
		return nil, NameNodes(data, r.sortedFindings())
	}
	digest, err := digestOf(data)
	if err != nil && !HasErrors(r.findings) {
		r.addError("json_invalid", "", hintText, "write the document in RFC 8785 form: %v", err)
	}
	findings := NameNodes(data, r.sortedFindings())
	if HasErrors(findings) {
		return nil, findings
	}
	return newProgram(doc, digest, v.tools, v.subs), findings
}

// Judge checks one aspect of a document. Members that could not be decoded have zero values.
type Judge = func(*Document) []Finding

// parseDocument decodes and checks one document. For a subgraph, top is the validator of the enclosing document, else a
// new one.
func parseDocument(data []byte, r *report, top *validator, tools toolLookup) (Document, bool) {
	tree := decodeTree(data, r)
	if tree == nil || !execIR.checkVersion(tree, r) {
		return Document{}, false
	}
	doc, err := bindDocument(execIR.withValidVersion(tree), r)
	if err != nil {
		r.addError("json_invalid", "", hintText, "read the document: %v", err)
		return Document{}, false
	}
	misshapen := slices.Clone(r.findings)
	v := top
	if top.doc != nil {
		v = &validator{tools: top.tools, top: top}
	}
	v.report, v.doc, v.lookup, v.places = r, &doc, tools, map[string]string{}
	v.checkDocument()
	for _, judge := range top.judges {
		r.findings = append(r.findings, judge(&doc)...)
	}
	r.findings = withoutEchoes(r.findings, misshapen)
	return doc, true
}

func digestOf(data []byte) (string, error) {
	canonical, err := jcs.Transform(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// newProgram returns the program of a checked document with the manifests of its tools and its subgraphs.
func newProgram(doc Document, digest string, tools map[string]manifests.Skill, subs map[string]Document) *Program {
	p := &Program{Doc: doc, Digest: digest, Tools: tools, nodes: map[string]*Node{}, out: map[string][]Edge{}, wide: map[string]int{}, subs: map[string]Inner{}, homes: map[string]*Document{}}
	for name, sub := range subs {
		inner := sub.prefixIDs(name)
		p.subs[name] = inner
		p.addGraph(inner.Body)
		walkNodes(inner.Nodes, "", func(n *Node, _ string) { p.homes[n.ID] = &sub })
	}
	p.addGraph(&Body{Nodes: p.Doc.Nodes, Edges: p.Doc.Edges})
	return p
}

// addGraph makes the nodes of a graph, and of those inside, known by their ids.
func (p *Program) addGraph(b *Body) {
	p.addEdges(b.Edges)
	walkNodes(b.Nodes, "", func(n *Node, _ string) {
		p.nodes[n.ID] = n
		for _, inner := range n.innerGraphs() {
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
	for _, i := range edgeOrder(edges) {
		p.out[edges[i].From] = append(p.out[edges[i].From], edges[i])
	}
}

func (p *Program) iterationWidth(n *Node) int {
	lookup := func(name string) (manifests.Skill, bool) { s, ok := p.Tools[name]; return s, ok }
	sub := func(ref string) []Node { return p.subgraphOf(ref).Nodes }
	switch {
	case len(serialReasonsOf(n, lookup, sub)) > 0:
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
		return n.innerGraphs()[i]
	}
	return n.innerGraphs()[0]
}

func (p *Program) subgraphOf(ref string) Inner {
	name, _, _ := splitRef(ref)
	return p.subs[name]
}

// CallsSkills reports whether a run of the program needs a sprite.
func (p *Program) CallsSkills() bool { return len(p.Tools) > 0 }

// MaxParallel is how many calls may be under way at once.
func (p *Program) MaxParallel() int { return p.Doc.maxParallel() }

// withoutEchoes drops findings about members that were misshapen and are therefore seen as missing.
func withoutEchoes(findings, misshapen []Finding) []Finding {
	bad := map[string]bool{}
	for _, f := range misshapen {
		if f.Code != "field_unknown" && f.Code != "key_duplicate" {
			bad[f.Pointer] = true
		}
	}
	n := 0
	return slices.DeleteFunc(findings, func(f Finding) bool {
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

var execIR = Format{Name: "ExecIR", Member: "execir_version", Version: Version}

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
	if n.SideEffect != "" && isStricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	return class, slices.Concat(permissions, skill.OptionalPermissions)
}
