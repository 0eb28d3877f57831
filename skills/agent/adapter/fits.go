package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Check returns the problems of an adapter that a user wrote. name is the name of its file without .json and must be that of
// the adapter, unless it is empty.
func Check(name string, raw []byte) []protocol.Problem {
	_, problems := readAdapter(raw, name)
	return problems
}

// Type returns the type of adapters, from which their schema is generated.
func Type() reflect.Type { return reflect.TypeFor[Adapter]() }

// readAdapter decodes an adapter and returns it with its problems; unknown members are problems.
func readAdapter(raw []byte, name string) (a Adapter, problems []protocol.Problem) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		var any json.RawMessage
		return a, []protocol.Problem{{Message: fmt.Sprintf("is not JSON: %v", json.Unmarshal(raw, &any))}}
	}
	if problems = findMisfits(Type(), raw, ""); len(problems) > 0 {
		return a, problems
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, []protocol.Problem{{Message: err.Error()}}
	}
	if name != "" && a.Name != name {
		return a, []protocol.Problem{{Pointer: "/name", Message: fmt.Sprintf("is %q, but the file is named after %q", a.Name, name)}}
	}
	return a, a.check()
}

// findMisfits compares a valid JSON value with a type and returns every unknown member and every value of another kind.
// encoding/json stops at the first one and does not return its place.
func findMisfits(t reflect.Type, raw json.RawMessage, at string) (problems []protocol.Problem) {
	if t == reflect.TypeFor[Part]() && raw[0] == '"' || t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface {
		return nil
	}
	one := func(want string) []protocol.Problem {
		return []protocol.Problem{{Pointer: at, Message: "is not " + want}}
	}
	switch t.Kind() {
	case reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil || members == nil {
			return one("an object")
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			field, ok := memberOf(t, name)
			if !ok {
				problems = append(problems, protocol.Problem{Pointer: at + pointerStep(name), Message: "is not known"})
				continue
			}
			problems = append(problems, findMisfits(field, members[name], at+pointerStep(name))...)
		}
	case reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return one("an object")
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			problems = append(problems, findMisfits(t.Elem(), members[name], at+pointerStep(name))...)
		}
	case reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return one("an array")
		}
		for i, e := range elements {
			problems = append(problems, findMisfits(t.Elem(), e, at+"/"+strconv.Itoa(i))...)
		}
	default:
		if json.Unmarshal(raw, reflect.New(t).Interface()) == nil {
			return nil
		}
		switch t.Kind() {
		case reflect.String:
			return one("a string")
		case reflect.Bool:
			return one("true or false")
		}
		return one("a number")
	}
	return problems
}

// memberOf returns the type of the member with exactly this name; encoding/json ignores the case of letters.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for field := range t.Fields() {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return field.Type, true
		}
	}
	return nil, false
}

// pointerStep returns the step of a JSON pointer to a member.
func pointerStep(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
