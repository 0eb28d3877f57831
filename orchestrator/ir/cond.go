package ir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Cond is a condition of an edge or a case: a strict, total AST without coercion.
//
//	{"op":"always"} {"op":"never"} {"op":"otherwise"}     otherwise: no edge before it was true
//	{"op":"case","is":"green"}                            behind a SWITCH: it chose this case
//	{"op":"and"|"or"|"not","args":[c, …]}                 and, or stop at the first argument that decides
//	{"op":"eq"|"ne"|"lt"|"le"|"gt"|"ge","left":e,"right":e}
//	{"op":"in","left":e,"right":e}                        right is an array
//	{"op":"contains","left":e,"right":e}                  left is an array or a string
//	{"op":"starts_with"|"ends_with","left":e,"right":e}   strings
//	{"op":"len_eq"|"len_ne"|"len_lt"|"len_le"|"len_gt"|"len_ge","left":e,"right":e}
//	{"op":"exists","ref":"$…"}                            with [*]: at least one; null exists
//	{"op":"is_null","ref":"$…"} {"op":"type_is","ref":"$…","type":"string"} {"op":"has_key","ref":"$…","key":"k"}
//	{"op":"matches","left":e,"pattern":"^v[0-9]+"}        RE2, at most 256 characters
//	{"op":"any"|"all","items":e,"where":c}                $item and $index stand for the element inside of where
//
// left, right and items are value expressions. Numbers compare as decimals (1 == 1.0), strings by code point, eq deeply;
// ordering across types is state_type_error and a missing reference is ref_unresolved in anything but exists.
type Cond struct {
	raw  json.RawMessage
	root *condNode
}

// Bounds of one condition. The work bound makes nested any and all finish: it counts evaluated nodes and elements.
const (
	maxCondDepth   = 16
	maxCondNodes   = 256
	maxPatternSize = 256
	maxCondWork    = 200_000
)

type condNode struct {
	op          string
	args        []*condNode
	left, right any // value expressions; items is left
	ref         ref
	text        string // is, type, key or pattern
	re          *regexp.Regexp
	where       *condNode
}

// condFields lists the members of each op besides "op"; all are required except "as".
var condFields = func() map[string][]string {
	m := map[string][]string{
		"always": nil, "never": nil, "otherwise": nil, "case": {"is"},
		"and": {"args"}, "or": {"args"}, "not": {"args"},
		"exists": {"ref"}, "is_null": {"ref"}, "type_is": {"ref", "type"}, "has_key": {"ref", "key"},
		"matches": {"left", "pattern"}, "any": {"items", "where"}, "all": {"items", "where"},
	}
	for _, op := range []string{"eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "ends_with"} {
		m[op] = []string{"left", "right"}
	}
	for _, op := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		m["len_"+op] = []string{"left", "right"}
	}
	return m
}()

var condTypes = []string{"null", "boolean", "number", "integer", "string", "array", "object"}

// UnmarshalJSON reads a condition strictly; the error names every fault.
func (c *Cond) UnmarshalJSON(data []byte) error {
	v, err := Decode(data)
	if err != nil {
		return err
	}
	var r report
	root := parseCond(v, "", anyScope, &r) // which roots have a meaning here, the document's reader has checked
	if len(r.findings) > 0 {
		var errs []error
		for _, f := range r.findings {
			errs = append(errs, fmt.Errorf("condition%s: %s", f.Pointer, f.Message))
		}
		return errors.Join(errs...)
	}
	c.raw, c.root = slices.Clone(json.RawMessage(data)), root
	return nil
}

// MarshalJSON writes the condition as it was read.
func (c *Cond) MarshalJSON() ([]byte, error) {
	if c.raw == nil {
		return []byte(`{"op":"always"}`), nil
	}
	return c.raw, nil
}

// IsCase reports whether c is {"op":"case","is":name} and returns the name.
func (c *Cond) IsCase() (string, bool) {
	if c == nil || c.root == nil || c.root.op != "case" {
		return "", false
	}
	return c.root.text, true
}

// IsOtherwise reports whether c is {"op":"otherwise"}.
func (c *Cond) IsOtherwise() bool { return c != nil && c.root != nil && c.root.op == "otherwise" }

// IsAlways reports whether c is absent or {"op":"always"}.
func (c *Cond) IsAlways() bool { return c == nil || c.root == nil || c.root.op == "always" }

// condScope says which roots have a meaning around an expression, besides those that always have.
type condScope struct {
	element bool // $item and $index: in a body, and inside of any and all
	output  bool // $out: in validators and compensate
	closed  bool // a validator's: $out, $in, $item and $index, and no others
}

// anyScope takes whatever the format knows somewhere.
var anyScope = condScope{element: true, output: true}

// parseCond checks and reads one condition; the findings go to r.
func parseCond(v any, ptr string, scope condScope, r *report) *condNode {
	p := condParser{report: r, scope: scope}
	n := p.parse(v, ptr, 1)
	if p.nodes > maxCondNodes {
		r.addError("cond_too_large", ptr, "compute part of it in a SWITCH first", "the condition has %d nodes; at most %d are allowed", p.nodes, maxCondNodes)
	}
	return n
}

type condParser struct {
	*report
	nodes int
	scope condScope
}

func (p *condParser) parse(v any, ptr string, depth int) *condNode {
	p.nodes++
	if depth > maxCondDepth {
		p.addError("cond_too_deep", ptr, "flatten nested and/or", "the condition nests deeper than %d", maxCondDepth)
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		p.addError("type_mismatch", ptr, `a condition is an object such as {"op":"always"}`, "a condition is an object; this is %s", typeName(v))
		return nil
	}
	op, ok := object["op"].(string)
	fields, known := condFields[op]
	if !ok || !known {
		p.addError("cond_op_unknown", ptr+"/op", OneOf(op, CondOps()), "there is no condition op %q", op)
		return nil
	}
	n := &condNode{op: op}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		at := ptr + "/" + escapePointer(k)
		switch {
		case k == "op" || openMember(k):
		case k == "as" && (op == "any" || op == "all"):
			if object[k] != "$item" {
				p.addError("cond_invalid", at, `leave "as" out`, `the element is always called $item`)
			}
		case !slices.Contains(fields, k):
			p.addError("field_unknown", at, cmp.Or(Near(k, fields), "remove it"), "%q has no member %q", op, k)
		default:
			p.parseMember(n, k, object[k], at, depth)
		}
	}
	for _, k := range fields {
		if _, ok := object[k]; !ok {
			p.addError("field_missing", ptr+"/"+k, `"`+k+`": value`, "%q needs %q", op, k)
		}
	}
	return n
}

// parseMember reads one member that belongs to the op.
func (p *condParser) parseMember(n *condNode, k string, v any, at string, depth int) {
	switch k {
	case "args":
		args, ok := v.([]any)
		if !ok || len(args) == 0 || n.op == "not" && len(args) != 1 {
			p.addError("cond_invalid", at, `"args": [{"op": "eq", "left": "$vars.x", "right": 1}]`, "args is a list of conditions: one for not, one or more for and, or")
			return
		}
		for i, a := range args {
			n.args = append(n.args, p.parse(a, fmt.Sprintf("%s/%d", at, i), depth+1))
		}
	case "where":
		outer := p.scope
		p.scope.element = true
		n.where = p.parse(v, at, depth+1)
		p.scope = outer
	case "left", "items":
		checkExpr(v, at, p.scope, p.report)
		n.left = v
	case "right":
		checkExpr(v, at, p.scope, p.report)
		n.right = v
	case "ref":
		text, _ := v.(string)
		n.ref = checkRef(text, at, p.scope, p.report)
	default: // is, type, key, pattern
		text, ok := v.(string)
		if !ok {
			p.addError("type_mismatch", at, "put it in double quotes", "%q is a string; this is %s", k, typeName(v))
			return
		}
		n.text = text
		if k == "type" && !slices.Contains(condTypes, text) {
			p.addError("cond_invalid", at, Near(text, condTypes), "there is no type %q", text)
		}
		if k == "pattern" {
			n.re = p.compilePattern(text, at)
		}
	}
}

func (p *condParser) compilePattern(text, at string) *regexp.Regexp {
	if utf8.RuneCountInString(text) > maxPatternSize {
		p.addError("pattern_invalid", at, "shorten it, or join several conditions by or", "the pattern has more than %d characters", maxPatternSize)
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		p.addError("pattern_invalid", at, "patterns are RE2: no look-around, no back-references", "%v", err)
		return nil
	}
	return re
}

// openMember reports whether any object of the format may carry the member k: meta and x-… are the author's own.
func openMember(k string) bool { return k == "meta" || strings.HasPrefix(k, "x-") }
