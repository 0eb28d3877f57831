package llm

import (
	"encoding/json"
	"regexp"
	"slices"
	"sync"
)

// unportable are keywords that the vendors' strict modes refuse, or some of them.
var unportable = []string{
	"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames", "prefixItems", "contains",
	"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems", "oneOf", "$ref", "$dynamicRef",
}

// isPortable reports whether all strict modes accept a schema: objects list all their members, require each, and allow no
// others; and it uses no keyword that only some of them support. Other schemas are not sent; answers are validated locally
// in any case.
func isPortable(schema json.RawMessage) bool {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return false
	}
	object, ok := v.(map[string]any)
	return ok && object["type"] == "object" && portableIn(object)
}

func portableIn(v any) bool {
	schema, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, keyword := range unportable {
		if _, there := schema[keyword]; there {
			return false
		}
	}
	if schema["type"] == "object" {
		members, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		if schema["additionalProperties"] != false || len(members) == 0 {
			return false
		}
		for name, member := range members {
			if !slices.Contains(required, any(name)) || !portableIn(member) {
				return false
			}
		}
	}
	if items, there := schema["items"]; there && !portableIn(items) {
		return false
	}
	if anyOf, there := schema["anyOf"]; there {
		list, _ := anyOf.([]any)
		return len(list) > 0 && !slices.ContainsFunc(list, func(s any) bool { return !portableIn(s) })
	}
	return true
}

var notInNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_-]+`) })

// schemaName is a name as strict modes take it.
func schemaName(name string) string {
	name = notInNames().ReplaceAllString(name, "_")
	if name == "" {
		return "answer"
	}
	return name[:min(len(name), 64)]
}
