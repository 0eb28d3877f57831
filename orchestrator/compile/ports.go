package compile

import (
	"encoding/json"
	"strconv"
	"strings"
)

// checkPorts checks that inputs which are outputs of other steps are of a type that fits.
func (l *lowering) checkPorts() {
	types := l.outputTypes()
	for i := range l.workflow.Nodes {
		s := &l.workflow.Nodes[i]
		skill, ok := l.tools(s.Skill())
		var in map[string]json.RawMessage
		if !ok || json.Unmarshal(s.In, &in) != nil {
			continue
		}
		for _, f := range skill.Inputs {
			var ref string
			if json.Unmarshal(in[f.Name], &ref) != nil {
				continue
			}
			if from, known := types[ref]; known && !isAssignable(from, f.Type) {
				hint := ""
				if f.Type == "string" {
					hint = `{"json":"` + ref + `"} makes text of it`
				}
				l.addError("port_type", "/nodes/"+strconv.Itoa(i)+"/in/"+escapePointer(f.Name), hint, "%s takes %s as %s; %s is %s", skill.Name, f.Name, f.Type, ref, from)
			}
		}
	}
}

// outputTypes gives the types of references to outputs, as far as the steps that write them agree.
func (l *lowering) outputTypes() map[string]string {
	types := map[string]string{}
	set := func(ref, t string) {
		if former, ok := types[ref]; ok && former != t {
			t = "" // any
		}
		types[ref] = t
	}
	for i := range l.workflow.Nodes {
		s := &l.workflow.Nodes[i]
		targets := s.Outputs
		if targets == nil {
			targets = map[string]string{"result": "$vars" + refSegment(s.ID)}
		}
		skill, _ := l.tools(s.Skill())
		for port, to := range targets {
			for _, f := range skill.Outputs {
				switch port {
				case "result":
					set(to+"."+f.Name, f.Type)
				case f.Name:
					set(to, f.Type)
				}
			}
		}
	}
	return types
}

// isAssignable reports whether a value of type from may be given where type to is wanted. "" is any type, and "array" an array
// of anything.
func isAssignable(from, to string) bool {
	if from == to || from == "" || to == "" || from == "integer" && to == "number" {
		return true
	}
	a, isArray := strings.CutPrefix(from, "array")
	b, wantsArray := strings.CutPrefix(to, "array")
	if !isArray || !wantsArray {
		return false
	}
	return a == "" || b == "" || isAssignable(a[1:len(a)-1], b[1:len(b)-1])
}
