// Package compile compiles flow documents to ExecIR: Parse takes a document of any known format (identified by its version
// member) and returns a Flow, an ExecIR program ready to run, or all findings at once. Line composes a workflow graph from
// one line of skills, Build from Go code.
//
// Start with Workflow, the authoring format: a graph of steps that name skills, from which the compiler derives the rest of
// ExecIR. Plan is the format for goals: the types of its steps are rules, in files (Rule). Lowering is deterministic: equal
// documents give equal bytes (RFC 8785) and so equal digests. Findings about the lowered program refer to the source document.
// Everything here is pure: no I/O, no clock, no map order in results.
package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Tools looks up the manifest of a skill by its name.
type Tools = func(name string) (manifests.Skill, bool)

// Flow is a document that can run.
type Flow struct {
	Program *ir.Program
	// ExecIR is the text of the program: in RFC 8785 form if it was lowered, else the input.
	ExecIR json.RawMessage
	// Workflow or Plan is the source document; both are nil if it was ExecIR.
	Workflow *Workflow
	Plan     *Plan

	source  []byte // the document
	origins origins
}

// Parse compiles a workflow graph, a plan or an ExecIR document and runs all static checks. The flow is nil if one of the
// findings is an error. Plans are lowered by the built-in rules.
func Parse(data []byte, tools Tools) (*Flow, []finding.Finding) { return ParseBy(data, tools, nil) }

// ParseBy is like Parse, with rules for lowering steps; nil selects the built-in ones.
func ParseBy(data []byte, tools Tools, rules Rules) (*Flow, []finding.Finding) {
	return ParseWith(data, Sources{Tools: tools, Rules: rules})
}

// Sources are the definitions that documents can use. Rules are the step types of plans and workflow graphs, nil for the
// built-in ones. Templates and Schemas are additional ones by name: they are copied into a document that uses them and does
// not define them, so that the program is self-contained.
type Sources struct {
	Tools              Tools
	Rules              Rules
	Templates, Schemas map[string]json.RawMessage
}

// ParseWith is like Parse, with all kinds of sources.
func ParseWith(data []byte, s Sources) (*Flow, []finding.Finding) {
	flow, findings := parse(data, s)
	if flow != nil {
		flow.source = data
	}
	return flow, finding.SetPlaces(data, finding.NameNodes(data, findings))
}

// Check is like ParseWith, and adds the findings of [Flow.CheckWorldCalls].
func Check(data []byte, s Sources, worldAllowed []string) (*Flow, []finding.Finding) {
	flow, findings := ParseWith(data, s)
	if flow != nil {
		findings = append(findings, flow.CheckWorldCalls(worldAllowed, s.Tools)...)
	}
	return flow, findings
}

// parse is ParseWith without the names of nodes in findings.
func parse(data []byte, s Sources) (*Flow, []finding.Finding) {
	if s.Rules == nil {
		s.Rules = BuiltinRules()
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return parseExecIR(data, s) // which reports the missing version
	}
	_, workflow := members[workflowFormat.Member]
	_, exec := members["execir_version"]
	_, plan := members["planir_version"]
	switch {
	case workflow && exec || workflow && plan || exec && plan:
		return nil, []finding.Finding{errorAt("version_ambiguous", "", "keep the one that the document is", `the document has more than one of "workflow_version", "planir_version" and "execir_version"`)}
	case workflow:
		return parseWorkflow(data, s)
	case exec:
		return parseExecIR(data, s)
	case plan:
		return parsePlan(data, s)
	}
	return nil, []finding.Finding{errorAt("version_missing", "",
		`say which: "workflow_version": "`+Version+`", "planir_version": "`+PlanVersion+`" or "execir_version": "`+ir.Version+`"`,
		`the document says neither "workflow_version" (a workflow graph) nor "planir_version" (a plan) nor "execir_version" (ExecIR)`)}
}

func parseExecIR(data []byte, s Sources) (*Flow, []finding.Finding) {
	data = s.embedInto(data)
	program, findings := check.Parse(data, s.Tools, schemaFaults)
	if program == nil {
		return nil, findings
	}
	return &Flow{Program: program, ExecIR: data}, findings
}

func errorAt(code, pointer, hint, message string) finding.Finding {
	return finding.Finding{Code: code, Severity: finding.SeverityError, Pointer: pointer, Message: message, Hint: hint}
}

// Told returns findings about the program with pointers into the document that it came from.
func (f *Flow) Told(findings []finding.Finding) []finding.Finding {
	return finding.SetPlaces(f.source, finding.NameNodes(f.source, f.origins.mapFindings(findings)))
}

// origins is a source map: it maps pointers into the lowered program to pointers into the source document. A pointer without
// an entry has the origin of its nearest parent with one.
type origins map[string]string

func (o origins) mapFindings(findings []finding.Finding) []finding.Finding {
	if o == nil {
		return findings
	}
	out := make([]finding.Finding, len(findings))
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

// Report is the JSON output of checking a document.
type Report struct {
	// None of the findings is an error.
	OK bool `json:"ok"`
	// All findings, in the order of the document.
	Findings []finding.Finding `json:"findings"`
}

// Refusal returns the text of an error that refuses a flow for its findings: a line for each error, and its hint below where
// there are several. The hint of a single error is returned apart.
func Refusal(findings []finding.Finding) (text, hint string) {
	wrong := slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool { return f.Severity != finding.SeverityError })
	var lines []string
	for _, f := range wrong {
		lines = append(lines, strings.TrimSpace(f.Position()+" "+f.Place())+fmt.Sprintf(" %s: %s", f.Code, f.Message))
		switch {
		case len(wrong) == 1:
			hint = f.Hint
		case f.Hint != "":
			lines = append(lines, "  try: "+f.Hint)
		}
	}
	return strings.Join(lines, "\n  "), hint
}

// RefuseFlow returns an error with a code that names every finding.
func RefuseFlow(code string, exit int, findings []finding.Finding) error {
	text, hint := Refusal(findings)
	p := fault.New(exit, code, "the flow is refused:\n  %s", text).WithHint("%s", hint)
	if details, err := json.Marshal(map[string]any{"findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// Labels returns the labels of the nodes that have one, by their ids.
func (f *Flow) Labels() map[string]string {
	labels := map[string]string{}
	if f.Workflow != nil {
		for _, s := range f.Workflow.Nodes {
			labels[s.ID] = s.Label
		}
	}
	return labels
}

// NewReport reports findings; none is an empty list, not null.
func NewReport(findings []finding.Finding) Report {
	return Report{OK: !finding.HasErrors(findings), Findings: append([]finding.Finding{}, findings...)}
}
