package compile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// CheckInput validates the input of a run against the flow's input_schema. It returns all errors, each with its place in
// the input. A flow without one takes any.
func (f *Flow) CheckInput(input map[string]any) ([]finding.Finding, error) {
	schema := f.Program.InputSchema()
	if schema == nil {
		return nil, nil
	}
	problems, err := ladder.Fit(schema, input)
	if err != nil {
		return nil, err
	}
	findings := unknownInputs(schema, input)
	named := len(findings) > 0
	for _, p := range problems {
		if named && p.Path == "" && strings.Contains(p.Message, "additional properties") {
			continue
		}
		findings = append(findings, errorAt("input_invalid", p.Path, hintFor(p), strings.TrimSpace(p.Message)))
	}
	return findings, nil
}

// unknownInputs names each input that a closed schema does not have, with the nearest that it has.
func unknownInputs(schema json.RawMessage, input map[string]any) (findings []finding.Finding) {
	var closed struct {
		Properties map[string]json.RawMessage `json:"properties"`
		More       *bool                      `json:"additionalProperties"`
	}
	if json.Unmarshal(schema, &closed) != nil || closed.More == nil || *closed.More {
		return nil
	}
	known := slices.Sorted(maps.Keys(closed.Properties))
	for _, name := range slices.Sorted(maps.Keys(input)) {
		if _, ok := closed.Properties[name]; ok {
			continue
		}
		hint := "the flow takes " + strings.Join(known, ", ")
		least := 2 + len(name)/4
		for _, other := range known {
			if d := manifests.Distance(name, other); d < least {
				hint, least = "did you mean "+other+"?", d
			}
		}
		findings = append(findings, errorAt("input_invalid", "", hint, "there is no input "+name))
	}
	return findings
}

// hintFor returns a hint for an error whose message is not sufficient.
func hintFor(p ladder.Problem) string {
	if p.Code == "type" {
		return "use --input name:=JSON for values other than text"
	}
	return ""
}
