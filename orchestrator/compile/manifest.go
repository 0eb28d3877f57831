package compile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Manifest checks a skill.json for its author, more strictly than readers do: unknown members and invalid schemas are
// errors, a missing description or class is a warning, and the examples must fit the
// inputs. A permission that this version does not know is a warning, as it may be one of a version to come. The code of
// a broken member is its name with _invalid.
func Manifest(data []byte) (manifests.Skill, []finding.Finding) {
	tree, findings := ir.ReadTree(data)
	if tree == nil {
		return manifests.Skill{}, findings
	}
	c := manifestCheck{findings: findings}
	skill, err := manifests.ParseSkill(data)
	if invalid, ok := errors.AsType[*manifests.InvalidError](err); ok {
		for _, p := range invalid.Problems {
			twice := func(f finding.Finding) bool { return f.Code == "key_duplicate" && f.Pointer == p.Pointer }
			if !slices.ContainsFunc(findings, twice) {
				c.addProblem(p)
			}
		}
	}
	c.checkUnknown(tree, "", reflect.TypeFor[manifests.Skill](), "$schema")
	for _, part := range []string{"inputs", "outputs"} {
		list, _ := tree[part].([]any)
		for i, v := range list {
			c.checkUnknown(v, "/"+part+"/"+strconv.Itoa(i), reflect.TypeFor[manifests.Field]())
		}
	}
	if variants, ok := tree["variants"].(map[string]any); ok {
		c.checkUnknown(variants, "/variants", reflect.TypeFor[manifests.Variants]())
		cases, _ := variants["cases"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			at := "/variants/cases/" + finding.EscapePointer(name)
			c.checkUnknown(cases[name], at, reflect.TypeFor[manifests.Variant]())
			one, _ := cases[name].(map[string]any)
			c.checkPermissions(one["permissions"], at+"/permissions")
		}
	}
	c.checkPermissions(tree["permissions"], "/permissions")
	c.checkPermissions(tree["optional_permissions"], "/optional_permissions")
	for _, name := range []string{"input_schema", "output_schema"} {
		if schema, ok := tree[name].(map[string]any); ok { // other types have been reported
			schemaCheck{&c, name + "_invalid"}.checkSchema(schema, "/"+name)
		}
	}
	if err == nil {
		c.checkAdvice(skill, tree)
		c.checkExamples(skill)
	}
	return skill, ir.Merge(nil, c.findings)
}

type manifestCheck struct{ findings []finding.Finding }

func (c *manifestCheck) addFinding(severity, code, pointer, hint, format string, args ...any) {
	c.findings = append(c.findings, finding.Finding{Code: code, Severity: severity, Pointer: pointer, Message: fmt.Sprintf(format, args...), Hint: hint})
}

var manifestHints = map[string]string{
	"name":          `such as "contacts.search"`,
	"input_schema":  `such as {"type":"object"}`,
	"output_schema": `such as {"type":"object"}`,
	"inputs":        `["path"] or [{"name":"path","type":"string","required":true,"description":"…"}]`,
	"outputs":       `["path"] or [{"name":"path","type":"string","required":true,"description":"…"}]`,
	"permissions":   `such as ["fs:read"]; [] when it needs none; * is for those who grant`,
	"side_effect":   `"read", "idempotent", "sprite" or "world"`,
	"timeout_s":     "seconds, more than 0 and no more than a year",
	"variants":      `{"input":"mode","default":"request","cases":{"request":{"permissions":[],"side_effect":"sprite"}}}`,
}

func (c *manifestCheck) addProblem(p manifests.Problem) {
	member, _, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
	code := member + "_invalid"
	if member == "" {
		code = "manifest_invalid"
	}
	subject := cmp.Or(member, "the manifest")
	c.addFinding(finding.SeverityError, code, p.Pointer, manifestHints[member], "%s: %s", subject, p.Message)
}

// checkUnknown reports members that t has no field for.
func (c *manifestCheck) checkUnknown(v any, at string, t reflect.Type, more ...string) {
	object, _ := v.(map[string]any)
	known := more
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, name)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, name) {
			c.addFinding(finding.SeverityError, "field_unknown", at+"/"+finding.EscapePointer(name), finding.Near(name, known), "unknown member %q", name)
		}
	}
}

// checkAdvice warns of missing members that are optional but useful.
func (c *manifestCheck) checkAdvice(s manifests.Skill, tree map[string]any) {
	if s.Description == "" {
		c.addFinding(finding.SeverityWarning, "description_missing", "/description", "one sentence", "the skill has no description")
	}
	if tree["permissions"] == nil {
		c.addFinding(finding.SeverityWarning, "permissions_missing", "/permissions", `such as ["fs:read"]; [] when it needs none`, "it counts as needing none")
	}
	if tree["side_effect"] == nil {
		c.addFinding(finding.SeverityWarning, "side_effect_missing", "/side_effect", manifestHints["side_effect"], "it counts as world: runs ask before each call, and one that was cut off is never made again without a person")
	}
}

// checkPermissions warns of permissions that only "*" grants. Malformed ones have been reported.
func (c *manifestCheck) checkPermissions(v any, at string) {
	list, _ := v.([]any)
	for i, e := range list {
		if p, ok := e.(string); ok && manifests.ValidPermission(p) && !slices.Contains(manifests.Permissions(), p) {
			c.addFinding(finding.SeverityWarning, "permission_unknown", at+"/"+strconv.Itoa(i), finding.OneOf(p, manifests.Permissions()), "this lattice knows no permission %q, so that only * grants it", p)
		}
	}
}

func (c *manifestCheck) checkExamples(s manifests.Skill) {
	for i, e := range s.Examples {
		var input map[string]json.RawMessage
		if json.Unmarshal(e, &input) != nil {
			continue // reported
		}
		for _, p := range s.CheckInput(input) {
			c.addFinding(finding.SeverityError, "example_invalid", fmt.Sprintf("/examples/%d%s", i, p.Pointer), "", "the example does not fit the inputs: it %s", p.Message)
		}
	}
}
