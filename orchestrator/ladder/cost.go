package ladder

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema of a few lines can take years: if each of n schemas refers twice to the next one, the last one is checked 2^n times, and a
// schema that refers twice to itself doubles the work at each level of a value. Therefore the steps are counted before the check.
// Counting is fast, because the steps of a schema and a value are counted once.

// A value may take baseSteps, and stepsPerPart for each of its parts. A step checks one value against one schema.
const (
	baseSteps    = 1 << 20
	stepsPerPart = 64
)

// isCostly reports whether it takes too many steps to check v against a schema.
func isCostly(schema *jsonschema.Schema, v any) bool {
	c := stepCounter{root: schema, limit: baseSteps + stepsPerPart*countParts(v), known: map[checked]int{}}
	return c.countSteps(schema, v) > c.limit
}

func countParts(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += countParts(item)
		}
	case map[string]any:
		for _, member := range v {
			n += countParts(member)
		}
	}
	return n
}

// checked is a value that is checked against a schema. All texts take the same steps, and so do all numbers.
type checked struct {
	schema *jsonschema.Schema
	kind   string
	at     uintptr
	size   int
}

type stepCounter struct {
	root  *jsonschema.Schema
	limit int
	known map[checked]int
}

// countSteps returns the number of steps to check v against s if all alternatives are tried. Above the limit it is a lower bound.
func (c *stepCounter) countSteps(s *jsonschema.Schema, v any) int {
	if s == nil || s.Bool != nil {
		return 1
	}
	key := checked{schema: s, kind: kindOf(v)}
	switch v := v.(type) {
	case []any, map[string]any:
		at := reflect.ValueOf(v)
		key.at, key.size = at.Pointer(), at.Len()
	}
	if n, ok := c.known[key]; ok {
		return n
	}
	c.known[key] = 1 // of a schema that refers to itself for the same value, which is an error
	steps := 1
	if fitsKind(s, key.kind) {
		c.visitChecks(s, v, func(s *jsonschema.Schema, v any) {
			if steps <= c.limit {
				steps += c.countSteps(s, v)
			}
		})
	}
	c.known[key] = steps
	return steps
}

// kindOf names the type of a value as schemas do; a whole number is a number, too.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// fitsKind reports whether a schema checks values of this type.
func fitsKind(s *jsonschema.Schema, kind string) bool {
	if s.Types == nil || s.Types.IsEmpty() {
		return true
	}
	names := s.Types.ToStrings()
	return slices.Contains(names, kind) || kind == "number" && slices.Contains(names, "integer")
}

// visitChecks calls visit for each check of a part of v when v is checked against s.
func (c *stepCounter) visitChecks(s *jsonschema.Schema, v any, visit func(s *jsonschema.Schema, v any)) {
	if s.Ref != nil {
		visit(s.Ref, v)
	}
	if s.RecursiveRef != nil {
		visit(s.RecursiveRef, v)
	}
	if d := s.DynamicRef; d != nil {
		visit(d.Ref, v)
		if d.Anchor != "" && d.Anchor == c.root.DynamicAnchor {
			visit(c.root, v)
		}
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, inner := range alternatives {
			visit(inner, v)
		}
	}
	for _, inner := range []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else} {
		if inner != nil {
			visit(inner, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		visitMembers(s, v, visit)
	case []any:
		visitItems(s, v, visit)
	}
}

func visitMembers(s *jsonschema.Schema, object map[string]any, visit func(s *jsonschema.Schema, v any)) {
	for _, name := range sortedKeys(object) { // in one order, so that the steps are the same each time
		if inner, ok := s.DependentSchemas[name]; ok {
			visit(inner, object)
		}
		if inner, ok := s.Dependencies[name].(*jsonschema.Schema); ok { // of older drafts
			visit(inner, object)
		}
		member, known := object[name], false
		if inner, ok := s.Properties[name]; ok {
			known = true
			visit(inner, member)
		}
		for pattern, inner := range s.PatternProperties {
			if pattern.MatchString(name) {
				known = true
				visit(inner, member)
			}
		}
		if inner, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
			visit(inner, member)
		}
		if s.UnevaluatedProperties != nil && !known {
			visit(s.UnevaluatedProperties, member)
		}
		if s.PropertyNames != nil {
			visit(s.PropertyNames, name)
		}
	}
}

func visitItems(s *jsonschema.Schema, list []any, visit func(s *jsonschema.Schema, v any)) {
	first := s.PrefixItems
	rest := s.Items2020
	switch items := s.Items.(type) { // of older drafts
	case []*jsonschema.Schema:
		first = items
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
	case *jsonschema.Schema:
		rest = items
	}
	for i, item := range list {
		switch {
		case i < len(first):
			visit(first[i], item)
		case rest != nil:
			visit(rest, item)
		}
		if s.Contains != nil {
			visit(s.Contains, item)
		}
		if s.UnevaluatedItems != nil {
			visit(s.UnevaluatedItems, item)
		}
	}
}
