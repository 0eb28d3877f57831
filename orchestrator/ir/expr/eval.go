// Package expr is the two small languages inside of ExecIR: value expressions ([Eval]) and conditions ([Cond]), with the
// references that both are made of and the [Failure] that an evaluation ends with. Start with Eval and Scope; check.go
// reports what is wrong with an expression before it is evaluated. Everything here is pure: no I/O, no clock, no randomness,
// no map order in results.
package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxExprDepth bounds the nesting of value expressions.
const maxExprDepth = 64

// maxText bounds the text that concat may build.
const maxText = 16 << 20

// Eval resolves a value expression. JSON stands for itself, except:
//
//	"$vars.a[0].b"          a reference: the whole string must be one; "$$x" is the text "$x"
//	{"lit": v}              v as it is
//	{"ref": "$…", …}        a reference with options, applied in this order: default (a value expression, used when the
//	                        reference is unresolved), pick, pick_required, omit, truncate_items (from: "head"|"tail"),
//	                        truncate_chars, max_bytes
//	{"concat": [e, …]}      arrays joined to an array, or strings, numbers and booleans joined to a string
//	{"len": e}              elements of an array, members of an object, characters of a string
//	{"json": e}             the compact JSON text of e, keys sorted
//
// An object is an operator only in exactly these shapes; {"lit": …} is the way to say anything else that looks so.
// Results may share structure with the scope: treat both as immutable. Numbers stay json.Number.
func Eval(expression json.RawMessage, s Scope) (any, *Failure) {
	v, err := Decode(expression)
	if err != nil {
		return nil, Failf(FailSchema, "read value expression: %v", err)
	}
	return EvalValue(v, s, 0)
}

func EvalValue(v any, s Scope, depth int) (any, *Failure) {
	if depth > maxExprDepth {
		return nil, Failf(FailLimit, "the value expression nests deeper than %d", maxExprDepth)
	}
	switch v := v.(type) {
	case string:
		return EvalString(v, s)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var f *Failure
			if out[i], f = EvalValue(v[i], s, depth+1); f != nil {
				return nil, f
			}
		}
		return out, nil
	case map[string]any:
		switch OperatorOf(v) {
		case "lit":
			return v["lit"], nil
		case "ref":
			return evalRef(v, s, depth)
		case "concat":
			return evalConcat(v["concat"], s, depth)
		case "len":
			return evalLen(v["len"], s, depth)
		case "json":
			got, f := EvalValue(v["json"], s, depth+1)
			if f != nil {
				return nil, f
			}
			text, err := Marshal(got)
			if err != nil {
				return nil, Failf(FailStateType, "json: %v", err)
			}
			s.countVisits(len(text))
			return string(text), nil
		}
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			var f *Failure
			if out[k], f = EvalValue(v[k], s, depth+1); f != nil {
				return nil, f
			}
		}
		return out, nil
	}
	return v, nil
}

// OperatorOf returns the operator that an object denotes, "" if it is plain data. An object with a "ref" member is an
// operator only if the member is a reference and all others are options: {"url":"…","ref":"main"} is plain data.
func OperatorOf(v map[string]any) string {
	if len(v) == 1 {
		for _, op := range []string{"lit", "concat", "len", "json"} {
			if _, ok := v[op]; ok {
				return op
			}
		}
	}
	text, ok := v["ref"].(string)
	if !ok || !LooksLikeRef(text) {
		return ""
	}
	for k := range v {
		if refOptions[k] {
			return "ref"
		}
	}
	if len(v) == 1 {
		return "ref"
	}
	return ""
}

func EvalString(v string, s Scope) (any, *Failure) {
	switch {
	case strings.HasPrefix(v, "$$"):
		return v[1:], nil
	case !LooksLikeRef(v):
		return v, nil
	}
	r, err := ParseRef(v)
	if err != nil {
		return nil, Failf(FailRef, "%v", err)
	}
	return r.resolve(s)
}

func evalConcat(operand any, s Scope, depth int) (any, *Failure) {
	parts, ok := operand.([]any)
	if !ok {
		return nil, Failf(FailStateType, "concat needs an array but found %s", TypeName(operand))
	}
	var text strings.Builder
	var list []any
	texts := 0
	for _, part := range parts {
		v, f := EvalValue(part, s, depth+1)
		if f != nil {
			return nil, f
		}
		switch v := v.(type) {
		case []any:
			list = append(list, v...)
			s.countVisits(len(v))
			continue
		case string:
			text.WriteString(v)
		case json.Number:
			text.WriteString(v.String())
		case bool:
			text.WriteString(strconv.FormatBool(v))
		default:
			return nil, Failf(FailStateType, "concat cannot join %s", TypeName(v))
		}
		texts++
		if text.Len() > maxText {
			return nil, Failf(FailLimit, "concat makes more than %d bytes", maxText)
		}
	}
	s.countVisits(text.Len())
	switch {
	case texts == len(parts):
		return text.String(), nil
	case texts == 0:
		return list, nil
	}
	return nil, Failf(FailStateType, "concat cannot join arrays with text")
}

func evalLen(operand any, s Scope, depth int) (any, *Failure) {
	v, f := EvalValue(operand, s, depth+1)
	if f != nil {
		return nil, f
	}
	if text, ok := v.(string); ok {
		s.countVisits(len(text))
	}
	n, ok := lengthOf(v)
	if !ok {
		return nil, Failf(FailStateType, "len needs a string, an array or an object but found %s", TypeName(v))
	}
	return json.Number(strconv.Itoa(n)), nil
}

// lengthOf counts elements, members, or Unicode scalar values.
func lengthOf(v any) (int, bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case []any:
		return len(v), true
	case map[string]any:
		return len(v), true
	}
	return 0, false
}

// Decode reads one JSON value the way that Eval, Cond and Assign expect it: numbers as json.Number, nothing behind it.
func Decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode JSON: there is more than one value")
	}
	return v, nil
}

// Marshal writes a decoded value compactly, keys sorted, with "<", ">" and "&" as they are. Equal values give equal bytes.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// TypeName returns the type of a decoded value with its article, for messages.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}

func Failf(kind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
