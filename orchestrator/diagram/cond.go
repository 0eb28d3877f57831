package diagram

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// condText is a condition as people write them, "" for one that always holds.
func condText(c *expr.Cond) string {
	if c.IsAlways() {
		return ""
	}
	text, err := c.MarshalJSON()
	if err != nil {
		return "…"
	}
	return formatCond(decodeJSON(text))
}

func decodeJSON(text []byte) any {
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

func formatCond(v any) string {
	c, _ := v.(map[string]any)
	op, _ := c["op"].(string)
	name, counts := strings.CutPrefix(op, "len_")
	switch {
	case op == "case":
		return stringOf(c["is"])
	case op == "and" || op == "or":
		args, _ := c["args"].([]any)
		var parts []string
		for _, a := range args {
			part := formatCond(a)
			if inner, _ := a.(map[string]any); inner["op"] == "and" || inner["op"] == "or" {
				part = "(" + part + ")"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "+op+" ")
	case op == "not":
		args, _ := c["args"].([]any)
		if len(args) == 1 {
			return "not (" + formatCond(args[0]) + ")"
		}
	case infix[name] != "" && counts:
		return "len(" + formatExpr(c["left"]) + ") " + infix[name] + " " + formatExpr(c["right"])
	case infix[op] != "":
		return formatExpr(c["left"]) + " " + infix[op] + " " + formatExpr(c["right"])
	case op == "exists":
		return stringOf(c["ref"]) + " exists"
	case op == "is_null":
		return stringOf(c["ref"]) + " is null"
	case op == "type_is":
		return stringOf(c["ref"]) + " is of type " + stringOf(c["type"])
	case op == "has_key":
		return stringOf(c["ref"]) + " has " + stringOf(c["key"])
	case op == "matches":
		return formatExpr(c["left"]) + " matches /" + stringOf(c["pattern"]) + "/"
	case op == "any" || op == "all":
		return op + " of " + formatExpr(c["items"]) + ": " + formatCond(c["where"])
	}
	return op
}

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

// exprText is a value expression in a document, for people.
func exprText(raw json.RawMessage) string {
	v := decodeJSON(raw)
	if s, ok := v.(string); ok {
		return s
	}
	return formatExpr(v)
}

// formatExpr is a value expression: references as they are, texts in quotes.
func formatExpr(v any) string {
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
		if _, _, _, ok := expr.SplitRef(v); ok {
			return v
		}
		return `"` + v + `"`
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, formatExpr(e))
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
					b.WriteString(formatExpr(e))
				}
			}
			return b.String()
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+": "+formatExpr(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "…"
}
