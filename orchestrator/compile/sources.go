package compile

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/manifests/schemas"
	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Templates and schemas that a document uses but does not define are copied into it from the sources.

// embedUses copies the templates and schemas that doc, decoded ExecIR, uses into it. It reports whether it changed doc.
func (s Sources) embedUses(doc map[string]any) bool {
	u := usesOf(asList(doc["nodes"]))
	if name, ok := doc["input_schema"].(string); ok {
		u.schemas = append(u.schemas, name)
	}
	more := s.putNamed(doc, "prompt_templates", s.Templates, u.prompts, func(id string) bool { _, ok := templates.Builtin(id); return ok })
	return s.putNamed(doc, "schemas", s.Schemas, u.schemas, func(name string) bool { _, ok := schemas.Builtin(name); return ok }) || more
}

func (s Sources) putNamed(doc map[string]any, member string, known map[string]json.RawMessage, names []string, builtin func(string) bool) bool {
	own, isObject := doc[member].(map[string]any)
	if doc[member] != nil && !isObject {
		return false // a finding
	}
	all := map[string]any{}
	maps.Copy(all, own)
	before := len(all)
	for _, name := range names {
		_, there := all[name]
		text, ok := known[name]
		if there || !ok || builtin(name) {
			continue
		}
		if v, err := expr.Decode(text); err == nil {
			all[name] = v
		}
	}
	if len(all) == before {
		return false
	}
	doc[member] = all
	return true
}

// Lower returns a document as self-contained ExecIR. If there are errors other than unknown skills, it returns nil and all
// findings. Unknown skills are not errors here, because the caller may not have them installed. ExecIR that needs no
// templates or schemas from s is returned unchanged.
func Lower(data []byte, s Sources) (json.RawMessage, []finding.Finding) {
	if builtin := s.Rules.isBuiltin(); builtin && len(s.Templates)+len(s.Schemas) == 0 {
		return data, nil
	} else if plain, _ := Parse(data, s.Tools); builtin && plain != nil {
		return data, nil
	}
	flow, findings := ParseWith(data, s)
	if flow != nil {
		return flow.ExecIR, nil
	}
	for _, f := range findings {
		if f.Severity == finding.SeverityError && f.Code != "tool_unknown" {
			return nil, findings
		}
	}
	anything := s
	anything.Tools = func(name string) (manifests.Skill, bool) {
		if skill, ok := s.Tools(name); ok {
			return skill, true
		}
		return manifests.Skill{Name: name}, true
	}
	if flow, findings = ParseWith(data, anything); flow == nil {
		return nil, findings
	}
	return flow.ExecIR, nil
}

// isBuiltin reports whether r consists of the built-in rules.
func (r Rules) isBuiltin() bool {
	own := builtinRules()
	return len(r) == len(own) && maps.EqualFunc(r, own, func(a, b Rule) bool { return reflect.DeepEqual(a, b) })
}

// embedInto returns an ExecIR document with the templates and schemas that it uses; one that needs none is unchanged.
func (s Sources) embedInto(data []byte) []byte {
	if len(s.Templates)+len(s.Schemas) == 0 {
		return data
	}
	tree, findings := ir.ReadTree(data)
	if tree == nil || finding.HasErrors(findings) || !s.embedUses(tree) {
		return data
	}
	text, err := expr.Marshal(tree)
	if err == nil {
		text, err = canonicalJSON(text)
	}
	if err != nil {
		return data // the parser reports why
	}
	return text
}

// uses collects the names of tools, model classes, templates and schemas in the nodes of a document.
type uses struct {
	tools, classes   []string
	prompts, schemas []string
	templates        map[string]string
}

func usesOf(nodes []any) uses {
	u := uses{tools: []string{}, templates: map[string]string{}}
	u.visitValue(nodes)
	slices.Sort(u.tools)
	return u
}

func addName(list *[]string, v any) {
	if name, ok := v.(string); ok && name != "" && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

func (u *uses) visitValue(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			u.visitValue(e)
		}
	case map[string]any:
		u.visitNode(v)
		for _, name := range []string{"body", "branches", "nodes"} {
			u.visitValue(v[name])
		}
	}
}

func (u *uses) visitNode(n map[string]any) {
	if n["op"] == string(ir.OpToolCall) {
		addName(&u.tools, n["tool"])
		if c, ok := n["compensate"].(map[string]any); ok {
			addName(&u.tools, c["tool"])
		}
	}
	addName(&u.classes, n["model_class"])
	addName(&u.prompts, n["prompt_template"])
	addName(&u.schemas, n["output_schema"])
	addName(&u.schemas, n["answer_schema"])
	for _, checked := range asList(n["validators"]) {
		if object, ok := checked.(map[string]any); ok {
			addName(&u.schemas, object["schema"])
		}
	}
	if id, ok := n["prompt_template"].(string); ok {
		if t, known := templates.Builtin(id); known {
			u.templates[id] = t.SHA256
		}
	}
	steps := asList(n["escalation"])
	if step, ok := n["escalation"].(map[string]any); ok {
		steps = []any{step}
	}
	for _, step := range steps {
		if object, ok := step.(map[string]any); ok {
			addName(&u.classes, object["to_model_class"])
		}
	}
}
