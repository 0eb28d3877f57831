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
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/ladder"
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

// CheckWorldCalls warns of each skill of class world for whose calls a run waits for approval, and of names in allowed, the
// setting world.allow, that no skill in tools has and that look like the name of another.
func (f *Flow) CheckWorldCalls(allowed []string, tools Tools) (found []finding.Finding) {
	calls := f.Program.WorldCalls(nil)
	for _, name := range allowed {
		hint := finding.Near(name, slices.Concat(calls, skillNames()))
		if _, known := tools(name); !known && !slices.Contains(calls, name) && strings.HasPrefix(hint, "did you mean") {
			found = append(found, finding.Finding{
				Code: "world_allow_unknown", Severity: finding.SeverityWarning,
				Message: fmt.Sprintf("there is no skill %q, which the setting world.allow names", name), Hint: hint,
			})
		}
	}
	for _, skill := range f.Program.UnplannedWorldCalls(nil) {
		if slices.Contains(allowed, skill) {
			continue
		}
		asks := finding.Finding{
			Code: "world_call_asks", Severity: finding.SeverityWarning,
			Message: fmt.Sprintf("%s acts outside of the sprite: the run waits for approval before each call", skill),
			Hint:    fmt.Sprintf("allow it for one run with lattice run --approve-world %s, or for all runs with the setting world.allow; or name the node in the approves of a HUMAN node before it", skill),
		}
		f.Program.Walk(func(n *ir.Node, _ int) {
			if asks.Node == "" && (n.Tool == skill || n.Compensate != nil && n.Compensate.Tool == skill) {
				asks.Node = n.ID
			}
		})
		found = append(found, asks)
	}
	return found
}

// parseLowered returns the flow of a document that was lowered to ExecIR, in canonical form. told maps its findings to the
// source document.
func (s Sources) parseLowered(doc map[string]any, told func([]finding.Finding) []finding.Finding) (*Flow, []finding.Finding) {
	s.embedUses(doc)
	text, err := json.Marshal(doc)
	if err == nil {
		text, err = canonicalJSON(text)
	}
	if err != nil {
		return nil, []finding.Finding{encodingError(err)}
	}
	program, findings := check.Parse(text, s.Tools, schemaFaults)
	if program == nil {
		return nil, told(findings)
	}
	return &Flow{Program: program, ExecIR: text}, told(findings)
}

// schemaFaults finds schemas of a document against which nothing could be held, and default answers that do not fit theirs.
func schemaFaults(doc *ir.Document) (findings []finding.Finding) {
	checked := func(schema json.RawMessage, at string) {
		var name string
		if schema == nil || json.Unmarshal(schema, &name) == nil {
			return // a name: the schema is checked where it stands
		}
		if err := ladder.CheckSchema(schema); err != nil {
			findings = append(findings, errorAt("schema_invalid", at, "use JSON Schema 2020-12 without references to other documents", err.Error()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Schemas)) {
		checked(doc.Schemas[name], "/schemas/"+finding.EscapePointer(name))
	}
	checked(doc.InputSchema, "/input_schema")
	doc.Places(func(n *ir.Node, at string) {
		checked(n.AnswerSchema, at+"/answer_schema")
		if n.Answer == nil || n.AnswerSchema == nil {
			return
		}
		answer, failed := expr.Eval(n.Answer, expr.Scope{})
		problems, err := ladder.Fit(doc.AnswerSchema(n), answer)
		if failed != nil || err != nil { // known only at run time, or told above
			return
		}
		for _, problem := range problems {
			findings = append(findings, errorAt("answer_invalid", at+"/default_answer"+problem.Path, "change default_answer or answer_schema", "the default answer does not fit answer_schema: "+problem.Message))
		}
	})
	return findings
}
