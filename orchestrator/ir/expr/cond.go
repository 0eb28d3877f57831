package expr

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

	"github.com/spritekit/lattice/orchestrator/ir/finding"
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
	Root *CondNode
}

// Bounds of one condition. The work bound makes nested any and all finish: it counts evaluated nodes and elements, and as one step 256
// elements that a [*] or a comparison visits.
const (
	maxCondDepth   = 16
	maxCondNodes   = 256
	maxPatternSize = 256
	MaxCondWork    = 200_000
)

type CondNode struct {
	Op          string
	Args        []*CondNode
	Left, Right any // value expressions; items is left
	Ref         Ref
	text        string // is, type, key or pattern
	re          *regexp.Regexp
	Where       *CondNode
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
	var r finding.Report
	root := ReadCond(v, "", anyScope, &r) // which roots have a meaning here, the document's reader has checked
	if len(r.Findings) > 0 {
		var errs []error
		for _, f := range r.Findings {
			errs = append(errs, fmt.Errorf("condition%s: %s", f.Pointer, f.Message))
		}
		return errors.Join(errs...)
	}
	c.raw, c.Root = slices.Clone(json.RawMessage(data)), root
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
	if c == nil || c.Root == nil || c.Root.Op != "case" {
		return "", false
	}
	return c.Root.text, true
}

// IsOtherwise reports whether c is {"op":"otherwise"}.
func (c *Cond) IsOtherwise() bool { return c != nil && c.Root != nil && c.Root.Op == "otherwise" }

// IsAlways reports whether c is absent or {"op":"always"}.
func (c *Cond) IsAlways() bool { return c == nil || c.Root == nil || c.Root.Op == "always" }

// CondScope says which roots have a meaning around an expression, besides those that always have.
type CondScope struct {
	Element bool // $item and $index: in a body, and inside of any and all
	Output  bool // $out: in validators and compensate
	Closed  bool // a validator's: $out, $in, $item and $index, and no others
}

// anyScope takes whatever the format knows somewhere.
var anyScope = CondScope{Element: true, Output: true}

// ReadCond checks and reads one condition; the findings go to r.
func ReadCond(v any, ptr string, scope CondScope, r *finding.Report) *CondNode {
	p := condParser{Report: r, scope: scope}
	n := p.parse(v, ptr, 1)
	if p.nodes > maxCondNodes {
		r.AddError("cond_too_large", ptr, "compute part of it in a SWITCH first", "the condition has %d nodes; at most %d are allowed", p.nodes, maxCondNodes)
	}
	return n
}

type condParser struct {
	*finding.Report
	nodes int
	scope CondScope
}

func (p *condParser) parse(v any, ptr string, depth int) *CondNode {
	p.nodes++
	if depth > maxCondDepth {
		p.AddError("cond_too_deep", ptr, "flatten nested and/or", "the condition nests deeper than %d", maxCondDepth)
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		p.AddError("type_mismatch", ptr, `a condition is an object such as {"op":"always"}`, "a condition is an object; this is %s", TypeName(v))
		return nil
	}
	op, ok := object["op"].(string)
	fields, known := condFields[op]
	if !ok || !known {
		p.AddError("cond_op_unknown", ptr+"/op", finding.OneOf(op, CondOps()), "there is no condition op %q", op)
		return nil
	}
	n := &CondNode{Op: op}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		at := ptr + "/" + finding.EscapePointer(k)
		switch {
		case k == "op" || OpenMember(k):
		case k == "as" && (op == "any" || op == "all"):
			if object[k] != "$item" {
				p.AddError("cond_invalid", at, `leave "as" out`, `the element is always called $item`)
			}
		case !slices.Contains(fields, k):
			p.AddError("field_unknown", at, cmp.Or(finding.Near(k, fields), "remove it"), "%q has no member %q", op, k)
		default:
			p.parseMember(n, k, object[k], at, depth)
		}
	}
	for _, k := range fields {
		if _, ok := object[k]; !ok {
			p.AddError("field_missing", ptr+"/"+k, `"`+k+`": value`, "%q needs %q", op, k)
		}
	}
	return n
}

// parseMember reads one member that belongs to the op.
func (p *condParser) parseMember(n *CondNode, k string, v any, at string, depth int) {
	switch k {
	case "args":
		args, ok := v.([]any)
		if !ok || len(args) == 0 || n.Op == "not" && len(args) != 1 {
			p.AddError("cond_invalid", at, `"args": [{"op": "eq", "left": "$vars.x", "right": 1}]`, "args is a list of conditions: one for not, one or more for and, or")
			return
		}
		for i, a := range args {
			n.Args = append(n.Args, p.parse(a, fmt.Sprintf("%s/%d", at, i), depth+1))
		}
	case "where":
		outer := p.scope
		p.scope.Element = true
		n.Where = p.parse(v, at, depth+1)
		p.scope = outer
	case "left", "items":
		CheckExpr(v, at, p.scope, p.Report)
		n.Left = v
	case "right":
		CheckExpr(v, at, p.scope, p.Report)
		n.Right = v
	case "ref":
		text, _ := v.(string)
		n.Ref = checkRef(text, at, p.scope, p.Report)
	default: // is, type, key, pattern
		text, ok := v.(string)
		if !ok {
			p.AddError("type_mismatch", at, "put it in double quotes", "%q is a string; this is %s", k, TypeName(v))
			return
		}
		n.text = text
		if k == "type" && !slices.Contains(condTypes, text) {
			p.AddError("cond_invalid", at, finding.Near(text, condTypes), "there is no type %q", text)
		}
		if k == "pattern" {
			n.re = p.compilePattern(text, at)
		}
	}
}

func (p *condParser) compilePattern(text, at string) *regexp.Regexp {
	if utf8.RuneCountInString(text) > maxPatternSize {
		p.AddError("pattern_invalid", at, "shorten it, or join several conditions by or", "the pattern has more than %d characters", maxPatternSize)
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		p.AddError("pattern_invalid", at, "patterns are RE2: no look-around, no back-references", "%v", err)
		return nil
	}
	return re
}

// OpenMember reports whether any object of the format may carry the member k: meta and x-… are the author's own.
func OpenMember(k string) bool { return k == "meta" || strings.HasPrefix(k, "x-") }
