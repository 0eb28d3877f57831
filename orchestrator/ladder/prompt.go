package ladder

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Prompt expands a template. The inputs must be those of its ports and satisfy their schemas. With a packet, the repair text
// follows the user text, and asks for the whole corrected object.
func Prompt(t templates.Template, schema json.RawMessage, inputs map[string]any, packet *Packet) (system, user string, f *expr.Failure) {
	blocks := map[string]string{}
	for _, port := range slices.Sorted(maps.Keys(t.InputPorts)) {
		v, ok := inputs[port]
		if !ok {
			return "", "", &expr.Failure{Kind: expr.FailRef, Message: fmt.Sprintf("template %s needs an input %q", t.ID, port)}
		}
		if problems, err := validateValue(t.InputPorts[port], v); err != nil || len(problems) > 0 {
			return "", "", &expr.Failure{Kind: expr.FailStateType, Message: fmt.Sprintf("input %s does not fit template %s: %s", port, t.ID, firstProblem(problems, err))}
		}
		if blocks[port], f = inputBlock(port, v); f != nil {
			return "", "", f
		}
	}
	described, err := expr.Decode(schema)
	if err != nil {
		return "", "", &expr.Failure{Kind: expr.FailSchema, Message: fmt.Sprintf("read the output schema: %v", err)}
	}
	if blocks[templates.MarkSchema], f = inputBlock(templates.MarkSchema, described); f != nil {
		return "", "", f
	}
	if packet != nil {
		if blocks[templates.MarkPacket], f = inputBlock(templates.MarkPacket, packet); f != nil {
			return "", "", f
		}
	}
	fill := func(text templates.Lines) string { return text.Fill(func(name string) string { return blocks[name] }) }
	system, user = fill(t.System), fill(t.User)
	if packet != nil {
		user += "\n" + fill(t.Repair)
	}
	if size := len(system) + len(user); size > t.MaxPromptBytes {
		return "", "", &expr.Failure{Kind: expr.FailLimit, Message: fmt.Sprintf("the prompt of %s would have %d bytes; it may have %d: pick fewer members of its inputs, or truncate them", t.ID, size, t.MaxPromptBytes)}
	}
	return system, user, nil
}

// inputBlock returns a value between marks that it cannot contain, because JSON is written on one line. Keys are sorted;
// numbers keep their form, because a different form of an id would be a different id.
func inputBlock(name string, v any) (string, *expr.Failure) {
	text, err := expr.Marshal(v)
	if err != nil {
		return "", &expr.Failure{Kind: expr.FailStateType, Message: fmt.Sprintf("write %s as JSON: %v", name, err)}
	}
	return "BEGIN " + name + "\n" + string(text) + "\nEND " + name, nil
}

func firstProblem(problems []Problem, err error) string {
	if err != nil {
		return err.Error()
	}
	if problems[0].Path == "" {
		return problems[0].Message
	}
	return problems[0].Path + ": " + problems[0].Message
}
