package adapter

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

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
	case reflect.Pointer:
		if string(raw) != "null" {
			return findMisfits(t.Elem(), raw, at)
		}
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
