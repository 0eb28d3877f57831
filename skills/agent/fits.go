package agent

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

// CheckAdapter says all that is wrong with an adapter that users wrote. name is what its file is called, without .json;
// an empty one lets it be called anything.
func CheckAdapter(name string, raw []byte) []protocol.Problem {
	_, problems := readAdapter(raw, name)
	return problems
}

// AdapterType is the type of which adapters are made, for whoever describes it.
func AdapterType() reflect.Type { return reflect.TypeFor[adapter]() }

// readAdapter reads an adapter strictly.
func readAdapter(raw []byte, name string) (a adapter, problems []protocol.Problem) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		var any json.RawMessage
		return a, []protocol.Problem{{Message: fmt.Sprintf("is no JSON: %v", json.Unmarshal(raw, &any))}}
	}
	if problems = misfits(AdapterType(), raw, ""); len(problems) > 0 {
		return a, problems
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, []protocol.Problem{{Message: err.Error()}}
	}
	if name != "" && a.Name != name {
		return a, []protocol.Problem{{Pointer: "/name", Message: fmt.Sprintf("is %q, the file is that of %q", a.Name, name)}}
	}
	return a, a.check()
}

// misfits names every place where a JSON value, which is valid, cannot be of a type: members that nobody knows, and values
// of another kind. encoding/json would stop at the first, and not say where it is.
func misfits(t reflect.Type, raw json.RawMessage, at string) (problems []protocol.Problem) {
	if t == reflect.TypeFor[part]() && raw[0] == '"' || t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface {
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
				problems = append(problems, protocol.Problem{Pointer: at + step(name), Message: "is not known"})
				continue
			}
			problems = append(problems, misfits(field, members[name], at+step(name))...)
		}
	case reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return one("an object")
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			problems = append(problems, misfits(t.Elem(), members[name], at+step(name))...)
		}
	case reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return one("an array")
		}
		for i, e := range elements {
			problems = append(problems, misfits(t.Elem(), e, at+"/"+strconv.Itoa(i))...)
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

// memberOf is the type of the member of that very name; encoding/json would match it in any case.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

// step is a member's name in a JSON pointer.
func step(name string) string { return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
