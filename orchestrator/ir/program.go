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
// pointers; the program is nil when one of them is an error. A document of another version gets that one finding, since
// nothing else is known of it. judges look at what can be read of the document, and of its subgraphs, and add what they
// find.
func Parse(data []byte, tools func(name string) (manifests.Skill, bool), judges ...Judge) (*Program, []Finding) {
	var r report
	v := &validator{tools: map[string]manifests.Skill{}, judges: judges}
	v.top = v
	doc, ok := parse(data, &r, v, tools)
	if !ok {
		return nil, r.sorted()
	}
	digest, err := digest(data)
	if err != nil && !HasErrors(r.findings) {
		r.error("json_invalid", "", hintText, "write the document in RFC 8785 form: %v", err)
	}
	findings := r.sorted()
	if HasErrors(findings) {
		return nil, findings
	}
	return newProgram(doc, digest, v), findings
}

// Judge looks at one aspect of a document. What could not be read of it is missing there.
type Judge = func(*Document) []Finding

// parse reads and checks one document. top is the validator of the document whose subgraph it is, or one for it alone.
func parse(data []byte, r *report, top *validator, tools toolLookup) (Document, bool) {
	tree := decodeTree(data, r)
	if tree == nil || !execIR.check(tree, r) {
		return Document{}, false
	}
	doc, err := bind(execIR.sound(tree), r)
	if err != nil {
		r.error("json_invalid", "", hintText, "read the document: %v", err)
		return Document{}, false
	}
	misshapen := slices.Clone(r.findings)
	v := top
	if top.doc != nil {
		v = &validator{tools: top.tools, top: top}
	}
	v.report, v.doc, v.lookup, v.places = r, &doc, tools, map[string]string{}
	v.check()
	for _, judge := range top.judges {
		r.findings = append(r.findings, judge(&doc)...)
	}
	r.findings = withoutEchoes(r.findings, misshapen)
	return doc, true
}

func digest(data []byte) (string, error) {
	canonical, err := jcs.Transform(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func newProgram(doc Document, digest string, v *validator) *Program {
	p := &Program{Doc: doc, Digest: digest, Tools: v.tools, nodes: map[string]*Node{}, out: map[string][]Edge{}, wide: map[string]int{}, subs: map[string]Inner{}, homes: map[string]*Document{}}
	for name, sub := range v.subs {
		inner := sub.within(name)
		p.subs[name] = inner
		p.add(inner.Body)
		walk(inner.Nodes, "", func(n *Node, _ string) { p.homes[n.ID] = &sub })
	}
	p.add(&Body{Nodes: p.Doc.Nodes, Edges: p.Doc.Edges})
	return p
}

// add makes the nodes of a graph, and of those inside, known by their ids.
func (p *Program) add(b *Body) {
	p.connect(b.Edges)
	walk(b.Nodes, "", func(n *Node, _ string) {
		p.nodes[n.ID] = n
		for _, inner := range n.inner() {
			p.connect(inner.Edges)
		}
		switch n.Op {
		case OpMap, OpParallel:
			p.wide[n.ID] = p.width(n)
		default:
		}
	})
}

func (p *Program) connect(edges []Edge) {
	for _, i := range edgeOrder(edges) {
		p.out[edges[i].From] = append(p.out[edges[i].From], edges[i])
	}
}

func (p *Program) width(n *Node) int {
	lookup := func(name string) (manifests.Skill, bool) { s, ok := p.Tools[name]; return s, ok }
	sub := func(ref string) []Node { return p.sub(ref).Nodes }
	switch {
	case len(serial(n, lookup, sub)) > 0:
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
		return p.sub(n.Ref)
	}
	if n.Op == OpParallel {
		return n.inner()[i]
	}
	return n.inner()[0]
}

func (p *Program) sub(ref string) Inner {
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
	if n.SideEffect != "" && stricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	return class, slices.Concat(permissions, skill.OptionalPermissions)
}
