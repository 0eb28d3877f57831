package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// expandStep adds the nodes of one step. It returns the ids of the entry node and of those that lead to the next step.
func (l *planning) expandStep(s *PlanStep, rule Rule, at string) (entry string, exits []string) {
	l.checkStep(s, rule, at)
	e := expansion{planning: l, step: s, rule: &rule, at: at}
	for _, c := range rule.Constraints {
		l.consumed[c.Name] = true
	}
	base := len(l.nodes)
	left := map[string]bool{}
	for _, edge := range rule.edges {
		if object, ok := edge.(map[string]any); ok {
			from, _ := object["from"].(string)
			left[from] = true
		}
	}
	for i, n := range rule.nodes {
		ptr := "/nodes/" + strconv.Itoa(base+i)
		l.origins[ptr] = at
		node, _ := e.fillMarks(n, ptr)
		object, _ := node.(map[string]any)
		id, ok := object["id"].(string)
		if !ok { // it has a mark instead of an id, or a ref
			l.addError("rule_node", at, "write a rule whose nodes have ids without marks, and no ref", "node %d of the rule for %s is not an object with an id", i, s.Type)
			l.broken = true
			continue
		}
		e.prefixIDs(object)
		l.nodes = append(l.nodes, object)
		if op := object["op"]; !left[id] && op != string(ir.OpFail) && op != string(ir.OpEnd) {
			exits = append(exits, e.prefixedID(id))
		}
	}
	for _, edge := range rule.edges {
		ptr := "/edges/" + strconv.Itoa(len(l.edges))
		l.origins[ptr] = at
		filled, _ := e.fillMarks(edge, ptr)
		if object, ok := filled.(map[string]any); ok {
			for _, end := range []string{"from", "to"} {
				if id, ok := object[end].(string); ok {
					object[end] = e.prefixedID(id)
				}
			}
		}
		l.edges = append(l.edges, filled)
	}
	return e.prefixedID(rule.EntryNode), exits
}

// checkStep checks a step's inputs and outputs by name.
func (l *planning) checkStep(s *PlanStep, rule Rule, at string) {
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		if _, ok := rule.findInput(name); !ok {
			l.addError("input_unknown", at+l.in+"/"+finding.EscapePointer(name), finding.Near(name, rule.inputNames()), "%s has no input %q", s.Type, name)
		}
	}
	for _, in := range rule.Inputs {
		if _, ok := s.Inputs[in.Name]; in.Required && !ok {
			l.addError("input_missing", at+l.in+"/"+finding.EscapePointer(in.Name), in.Description, "%s needs the input %q", s.Type, in.Name)
			l.broken = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		if !slices.Contains(rule.outputNames(), name) {
			l.addError("port_unknown", at+"/outputs/"+finding.EscapePointer(name), finding.Near(name, rule.outputNames()), "%s has no output %q", s.Type, name)
		}
	}
}

// expansion is the expansion of a rule for one step.
type expansion struct {
	*planning
	step *PlanStep
	rule *Rule
	at   string
}

func (e *expansion) prefixedID(id string) string { return e.step.ID + "." + id }

// prefixIDs prefixes the ids of a node, and of the nodes inside it, with the id of the step.
func (e *expansion) prefixIDs(node map[string]any) {
	name := func(o map[string]any, member string) {
		if id, ok := o[member].(string); ok {
			o[member] = e.prefixedID(id)
		}
	}
	name(node, "id")
	if list, ok := node["catch"].([]any); ok {
		for _, c := range list {
			if object, ok := c.(map[string]any); ok {
				name(object, "to")
			}
		}
	}
	inside := func(v any) {
		body, ok := v.(map[string]any)
		if !ok {
			return
		}
		name(body, "entry_node")
		for _, n := range asList(body["nodes"]) {
			if object, ok := n.(map[string]any); ok {
				e.prefixIDs(object)
			}
		}
		for _, edge := range asList(body["edges"]) {
			if object, ok := edge.(map[string]any); ok {
				name(object, "from")
				name(object, "to")
			}
		}
	}
	inside(node["body"])
	for _, b := range asList(node["branches"]) {
		if object, ok := b.(map[string]any); ok {
			inside(object["body"])
		}
	}
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

// fillMarks returns v with every mark replaced. there is false if v is the mark of an input that was not given. ptr is the
// pointer of v in the lowered document, for origins.
func (e *expansion) fillMarks(v any, ptr string) (filled any, there bool) {
	switch v := v.(type) {
	case string:
		return e.fillMark(v, ptr)
	case []any:
		out := []any{}
		for _, element := range v {
			if f, ok := e.fillMarks(element, ptr+"/"+strconv.Itoa(len(out))); ok {
				out = append(out, f)
			}
		}
		return out, true
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			key := k
			if text, ok := e.fillMark(k, ""); ok {
				key, _ = text.(string)
			}
			if f, ok := e.fillMarks(v[k], ptr+"/"+finding.EscapePointer(key)); ok {
				out[key] = f
			}
		}
		return e.dropDangling(v, out)
	}
	return v, true
}

// dropDangling removes parts of an expanded node that depend on an omitted input: its projection, or the options of a
// reference to it.
func (e *expansion) dropDangling(before, out map[string]any) (any, bool) {
	if _, had := before["ref"]; had && out["ref"] == nil {
		return nil, false
	}
	if text, isText := out["ref"].(string); out["ref"] != nil && (!isText || expr.RefAt(text) == "") { // a value, not a place
		return out["ref"], true
	}
	inputs, hasInputs := out["inputs"].(map[string]any)
	projection, projects := out["projection"].(map[string]any)
	if hasInputs && projects {
		maps.DeleteFunc(projection, func(name string, _ any) bool { return inputs[name] == nil })
	}
	return out, true
}

// fillMark replaces a string that is a mark.
func (e *expansion) fillMark(text, ptr string) (any, bool) {
	m := ruleRef().FindStringSubmatch(text)
	if m == nil {
		return text, true
	}
	name, rest := m[2], m[3]
	switch m[1] {
	case "local":
		return "$tmp" + refSegment(e.step.ID) + "." + name + rest, true
	case "port":
		e.recordOrigin(ptr, e.at+"/outputs/"+finding.EscapePointer(name))
		target, ok := e.step.Outputs[name]
		if !ok {
			target = "$vars" + refSegment(e.step.ID) + "." + name
		}
		return target + rest, true
	case "constraint":
		e.recordOrigin(ptr, "/constraints/"+finding.EscapePointer(name))
		if given, ok := e.plan.Constraints[name]; ok {
			return literalOf(given), true
		}
		c, _ := e.rule.findConstraint(name)
		return e.planValue(c.Default, rest)
	}
	e.recordOrigin(ptr, e.at+e.in+"/"+finding.EscapePointer(name))
	given, ok := e.step.Inputs[name]
	if !ok {
		in, _ := e.rule.findInput(name)
		given = in.Default
	}
	return e.planValue(given, rest)
}

func (e *expansion) recordOrigin(ptr, to string) {
	if ptr != "" {
		e.origins[ptr] = to
	}
}

// planValue returns an expression of the plan, or a default, followed by the rest of a reference.
func (e *expansion) planValue(text json.RawMessage, rest string) (any, bool) {
	if text == nil {
		return nil, false
	}
	v, err := expr.Decode(text)
	if err != nil || v == nil {
		return nil, false
	}
	if rest == "" {
		return v, true
	}
	switch v := v.(type) {
	case string:
		if ref := expr.RefAt(v); ref != "" && ref == v {
			return v + rest, true
		}
	case map[string]any:
		if ref, ok := v["ref"].(string); ok && len(v) == 1 {
			return ref + rest, true
		}
		if name, ok := strings.CutPrefix(rest, "."); ok {
			member, there := v[name]
			return member, there
		}
	}
	e.addError("input_shape", e.at+e.in, `a reference such as "$vars.contact"`, "%s reads %s of an input, which is neither a reference nor an object", e.step.Type, rest)
	return nil, false
}

// literalOf returns the value of a constraint as a literal expression.
func literalOf(text json.RawMessage) any {
	v, err := expr.Decode(text)
	if err != nil {
		return nil
	}
	switch v.(type) {
	case bool, json.Number:
		return v
	}
	if s, ok := v.(string); ok && !strings.HasPrefix(s, "$") {
		return s
	}
	return map[string]any{"lit": v}
}

// Describe returns a one-line description of a step type and its inputs.
func (r *Rule) Describe() string {
	var in []string
	for _, i := range r.Inputs {
		name := i.Name
		if !i.Required {
			name = "[" + name + "]"
		}
		in = append(in, name)
	}
	return fmt.Sprintf("%s(%s) → %s: %s", r.Type, strings.Join(in, ", "), strings.Join(r.outputNames(), ", "), r.Description)
}
