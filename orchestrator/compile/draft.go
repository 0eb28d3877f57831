package compile

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// A model drafts a plan in a form that every vendor's strict mode accepts: lists instead of objects with free members. The
// draft is compiled with ParseBy like any other plan, and the findings are sent back to the model.

// Draft is a plan as a model writes it.
type Draft struct {
	Constraints []DraftValue `json:"constraints"`
	Steps       []DraftStep  `json:"steps"`
}

// DraftStep is one step of a Draft.
type DraftStep struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Inputs  []DraftValue `json:"inputs"`
	Outputs []DraftValue `json:"outputs"`
}

// DraftValue is a named value: a reference, a text, or JSON of another type.
type DraftValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const draftSchema = `{"type":"object","additionalProperties":false,"required":["constraints","steps"],"properties":{
"constraints":{"type":"array","items":{"$ref":"#/$defs/value"}},
"steps":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","type","inputs","outputs"],"properties":{
"id":{"type":"string"},"type":{"type":"string"},"inputs":{"type":"array","items":{"$ref":"#/$defs/value"}},"outputs":{"type":"array","items":{"$ref":"#/$defs/value"}}}}}},
"$defs":{"value":{"type":"object","additionalProperties":false,"required":["name","value"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}}}`

// Planner is a flow that asks a model of this class for the plan to a goal. Its input is {"request": …}, see Request; its
// output a Draft.
func Planner(class string, rules Rules) (json.RawMessage, error) {
	var types []string
	for _, name := range rules.Types() {
		rule := rules[name]
		types = append(types, rule.Describe())
		for _, c := range rule.Constraints {
			types = append(types, fmt.Sprintf("  constraint %s: %s", c.Name, c.Description))
		}
	}
	instructions := `Write a plan that reaches the goal, as steps that are done one behind the other. Use only the step types below, as few as do. ` +
		`An id is S1, S2 and so on. The value of an input is a text, a number, true or false, or a reference: $in.NAME is an input of the run, ` +
		`$vars.NAME is what an output of an earlier step was written to, $vars.NAME.MEMBER a member of it. The value of an output is the place that it is written to, $vars.NAME. ` +
		`Inputs in [brackets] may be left out. Constraints hold for all steps that know of them.` + "\n\nStep types:\n" + strings.Join(types, "\n")
	doc := map[string]any{
		"execir_version": ir.Version, "id": "planner", "description": "Asks a model for a plan.", "entry_node": "draft", "edges": []any{},
		"schemas": map[string]json.RawMessage{"PlanDraft": json.RawMessage(draftSchema)}, "model_classes": []string{class},
		"nodes": []any{map[string]any{
			"id": "draft", "op": ir.OpLLMExtract, "model_class": class, "prompt_template": "extract_v1", "output_schema": "PlanDraft",
			"inputs":     map[string]any{"text": "$in.request", "instructions": map[string]any{"lit": instructions}},
			"validators": []any{map[string]any{"type": "no_extra_text"}}, "outputs": map[string]string{"result": "$vars.draft"},
			"retry_policy": map[string]any{"strategy": "PATCH_JSON_FROM_ERROR", "max_attempts": 3}, "max_output_tokens": 4096,
		}},
		"output": "$vars.draft",
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write the planner's flow: %w", err)
	}
	return canonicalJSON(text)
}

// Request is the input of a Planner: the goal, and the previous plan with its findings, if there was one.
func Request(goal string, before json.RawMessage, findings []finding.Finding) string {
	if before == nil {
		return goal
	}
	var wrong []string
	for _, f := range findings {
		if f.Severity == finding.SeverityError {
			wrong = append(wrong, strings.TrimSpace(fmt.Sprintf("- %s: %s. %s", f.Pointer, f.Message, f.Hint)))
		}
	}
	return fmt.Sprintf("%s\n\nThe plan before was:\n%s\n\nFix only what is wrong with it:\n%s", goal, before, strings.Join(wrong, "\n"))
}

// Plan converts a draft to indented PlanIR.
func (d Draft) Plan(goal string) (json.RawMessage, error) {
	p := Plan{Version: PlanVersion, Goal: goal, Constraints: decodeValues(d.Constraints), Steps: []PlanStep{}}
	for _, s := range d.Steps {
		step := PlanStep{ID: s.ID, Type: s.Type, Inputs: decodeValues(s.Inputs)}
		for _, out := range s.Outputs {
			if step.Outputs == nil {
				step.Outputs = map[string]string{}
			}
			step.Outputs[out.Name] = out.Value
		}
		p.Steps = append(p.Steps, step)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return append(text, '\n'), nil
}

// decodeValues reads texts as JSON where they are numbers, truth values, arrays or objects, and else as texts.
func decodeValues(list []DraftValue) map[string]json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(list))
	for _, v := range list {
		if decoded, err := expr.Decode([]byte(v.Value)); err == nil {
			if _, text := decoded.(string); !text {
				out[v.Name] = json.RawMessage(v.Value)
				continue
			}
		}
		if text, err := expr.Marshal(v.Value); err == nil {
			out[v.Name] = text
		}
	}
	return out
}
