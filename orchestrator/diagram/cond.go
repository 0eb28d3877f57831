package diagram

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// condText is a condition as people write them, "" for one that always holds.
func condText(c *ir.Cond) string {
	if c.IsAlways() {
		return ""
	}
	text, err := c.MarshalJSON()
	if err != nil {
		return "…"
	}
	return condition(decode(text))
}

func decode(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "…"
	}
	return v
}

var infix = map[string]string{
	"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "in": "in",
	"contains": "contains", "starts_with": "starts with", "ends_with": "ends with",
}

func condition(v any) string {
	c, _ := v.(map[string]any)
	op, _ := c["op"].(string)
	name, counts := strings.CutPrefix(op, "len_")
	switch {
	case op == "case":
		return text(c["is"])
	case op == "and" || op == "or":
		args, _ := c["args"].([]any)
		var parts []string
		for _, a := range args {
			part := condition(a)
			if inner, _ := a.(map[string]any); inner["op"] == "and" || inner["op"] == "or" {
				part = "(" + part + ")"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "+op+" ")
	case op == "not":
		args, _ := c["args"].([]any)
		if len(args) == 1 {
			return "not (" + condition(args[0]) + ")"
		}
	case infix[name] != "" && counts:
		return "len(" + expression(c["left"]) + ") " + infix[name] + " " + expression(c["right"])
	case infix[op] != "":
		return expression(c["left"]) + " " + infix[op] + " " + expression(c["right"])
	case op == "exists":
		return text(c["ref"]) + " exists"
	case op == "is_null":
		return text(c["ref"]) + " is null"
	case op == "type_is":
		return text(c["ref"]) + " is of type " + text(c["type"])
	case op == "has_key":
		return text(c["ref"]) + " has " + text(c["key"])
	case op == "matches":
		return expression(c["left"]) + " matches /" + text(c["pattern"]) + "/"
	case op == "any" || op == "all":
		return op + " of " + expression(c["items"]) + ": " + condition(c["where"])
	}
	return op
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// exprText is a value expression in a document, for people.
func exprText(raw json.RawMessage) string {
	v := decode(raw)
	if s, ok := v.(string); ok {
		return s
	}
	return expression(v)
}

// expression is a value expression: references as they are, texts in quotes.
func expression(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		if v {
			return "true"
		}
		return "false"
	case json.Number:
		return v.String()
	case string:
		if _, _, _, ok := ir.SplitRef(v); ok {
			return v
		}
		return `"` + v + `"`
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, expression(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		if ref, ok := v["ref"].(string); ok {
			return ref
		}
		if list, ok := v["concat"].([]any); ok {
			var b strings.Builder
			for _, e := range list {
				if s, ok := e.(string); ok {
					b.WriteString(s)
				} else {
					b.WriteString(expression(e))
				}
			}
			return b.String()
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+": "+expression(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "…"
}
