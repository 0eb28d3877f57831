package ir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Bounds of a document.
const (
	MaxDocumentBytes = 1 << 20
	maxDocumentDepth = 64
)

// DecodeTree reads data as one JSON object, numbers as json.Number. encoding/json would silently take the last of two
// equal keys; here that is a finding. It returns nil when nothing more can be said about the document.
func DecodeTree(data []byte, r *finding.Report) map[string]any {
	switch {
	case len(data) > MaxDocumentBytes:
		r.AddError("document_too_large", "", "pass large data as input or as a file in the sprite", "the document has %d bytes; at most %d are allowed", len(data), MaxDocumentBytes)
		return nil
	case !utf8.Valid(data):
		r.AddError("json_invalid", "", "save the file as UTF-8", "the document is not UTF-8")
		return nil
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		r.AddError("json_invalid", "", "save the file as UTF-8 without a byte order mark", "the document begins with a byte order mark, which JSON does not have")
		return nil
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		line := 1
		if syntax, ok := err.(*json.SyntaxError); ok {
			line += bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		}
		if strings.Contains(err.Error(), "max depth") { // of encoding/json, far beyond ours
			tooDeep(r)
			return nil
		}
		r.AddError("json_invalid", "", syntaxHint(err), "the document is not JSON: line %d: %v", line, err)
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := (&treeReader{d, data, r}).readValue("", 0)
	switch {
	case errors.Is(err, errTooDeep):
		tooDeep(r)
		return nil
	case err != nil:
		r.AddError("json_invalid", "", syntaxHint(err), "the document is not JSON: %v", err)
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		r.AddError("type_mismatch", "", `{"execir_version": "1.0", "entry_node": "…", "nodes": […]}`, "a document is an object; this is %s", expr.TypeName(v))
		return nil
	}
	return object
}

// HintText is the hint for JSON values that cannot be exchanged between implementations.
const HintText = `look for unpaired surrogates such as "\ud800" and for numbers out of range`

// syntaxHint returns a hint for a syntax error of encoding/json.
func syntaxHint(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "unexpected end"):
		return "the document is truncated: close all brackets and quotes"
	case strings.Contains(text, "after top-level value"):
		return "a document is one object; remove what follows it"
	}
	return `strings need "double quotes", commas go between members only, and comments are not allowed`
}

var errTooDeep = fmt.Errorf("more than %d levels", maxDocumentDepth)

func tooDeep(r *finding.Report) {
	r.AddError("document_too_deep", "", "flatten it, or pass the deep part as input", "the document nests deeper than %d", maxDocumentDepth)
}

type treeReader struct {
	*json.Decoder
	data   []byte // the input
	report *finding.Report
}

// readToken returns the next token. It reports strings and numbers that other JSON readers would decode differently.
func (t *treeReader) readToken(ptr string) (json.Token, error) {
	from := t.InputOffset()
	token, err := t.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		if strings.ContainsRune(v, utf8.RuneError) && halfCharacter(t.data[from:t.InputOffset()]) {
			t.report.AddError("json_invalid", ptr, HintText, "the string contains an unpaired surrogate")
		}
	case json.Number:
		if !expr.ExactDouble(v.String()) {
			t.report.AddError("number_inexact", ptr, "write it as text", "the number %.40s has no exact IEEE 754 double form, so that readers would not agree on it", v)
		}
	}
	return token, nil
}

// halfCharacter reports whether raw JSON text escapes a surrogate that no other one completes.
func halfCharacter(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' || i+4 >= len(raw) {
			continue
		}
		high, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
		if err != nil || !utf16.IsSurrogate(rune(high)) {
			continue
		}
		if i += 4; i+6 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' {
			return true
		}
		low, err := strconv.ParseUint(string(raw[i+3:i+7]), 16, 32)
		if err != nil || utf16.DecodeRune(rune(high), rune(low)) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

func (t *treeReader) readValue(ptr string, depth int) (any, error) {
	token, err := t.readToken(ptr)
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth >= maxDocumentDepth {
		return nil, errTooDeep
	}
	if delim == '[' {
		list := []any{}
		for t.More() {
			v, err := t.readValue(ptr+"/"+strconv.Itoa(len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = t.Token()
		return list, err
	}
	object := map[string]any{}
	for t.More() {
		key, err := t.readToken(ptr)
		if err != nil {
			return nil, err
		}
		name := key.(string)
		at := ptr + "/" + finding.EscapePointer(name)
		if _, ok := object[name]; ok {
			t.report.AddError("key_duplicate", at, "remove one of the two", "the key %q appears twice", name)
		}
		if object[name], err = t.readValue(at, depth+1); err != nil {
			return nil, err
		}
	}
	_, err = t.Token()
	return object, err
}

// BindDocument is bindTo for an ExecIR document.
func BindDocument(tree map[string]any, r *finding.Report) (Document, error) {
	var doc Document
	err := bindTo(tree, &doc, r)
	return doc, err
}

type binder struct {
	*finding.Report
	scope expr.CondScope
}

var (
	condType = reflect.TypeFor[expr.Cond]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	nodeType = reflect.TypeFor[Node]()
	bodyType = reflect.TypeFor[Body]()

	validatorType   = reflect.TypeFor[Validator]()
	escalationsType = reflect.TypeFor[Escalations]()
)

// bindValue returns v as far as it fits t, nil where it does not.
func (b binder) bindValue(v any, t reflect.Type, ptr string) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == rawType:
		return v
	case t == condType:
		before := len(b.Findings)
		if expr.ReadCond(v, ptr, b.scope, b.Report); len(b.Findings) > before {
			return map[string]any{"op": "never"} // and not nothing, which would be always
		}
		return v
	}
	switch t.Kind() {
	case reflect.Struct:
		if object, ok := v.(map[string]any); ok {
			return b.fitStruct(object, t, ptr)
		}
		b.reportMismatch(ptr, "an object", v)
		return map[string]any{}
	case reflect.Slice:
		if list, ok := v.([]any); ok {
			out := make([]any, len(list))
			for i := range list {
				out[i] = b.bindValue(list[i], t.Elem(), ptr+"/"+strconv.Itoa(i))
			}
			return out
		}
		if _, single := v.(map[string]any); single && t == escalationsType {
			return []any{b.bindValue(v, t.Elem(), ptr)}
		}
		b.reportMismatch(ptr, "an array", v)
	case reflect.Map:
		if object, ok := v.(map[string]any); ok {
			out := make(map[string]any, len(object))
			for _, k := range slices.Sorted(maps.Keys(object)) {
				out[k] = b.bindValue(object[k], t.Elem(), ptr+"/"+finding.EscapePointer(k))
			}
			return out
		}
		b.reportMismatch(ptr, "an object", v)
	case reflect.String:
		if _, ok := v.(string); ok {
			return v
		}
		b.reportMismatch(ptr, "a string", v)
	case reflect.Bool:
		if _, ok := v.(bool); ok {
			return v
		}
		b.reportMismatch(ptr, "true or false", v)
	case reflect.Int, reflect.Float64:
		return b.fitNumber(v, t, ptr)
	}
	return nil
}

func (b binder) fitNumber(v any, t reflect.Type, ptr string) any {
	n, ok := v.(json.Number)
	if !ok {
		b.reportMismatch(ptr, "a number", v)
		return nil
	}
	if t.Kind() == reflect.Int {
		f, err := n.Float64() // 1e3 and 1000.0 are 1000
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<31 {
			b.AddError("type_mismatch", ptr, "round it, or leave it out", "this is a whole number below 2^31, not %s", n)
			return nil
		}
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	if f, err := n.Float64(); err != nil || math.IsInf(f, 0) {
		return nil // reported when it was read
	}
	return n
}

func (b binder) reportMismatch(ptr, want string, got any) {
	b.AddError("type_mismatch", ptr, finding.Examples[want], "this is %s; %s is wanted", expr.TypeName(got), want)
}

func (b binder) fitStruct(object map[string]any, t reflect.Type, ptr string) any {
	if t == nodeType && b.foreignOp(object, ptr) {
		return map[string]any{"id": b.bindValue(object["id"], reflect.TypeFor[string](), ptr+"/id"), "op": object["op"]}
	}
	b.scope.Element = b.scope.Element || t == bodyType
	if t == validatorType {
		b.scope = expr.CondScope{Output: true, Closed: true}
	}
	fields := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = field.Type
	}
	out := make(map[string]any, len(object))
	for _, k := range slices.Sorted(maps.Keys(object)) {
		at := ptr + "/" + finding.EscapePointer(k)
		field, ok := fields[k]
		switch {
		case ok:
			b := b
			b.scope.Element = b.scope.Element || t == nodeType && (k == "until" || k == "while") // of a LOOP
			if v := b.bindValue(object[k], field, at); v != nil || field == rawType {
				out[k] = v
			}
		case expr.OpenMember(k):
		default:
			b.AddError("field_unknown", at, cmp.Or(finding.Near(k, slices.Sorted(maps.Keys(fields))), "remove it"), "unknown member %q; extensions must be called meta or x-…", k)
		}
	}
	return out
}

// foreignOp reports an op that the format does not know; the members of such a node are not looked at.
func (b binder) foreignOp(object map[string]any, ptr string) bool {
	op, ok := object["op"].(string)
	if !ok || slices.Contains(Ops(), Op(op)) {
		return false
	}
	b.AddError("op_unknown", ptr+"/op", finding.Near(op, OpNames(Ops())), "there is no op %q", op)
	return true
}
