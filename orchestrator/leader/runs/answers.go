package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxAnswer bounds the inputs of one answer, encoded.
const maxAnswer = 256 << 10

// makeAnswer checks a person's decision against the inputs that the wait expects, and makes a fact of it.
func makeAnswer(w lattice.Wait, d api.DecideRequest) (lattice.Answered, error) {
	out := lattice.Answered{WaitID: w.ID, Decision: d.Decision, Comments: d.Comments, By: d.By}
	switch d.Decision {
	case lattice.Approve, lattice.Reject:
		if len(d.Inputs) > 0 || len(d.Typed) > 0 {
			return out, fault.BadInput("bad_answer", "approve and reject take no inputs").WithHint("lattice answer RUN k=v…")
		}
		if !w.YesOrNo() && !(d.Decision == lattice.Reject && w.CanReject()) {
			return out, fault.BadInput("answer_needed", "%s cannot simply be approved or rejected; it expects %s", w.Node, describeExpected(w)).WithHint("lattice answer RUN k=v…")
		}
		return out, nil
	case lattice.Answer:
		if w.Kind == lattice.WaitAction && !w.ByHand() {
			return out, fault.BadInput("bad_answer", "an action is approved or rejected, not answered").WithHint("lattice approve RUN")
		}
		inputs, err := convertInputs(w, d)
		out.Inputs = inputs
		return out, err
	}
	return out, fault.BadInput("bad_answer", "%q is not a decision", d.Decision).WithHint("approve, reject or answer")
}

func describeExpected(w lattice.Wait) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.Expected)) {
		parts = append(parts, name+" ("+w.Expected[name]+")")
	}
	return strings.Join(parts, ", ")
}

// convertInputs converts the inputs of a decision to the types that the wait expects. Its error names every problem.
func convertInputs(w lattice.Wait, d api.DecideRequest) (json.RawMessage, error) {
	typed := map[string]any{}
	if len(d.Typed) > 0 {
		if err := json.Unmarshal(d.Typed, &typed); err != nil {
			return nil, fault.BadInput("bad_answer", "typed inputs are not a JSON object: %v", err)
		}
	}
	out, problems := map[string]any{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		kind, known := w.Expected[name]
		switch {
		case !known:
			problems = append(problems, name+" is not expected")
		case !fitsType(typed[name], kind):
			problems = append(problems, fmt.Sprintf("%s must be %s", name, kind))
		default:
			out[name] = typed[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Inputs)) {
		kind, known := w.Expected[name]
		if !known {
			problems = append(problems, name+" is not expected")
			continue
		}
		v, ok := parseText(d.Inputs[name], kind)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s must be %s, not %q", name, kind, d.Inputs[name]))
			continue
		}
		out[name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(w.Expected)) {
		_, given := out[name]
		_, wrong := d.Inputs[name]
		_, wrongTyped := typed[name]
		if !given && !wrong && !wrongTyped && !slices.Contains(w.Optional, name) {
			problems = append(problems, fmt.Sprintf("%s (%s) is missing", name, w.Expected[name]))
		}
	}
	if w.Kind == lattice.WaitUnknown || len(w.Choices) > 0 {
		problems = append(problems, checkChoice(w, out)...)
	}
	if len(problems) > 0 {
		return nil, fault.BadInput("bad_answer", "the answer does not fit: %s", strings.Join(problems, "; ")).WithHint("it expects %s", describeExpected(w))
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if len(data) > maxAnswer {
		return nil, fault.BadInput("answer_too_large", "the answer has %d bytes; at most %d are taken", len(data), maxAnswer)
	}
	return data, nil
}

// checkChoice checks the answer to a question that names its choices.
func checkChoice(w lattice.Wait, out map[string]any) []string {
	for name, v := range out {
		if s, ok := v.(string); ok && name != "comments" && w.Expected[name] == "string" && !slices.Contains(w.Choices, s) && (s != "" || w.Default == "") {
			return []string{fmt.Sprintf("%s must be one of %s", name, strings.Join(w.Choices, ", "))}
		}
	}
	return nil
}

// parseText reads text as a value of a type of the seed's vocabulary.
func parseText(text, kind string) (any, bool) {
	switch kind {
	case "string", "":
		return text, true
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "yes", "y":
			return true, true
		case "false", "no", "n":
			return false, true
		}
		return nil, false
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	var v any
	if json.Unmarshal([]byte(text), &v) == nil && fitsType(v, kind) {
		return v, true
	}
	if kind == "array<string>" && !strings.HasPrefix(text, "[") {
		return strings.Split(text, ","), true
	}
	return nil, false
}

// fitsType reports whether v, decoded JSON, is of a type of the seed's vocabulary.
func fitsType(v any, kind string) bool {
	switch kind {
	case "":
		return true
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		n, ok := v.(float64)
		return ok && n == float64(int64(n))
	case "number":
		_, ok := v.(float64)
		return ok
	case "map":
		_, ok := v.(map[string]any)
		return ok
	}
	list, ok := v.([]any)
	if !ok {
		return false
	}
	element, ok := strings.CutPrefix(kind, "array<")
	if !ok {
		return kind == "array"
	}
	for _, item := range list {
		if !fitsType(item, strings.TrimSuffix(element, ">")) {
			return false
		}
	}
	return true
}
