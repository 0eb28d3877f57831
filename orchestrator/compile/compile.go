// Package compile makes what people and tools write into what runs: Parse takes a document of any kind that is known
// here (told by its version member) and gives a Flow, an ExecIR program ready to run, or every finding at once. Line
// composes a workflow graph from one line of skills.
//
// The first type to look at is Workflow, the authoring form: a graph of steps, where a step names a skill and the
// compiler fills in what ExecIR wants said. Plan is the form for goals: steps whose types are rules, in files (Rule). Lowering is deterministic: equal documents give equal bytes (RFC 8785) and
// so equal digests. Findings about the lowered program are told in terms of the document that its author sees.
// Everything here is pure: no I/O, no clock, no map order in results.
package compile

import (
	"encoding/json"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
)

// Tools looks up the manifest of a skill by its name.
type Tools = func(name string) (manifests.Skill, bool)

// Flow is a document that can run.
type Flow struct {
	Program *ir.Program
	// ExecIR is the program's text: in RFC 8785 form when it was lowered, as it was given otherwise.
	ExecIR json.RawMessage
	// Workflow or Plan is the document that was lowered; both are nil when that was ExecIR already.
	Workflow *Workflow
	Plan     *Plan

	origins origins
}

// Parse reads a workflow graph, a plan or an ExecIR document and checks all that can be known before a run. The flow is
// nil when one of the findings is an error. Plans are lowered by the rules that come with lattice.
func Parse(data []byte, tools Tools) (*Flow, []ir.Finding) { return ParseBy(data, tools, nil) }

// ParseBy is Parse with the rules by which steps are lowered; nil are those that come with lattice.
func ParseBy(data []byte, tools Tools, rules Rules) (*Flow, []ir.Finding) {
	return ParseWith(data, Sources{Tools: tools, Rules: rules})
}

// Sources are what documents are compiled with. Rules are the step types of plans and workflow graphs, nil for those that
// come with lattice. Templates and Schemas are further ones by their names: a document that names one, and has none of that
// name itself, gets its text, so that what runs is whole and stays as it was.
type Sources struct {
	Tools              Tools
	Rules              Rules
	Templates, Schemas map[string]json.RawMessage
}

// ParseWith is Parse with everything that may be brought along.
func ParseWith(data []byte, s Sources) (*Flow, []ir.Finding) {
	if s.Rules == nil {
		s.Rules = BuiltinRules()
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return parseExecIR(data, s) // which says what is wrong with it
	}
	_, workflow := members[workflowFormat.Member]
	_, exec := members["execir_version"]
	_, plan := members["planir_version"]
	switch {
	case workflow && exec || workflow && plan || exec && plan:
		return nil, []ir.Finding{errorAt("version_ambiguous", "", "keep the one that the document is", `the document has more than one of "workflow_version", "planir_version" and "execir_version"`)}
	case workflow:
		return parseWorkflow(data, s)
	case exec:
		return parseExecIR(data, s)
	case plan:
		return parsePlan(data, s)
	}
	return nil, []ir.Finding{errorAt("version_missing", "",
		`say which: "workflow_version": "`+Version+`", "planir_version": "`+PlanVersion+`" or "execir_version": "`+ir.Version+`"`,
		`the document says neither "workflow_version" (a workflow graph) nor "planir_version" (a plan) nor "execir_version" (ExecIR)`)}
}

func parseExecIR(data []byte, s Sources) (*Flow, []ir.Finding) {
	data = s.embedInto(data)
	program, findings := ir.Parse(data, s.Tools, schemaFaults)
	if program == nil {
		return nil, findings
	}
	return &Flow{Program: program, ExecIR: data}, findings
}

func errorAt(code, pointer, hint, message string) ir.Finding {
	return ir.Finding{Code: code, Severity: ir.SeverityError, Pointer: pointer, Message: message, Hint: hint}
}

// Told returns findings about the program with pointers into the document that it came from.
func (f *Flow) Told(findings []ir.Finding) []ir.Finding { return f.origins.mapFindings(findings) }

// origins maps places of the lowered program, as pointers, to the places of the document that they came from. What has
// no line of its own stands where its nearest parent with one stands.
type origins map[string]string

func (o origins) mapFindings(findings []ir.Finding) []ir.Finding {
	if o == nil {
		return findings
	}
	out := make([]ir.Finding, len(findings))
	for i, f := range findings {
		f.Pointer = o.sourceOf(f.Pointer)
		out[i] = f
	}
	return out
}

func (o origins) sourceOf(pointer string) string {
	for at := pointer; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
		if to, ok := o[at]; ok {
			return to + pointer[len(at):]
		}
	}
	return pointer
}

// Report is what checking a document prints for a machine.
type Report struct {
	// None of the findings is an error.
	OK bool `json:"ok"`
	// All findings, in the order of the document.
	Findings []ir.Finding `json:"findings"`
}

// NewReport reports findings; none is an empty list, not null.
func NewReport(findings []ir.Finding) Report {
	return Report{OK: !ir.HasErrors(findings), Findings: append([]ir.Finding{}, findings...)}
}
