package expr

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// True evaluates c. An absent condition is true, and so is otherwise: the caller has tried the other edges first. case is
// decided by the SWITCH before it (see IsCase) and is false here.
func (c *Cond) True(s Scope) (bool, *Failure) {
	if c == nil || c.Root == nil {
		return true, nil
	}
	e := CondEval{Work: MaxCondWork}
	return e.Eval(c.Root, s)
}

// CondEval evaluates conditions that share a work limit.
type CondEval struct {
	Work    int
	visited int // not charged yet
}

// visitsPerStep is how many elements or bytes may be visited in one step.
const visitsPerStep = 256

func (e *CondEval) spendWork(n int) *Failure {
	if e.Work -= n; e.Work < 0 {
		return Failf(FailLimit, "the condition takes more than %d steps", MaxCondWork)
	}
	return nil
}

func (e *CondEval) Eval(n *CondNode, s Scope) (bool, *Failure) {
	if f := e.spendWork(1 + e.visited/visitsPerStep); f != nil {
		return false, f
	}
	e.visited %= visitsPerStep
	s.visited = &e.visited
	switch n.Op {
	case "always", "otherwise":
		return true, nil
	case "never", "case":
		return false, nil
	case "and", "or":
		for _, a := range n.Args {
			if ok, f := e.Eval(a, s); f != nil || ok == (n.Op == "or") {
				return ok, f
			}
		}
		return n.Op == "and", nil
	case "not":
		ok, f := e.Eval(n.Args[0], s)
		return !ok && f == nil, f
	case "any", "all":
		return e.evalQuantifier(n, s)
	case "exists":
		return refExists(n.Ref, s)
	case "is_null", "type_is", "has_key":
		return inspectRef(n, s)
	}
	left, f := e.evalOperand(n.Left, s)
	if f != nil {
		return false, f
	}
	if n.Op == "matches" {
		text, ok := left.(string)
		if !ok {
			return false, Failf(FailStateType, "matches needs a string but found %s", TypeName(left))
		}
		return n.re.MatchString(text), nil
	}
	right, f := e.evalOperand(n.Right, s)
	if f != nil {
		return false, f
	}
	return evalComparison(n.Op, left, right, s)
}

// evalOperand evaluates a value expression and charges the size of its value to the work limit.
func (e *CondEval) evalOperand(expression any, s Scope) (any, *Failure) {
	v, f := EvalValue(expression, s, 0)
	if f != nil {
		return nil, f
	}
	n, _ := lengthOf(v)
	if _, ok := v.(string); ok {
		n /= 256
	}
	return v, e.spendWork(n)
}

func evalComparison(op string, left, right any, s Scope) (bool, *Failure) {
	switch op {
	case "eq", "ne":
		return equalIn(s, left, right) == (op == "eq"), nil
	case "lt", "le", "gt", "ge":
		c, f := compareValues(left, right)
		return f == nil && satisfiesOrder(op, c), f
	case "in":
		return containsElement(op, right, left, s)
	case "contains":
		if text, ok := left.(string); ok {
			part, ok := right.(string)
			if !ok {
				return false, Failf(FailStateType, "a string cannot contain %s", TypeName(right))
			}
			return strings.Contains(text, part), nil
		}
		return containsElement(op, left, right, s)
	case "starts_with", "ends_with":
		text, okText := left.(string)
		part, okPart := right.(string)
		if !okText || !okPart {
			return false, Failf(FailStateType, "%s needs two strings but found %s and %s", op, TypeName(left), TypeName(right))
		}
		if op == "starts_with" {
			return strings.HasPrefix(text, part), nil
		}
		return strings.HasSuffix(text, part), nil
	}
	size, ok := lengthOf(left)
	if !ok {
		return false, Failf(FailStateType, "%s needs a string, an array or an object but found %s", op, TypeName(left))
	}
	if _, ok := right.(json.Number); !ok {
		return false, Failf(FailStateType, "%s needs a number to compare with but found %s", op, TypeName(right))
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

func containsElement(op string, list, v any, s Scope) (bool, *Failure) {
	items, ok := list.([]any)
	if !ok {
		return false, Failf(FailStateType, "%s needs an array but found %s", op, TypeName(list))
	}
	return slices.ContainsFunc(items, func(item any) bool { return equalIn(s, item, v) }), nil
}

// evalQuantifier is any and all; of nothing, any is false and all is true.
func (e *CondEval) evalQuantifier(n *CondNode, s Scope) (bool, *Failure) {
	v, f := e.evalOperand(n.Left, s)
	if f != nil {
		return false, f
	}
	items, ok := v.([]any)
	if !ok {
		return false, Failf(FailStateType, "%s needs an array but found %s", n.Op, TypeName(v))
	}
	for i, item := range items {
		s.element = &element{value: item, index: i}
		if ok, f := e.Eval(n.Where, s); f != nil || ok == (n.Op == "any") {
			return ok, f
		}
	}
	return n.Op == "all", nil
}

// refExists reports whether r resolves, with [*] to at least one value. Looking for a member is never an error.
func refExists(r Ref, s Scope) (bool, *Failure) {
	v, f := r.resolve(s)
	if f != nil {
		return false, nil
	}
	if list, ok := v.([]any); ok && slices.ContainsFunc(r.Segs, func(s Segment) bool { return s.Kind == SegAll }) {
		return len(list) > 0, nil
	}
	return true, nil
}

func inspectRef(n *CondNode, s Scope) (bool, *Failure) {
	v, f := n.Ref.resolve(s)
	if f != nil {
		return false, f
	}
	switch n.Op {
	case "is_null":
		return v == nil, nil
	case "type_is":
		return hasType(v, n.text), nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return false, Failf(FailStateType, "has_key needs an object but found %s", TypeName(v))
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
	d, ok := ParseDecimal(n)
	return ok && (d.Sign == 0 || d.Exp.IsInt64() && d.Exp.Int64() >= int64(len(d.Digits)) || d.Exp.Sign() > 0 && !d.Exp.IsInt64())
}

// ProvenRefs returns the references that must resolve where n is true: static analysis trusts a guard.
func (n *CondNode) ProvenRefs() []Ref {
	if n == nil {
		return nil
	}
	switch n.Op {
	case "exists":
		return []Ref{n.Ref}
	case "and":
		var out []Ref
		for _, a := range n.Args {
			out = append(out, a.ProvenRefs()...)
		}
		return out
	}
	return nil
}
