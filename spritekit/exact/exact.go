// Package exact finds members of JSON objects whose names differ only by case from those of a Go type. Package encoding/json takes
// them for those members, so that two readers of one text would disagree. Start with Unknown.
package exact

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Unknown returns the JSON pointer of a member that the type t does not have under exactly its name, "" if there is none. A field
// without a name in its tag takes any case. The text has been decoded into a value of t. Types that decode themselves check their own
// members.
func Unknown(text []byte, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isPlain(t) {
		return ""
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		var items []json.RawMessage
		_ = json.Unmarshal(text, &items) // null has none
		for i, item := range items {
			if at := Unknown(item, t.Elem()); at != "" {
				return "/" + strconv.Itoa(i) + at
			}
		}
		return ""
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(text, &members)
	memberOf := func(string) (reflect.Type, bool) { return t.Elem(), true }
	if t.Kind() == reflect.Struct {
		memberOf = membersOf(t)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, ok := memberOf(name)
		at := ""
		if ok {
			at = Unknown(members[name], member)
		}
		if !ok || at != "" {
			return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name) + at
		}
	}
	return ""
}

// isPlain reports whether no value of a type has members with names of its own.
func isPlain(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem() == t || isPlain(t.Elem()) // such as type tree map[string]tree
	}
	return t.Kind() != reflect.Struct
}

// membersOf returns a function that finds the type of a member of a struct by its name.
func membersOf(t reflect.Type) func(name string) (reflect.Type, bool) {
	named, unnamed := map[string]reflect.Type{}, map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			named[name] = f.Type
		} else {
			unnamed[strings.ToLower(f.Name)] = f.Type
		}
	}
	return func(name string) (reflect.Type, bool) {
		member, ok := named[name]
		if !ok {
			member, ok = unnamed[strings.ToLower(name)]
		}
		return member, ok
	}
}
