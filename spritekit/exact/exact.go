// Package exact finds members of JSON objects that two readers of one text may understand differently: those whose names differ only
// by case from those of a Go type, which package encoding/json takes for those members, and those that an object has twice, of which it
// takes the last. Start with Unknown and Duplicates.
package exact

import (
	"bytes"
	"encoding/json"
	"errors"
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
			return "/" + escapePointer(name) + at
		}
	}
	return ""
}

// escapePointer escapes the name of a member for a JSON pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// Duplicates lists the JSON pointers of duplicate members in a JSON text, in the order of the text; long pointers are cut. If the text is
// malformed, or nests deeper than 1000 levels, it lists those before the error.
func Duplicates(text []byte) []string {
	f := finder{Decoder: json.NewDecoder(bytes.NewReader(text))}
	f.UseNumber()
	_ = f.readValue() // the caller reports malformed JSON
	return f.found
}

// finder finds duplicate members.
type finder struct {
	*json.Decoder
	path  []string // names of members and indexes of elements that lead to the value which is read
	found []string
}

const (
	maxDepth   = 1000 // how deep Duplicates looks
	maxPointer = 256  // bytes of a pointer: a text of long names has many duplicates below them
)

var errTooDeep = errors.New("the text nests too deep")

// readValue reads the value at path.
func (f *finder) readValue() error {
	token, err := f.Token()
	delim, ok := token.(json.Delim)
	switch {
	case err != nil || !ok:
		return err
	case len(f.path) >= maxDepth:
		return errTooDeep
	}
	seen := map[string]bool{}
	last := len(f.path)
	f.path = append(f.path, "")
	for i := 0; f.More(); i++ {
		if f.path[last] = strconv.Itoa(i); delim == '{' {
			key, err := f.Token()
			if err != nil {
				return err
			}
			name := key.(string) // encoding/json allows no other type
			if f.path[last] = name; seen[name] {
				f.found = append(f.found, f.pointer())
			}
			seen[name] = true
		}
		if err := f.readValue(); err != nil {
			return err
		}
	}
	f.path = f.path[:last]
	_, err = f.Token() // the closing delimiter
	return err
}

// pointer returns the JSON pointer of path.
func (f *finder) pointer() string {
	var b strings.Builder
	for _, name := range f.path {
		if b.Len() > maxPointer {
			break
		}
		b.WriteString("/" + escapePointer(name[:min(len(name), maxPointer)]))
	}
	p := b.String()
	if len(p) <= maxPointer {
		return p
	}
	return strings.ToValidUTF8(p[:maxPointer], "") + "…"
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
