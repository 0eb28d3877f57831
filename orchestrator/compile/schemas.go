package compile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// schemaFaults finds schemas of a document against which nothing could be held, and default answers that do not fit theirs.
func schemaFaults(doc *ir.Document) (findings []ir.Finding) {
	check := func(schema json.RawMessage, at string) {
		var name string
		if schema == nil || json.Unmarshal(schema, &name) == nil {
			return // a name: the schema is checked where it stands
		}
		if err := ladder.CheckSchema(schema); err != nil {
			findings = append(findings, fault("schema_invalid", at, "JSON Schema 2020-12, which refers to nothing outside itself", err.Error()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Schemas)) {
		check(doc.Schemas[name], "/schemas/"+escapePointer(name))
	}
	check(doc.InputSchema, "/input_schema")
	doc.Places(func(n *ir.Node, at string) {
		check(n.AnswerSchema, at+"/answer_schema")
		if n.Answer == nil || n.AnswerSchema == nil {
			return
		}
		answer, failed := ir.Eval(n.Answer, ir.Scope{})
		problems, err := ladder.Fit(doc.AnswerSchema(n), answer)
		if failed != nil || err != nil { // known only at run time, or told above
			return
		}
		for _, problem := range problems {
			findings = append(findings, fault("answer_invalid", at+"/default_answer"+problem.Path, "", "the default answer does not fit answer_schema: "+problem.Message))
		}
	})
	return findings
}

// CheckInput holds the input of a run against the flow's input_schema: everything that does not fit, each with its place in
// the input. A flow without one takes any.
func (f *Flow) CheckInput(input map[string]any) ([]ir.Finding, error) {
	schema := f.Program.InputSchema()
	if schema == nil {
		return nil, nil
	}
	problems, err := ladder.Fit(schema, input)
	if err != nil {
		return nil, err
	}
	findings := make([]ir.Finding, len(problems))
	for i, p := range problems {
		findings[i] = fault("input_invalid", p.Path, hintFor(p), strings.TrimSpace(p.Message))
	}
	return findings, nil
}

// hintFor says what helps where the fault's own words do not.
func hintFor(p ladder.Problem) string {
	if p.Code == "type" {
		return "--input name:=json gives a value that is no text"
	}
	return ""
}
