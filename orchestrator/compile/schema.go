package compile

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Types of the values of JSON Schema keywords, as findings name them.
const (
	aString       = "a string"
	aBoolean      = "a boolean"
	aNumber       = "a number"
	aStep         = "a number above 0"
	aCount        = "a whole number, 0 or more"
	aList         = "an array"
	someNames     = "an array of distinct strings"
	namesByName   = "an object of arrays of distinct strings"
	aSchema       = "a schema: an object, true or false"
	someSchemas   = "an array of schemas, at least one"
	schemaOrSome  = "a schema or an array of schemas"
	schemasByName = "an object of schemas"
	needsByName   = "an object of schemas or arrays of distinct strings"
	aType         = "the name of a type, or an array of distinct ones"
)

// schemaKeywords are those of drafts 6 to 2020-12 whose value cannot be just anything.
var schemaKeywords = map[string]string{
	"$id": aString, "$schema": aString, "$ref": aString, "$anchor": aString, "$dynamicRef": aString, "$dynamicAnchor": aString,
	"$comment": aString, "title": aString, "description": aString, "pattern": aString, "format": aString,
	"contentEncoding": aString, "contentMediaType": aString,
	"deprecated": aBoolean, "readOnly": aBoolean, "writeOnly": aBoolean, "uniqueItems": aBoolean,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber, "multipleOf": aStep,
	"minLength": aCount, "maxLength": aCount, "minItems": aCount, "maxItems": aCount, "minProperties": aCount,
	"maxProperties": aCount, "minContains": aCount, "maxContains": aCount,
	"enum": aList, "examples": aList, "required": someNames, "dependentRequired": namesByName, "type": aType,
	"not": aSchema, "if": aSchema, "then": aSchema, "else": aSchema, "contains": aSchema, "propertyNames": aSchema,
	"additionalProperties": aSchema, "additionalItems": aSchema, "unevaluatedProperties": aSchema, "unevaluatedItems": aSchema,
	"contentSchema": aSchema, "items": schemaOrSome, "allOf": someSchemas, "anyOf": someSchemas, "oneOf": someSchemas,
	"prefixItems": someSchemas, "properties": schemasByName, "patternProperties": schemasByName, "$defs": schemasByName,
	"definitions": schemasByName, "dependentSchemas": schemasByName, "dependencies": needsByName,
}

var schemaTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// schemaCheck reports keywords of a schema whose values have a wrong type. It follows
// no references, compiles no patterns, and takes unknown keywords for annotations, as JSON Schema does.
type schemaCheck struct {
	*manifestCheck
	code string // of the findings
}

func (s schemaCheck) checkSchema(v any, at string) {
	switch v := v.(type) {
	case bool:
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.checkKeyword(name, v[name], at+"/"+finding.EscapePointer(name))
		}
	default:
		s.addFinding(finding.SeverityError, s.code, at, `such as {"type":"object"}`, "this is not %s", aSchema)
	}
}

func (s schemaCheck) checkKeyword(name string, v any, at string) {
	want, hint, ok := schemaKeywords[name], "", true
	switch want {
	case aSchema:
		s.checkSchema(v, at)
	case schemaOrSome:
		if list, some := v.([]any); some {
			s.checkEach(list, at)
		} else {
			s.checkSchema(v, at)
		}
	case someSchemas:
		var list []any
		if list, ok = v.([]any); ok {
			ok = len(list) > 0
			s.checkEach(list, at)
		}
	case schemasByName, needsByName:
		var object map[string]any
		object, ok = v.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(object)) {
			if want == schemasByName || !hasDistinctStrings(object[k]) {
				s.checkSchema(object[k], at+"/"+finding.EscapePointer(k))
			}
		}
	case namesByName:
		var object map[string]any
		object, ok = v.(map[string]any)
		for _, names := range object {
			ok = ok && hasDistinctStrings(names)
		}
	case aType:
		ok, hint = typeNames(v)
	default:
		ok = hasForm(v, want)
	}
	if !ok {
		s.addFinding(finding.SeverityError, s.code, at, hint, "%q is not %s", name, want)
	}
}

func (s schemaCheck) checkEach(list []any, at string) {
	for i, v := range list {
		s.checkSchema(v, at+"/"+strconv.Itoa(i))
	}
}

// hasForm judges values that hold no schema.
func hasForm(v any, want string) bool {
	switch want {
	case aString:
		_, ok := v.(string)
		return ok
	case aBoolean:
		_, ok := v.(bool)
		return ok
	case aList:
		_, ok := v.([]any)
		return ok
	case someNames:
		return hasDistinctStrings(v)
	case aNumber, aStep, aCount:
		n, ok := v.(json.Number)
		f, err := n.Float64()
		return ok && err == nil && (want != aStep || f > 0) && (want != aCount || f >= 0 && f == math.Trunc(f))
	}
	return true
}

// hasDistinctStrings reports whether v is an array of distinct strings.
func hasDistinctStrings(v any) bool {
	list, ok := v.([]any)
	seen := make(map[any]bool, len(list))
	for _, e := range list {
		name, isName := e.(string)
		ok = ok && isName && !seen[name]
		seen[name] = true
	}
	return ok
}

// typeNames checks the keyword "type" and returns its allowed values.
func typeNames(v any) (ok bool, hint string) {
	list, some := v.([]any)
	if !some {
		list = []any{v}
	}
	ok = len(list) > 0 && hasDistinctStrings(list)
	hint = "known: " + strings.Join(schemaTypes, ", ")
	for _, e := range list {
		name, _ := e.(string)
		if slices.Contains(schemaTypes, name) {
			continue
		}
		ok = false
		if name != "" {
			hint = finding.Near(name, schemaTypes)
		}
	}
	return ok, hint
}
