// Package check validates ExecIR documents: [Parse] decodes a document strictly, runs all static checks, and returns a
// program or all findings at once. validate.go has the document, its graphs and nodes; llm.go, flowops.go, map.go and calls.go
// the members of op families; dataflow.go, types.go and shape.go what references can read. Everything here is pure. The
// package never runs a node.
package check

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Parse decodes a document strictly (at most MaxDocumentBytes; duplicate and unknown keys refused, except meta and x-…)
// and validates it against the manifests of its tools. All findings are returned at once, in the order of their
// pointers; the program is nil if one of them is an error. A document of an unsupported version gets that one finding.
// judges examine the document and its subgraphs and add their findings.
func Parse(data []byte, tools func(name string) (manifests.Skill, bool), judges ...Judge) (*ir.Program, []finding.Finding) {
	var r finding.Report
	v := &validator{tools: map[string]manifests.Skill{}, judges: judges}
	v.top = v
	doc, ok := parseDocument(data, &r, v, tools)
	if !ok {
		return nil, finding.NameNodes(data, r.SortedFindings())
	}
	digest, err := ir.DigestOf(data)
	if err != nil && !finding.HasErrors(r.Findings) {
		r.AddError("json_invalid", "", ir.HintText, "write the document in RFC 8785 form: %v", err)
	}
	findings := finding.NameNodes(data, r.SortedFindings())
	if finding.HasErrors(findings) {
		return nil, findings
	}
	return ir.NewProgram(doc, digest, v.tools, v.subs), findings
}

// Judge checks one aspect of a document. Members that could not be decoded have zero values.
type Judge = func(*ir.Document) []finding.Finding

// parseDocument decodes and checks one document. For a subgraph, top is the validator of the enclosing document, else a
// new one.
func parseDocument(data []byte, r *finding.Report, top *validator, tools ir.ToolLookup) (ir.Document, bool) {
	tree := ir.DecodeTree(data, r)
	if tree == nil || !ir.ExecIR.CheckVersion(tree, r) {
		return ir.Document{}, false
	}
	doc, err := ir.BindDocument(ir.ExecIR.WithValidVersion(tree), r)
	if err != nil {
		r.AddError("json_invalid", "", ir.HintText, "read the document: %v", err)
		return ir.Document{}, false
	}
	misshapen := slices.Clone(r.Findings)
	v := top
	if top.doc != nil {
		v = &validator{tools: top.tools, top: top}
	}
	v.Report, v.doc, v.lookup, v.places = r, &doc, tools, map[string]string{}
	v.checkDocument()
	for _, judge := range top.judges {
		r.Findings = append(r.Findings, judge(&doc)...)
	}
	r.Findings = ir.WithoutEchoes(r.Findings, misshapen)
	return doc, true
}
