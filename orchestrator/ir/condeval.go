package ir

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// True evaluates c. An absent condition is true, and so is otherwise: the caller has tried the other edges first. case is
// decided by the SWITCH before it (see IsCase) and is false here.
func (c *Cond) True(s Scope) (bool, *Failure) {
	if c == nil || c.root == nil {
		return true, nil
	}
	e := condEval{work: maxCondWork}
	return e.eval(c.root, s)
}

type condEval struct{ work int }

func (e *condEval) spendWork(n int) *Failure {
	if e.work -= n; e.work < 0 {
		return failf(FailLimit, "the condition takes more than %d steps", maxCondWork)
	}
	return nil
}

func (e *condEval) eval(n *condNode, s Scope) (bool, *Failure) {
	if f := e.spendWork(1); f != nil {
		return false, f
	}
	switch n.op {
	case "always", "otherwise":
		return true, nil
	case "never", "case":
		return false, nil
	case "and", "or":
		for _, a := range n.args {
			if ok, f := e.eval(a, s); f != nil || ok == (n.op == "or") {
				return ok, f
			}
		}
		return n.op == "and", nil
	case "not":
		ok, f := e.eval(n.args[0], s)
		return !ok && f == nil, f
	case "any", "all":
		return e.evalQuantifier(n, s)
	case "exists":
		return refExists(n.ref, s)
	case "is_null", "type_is", "has_key":
		return inspectRef(n, s)
	}
	left, f := e.evalOperand(n.left, s)
	if f != nil {
		return false, f
	}
	if n.op == "matches" {
		text, ok := left.(string)
		if !ok {
			return false, failf(FailStateType, "matches needs a string but found %s", typeName(left))
		}
		return n.re.MatchString(text), nil
	}
	right, f := e.evalOperand(n.right, s)
	if f != nil {
		return false, f
	}
	return evalComparison(n.op, left, right)
}

// evalOperand evaluates a value expression and charges the size of its value to the work limit.
func (e *condEval) evalOperand(expr any, s Scope) (any, *Failure) {
	v, f := eval(expr, s, 0)
	if f != nil {
		return nil, f
	}
	n, _ := lengthOf(v)
	if _, ok := v.(string); ok {
		n /= 256
	}
	return v, e.spendWork(n)
}

func evalComparison(op string, left, right any) (bool, *Failure) {
	switch op {
	case "eq", "ne":
		return equalValues(left, right) == (op == "eq"), nil
	case "lt", "le", "gt", "ge":
		c, f := compareValues(left, right)
		return f == nil && satisfiesOrder(op, c), f
	case "in":
		return containsElement(op, right, left)
	case "contains":
		if text, ok := left.(string); ok {
			part, ok := right.(string)
			if !ok {
				return false, failf(FailStateType, "a string cannot contain %s", typeName(right))
			}
			return strings.Contains(text, part), nil
		}
		return containsElement(op, left, right)
	case "starts_with", "ends_with":
		text, okText := left.(string)
		part, okPart := right.(string)
		if !okText || !okPart {
			return false, failf(FailStateType, "%s needs two strings but found %s and %s", op, typeName(left), typeName(right))
		}
		if op == "starts_with" {
			return strings.HasPrefix(text, part), nil
		}
		return strings.HasSuffix(text, part), nil
	}
	size, ok := lengthOf(left)
	if !ok {
		return false, failf(FailStateType, "%s needs a string, an array or an object but found %s", op, typeName(left))
	}
	if _, ok := right.(json.Number); !ok {
		return false, failf(FailStateType, "%s needs a number to compare with but found %s", op, typeName(right))
	}
	c, f := compareValues(json.Number(strconv.Itoa(size)), right)
	return f == nil && satisfiesOrder(strings.TrimPrefix(op, "len_"), c), f
}

// satisfiesOrder reads the outcome c of a comparison for one of eq ne lt le gt ge.
func satisfiesOrder(op string, c int) bool {
	switch op {
	case "eq":
		return c == 0
	case "ne":
		return c != 0
	case "lt":
		return c < 0
	case "le":
		return c <= 0
	case "gt":
		return c > 0
	}
	return c >= 0
}

func containsElement(op string, list, v any) (bool, *Failure) {
	items, ok := list.([]any)
	if !ok {
		return false, failf(FailStateType, "%s needs an array but found %s", op, typeName(list))
	}
	return slices.ContainsFunc(items, func(item any) bool { return equalValues(item, v) }), nil
}

// evalQuantifier is any and all; of nothing, any is false and all is true.
func (e *condEval) evalQuantifier(n *condNode, s Scope) (bool, *Failure) {
	v, f := e.evalOperand(n.left, s)
	if f != nil {
		return false, f
	}
	items, ok := v.([]any)
	if !ok {
		return false, failf(FailStateType, "%s needs an array but found %s", n.op, typeName(v))
	}
	for i, item := range items {
		s.element = &element{value: item, index: i}
		if ok, f := e.eval(n.where, s); f != nil || ok == (n.op == "any") {
			return ok, f
		}
	}
	return n.op == "all", nil
}

// refExists reports whether r resolves, with [*] to at least one value. Looking for a member is never an error.
func refExists(r ref, s Scope) (bool, *Failure) {
	v, f := r.resolve(s)
	if f != nil {
		return false, nil
	}
	if list, ok := v.([]any); ok && slices.ContainsFunc(r.segs, func(s segment) bool { return s.kind == segAll }) {
		return len(list) > 0, nil
	}
	return true, nil
}

func inspectRef(n *condNode, s Scope) (bool, *Failure) {
	v, f := n.ref.resolve(s)
	if f != nil {
		return false, f
	}
	switch n.op {
	case "is_null":
		return v == nil, nil
	case "type_is":
		return hasType(v, n.text), nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return false, failf(FailStateType, "has_key needs an object but found %s", typeName(v))
	}
	_, ok = object[n.text]
	return ok, nil
}

// hasType uses the names of JSON Schema; 1.0 is an integer there and here.
func hasType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		return name == "number" || name == "integer" && isInteger(v)
	}
	return false
}

func isInteger(n json.Number) bool {
	d, ok := parseDecimal(n)
	return ok && (d.sign == 0 || d.exp.IsInt64() && d.exp.Int64() >= int64(len(d.digits)) || d.exp.Sign() > 0 && !d.exp.IsInt64())
}

// provenRefs returns the references that must resolve where n is true: static analysis trusts a guard.
func (n *condNode) provenRefs() []ref {
	if n == nil {
		return nil
	}
	switch n.op {
	case "exists":
		return []ref{n.ref}
	case "and":
		var out []ref
		for _, a := range n.args {
			out = append(out, a.provenRefs()...)
		}
		return out
	}
	return nil
}
