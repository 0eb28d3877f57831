package expr

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/text"
)

// refOptions are the members that an object may have in addition to "ref".
var refOptions = map[string]bool{
	"default": true, "pick": true, "pick_required": true, "omit": true, "truncate_items": true, "from": true, "truncate_chars": true, "max_bytes": true,
}

// evalRef resolves {"ref": …} and applies its options: default, pick, omit, truncate_items, truncate_chars, max_bytes.
func evalRef(v map[string]any, s Scope, depth int) (any, *Failure) {
	got, f := EvalString(v["ref"].(string), s)
	if fallback, ok := v["default"]; ok && f != nil && f.Kind == FailRef {
		got, f = EvalValue(fallback, s, depth+1)
	}
	if f != nil {
		return nil, f
	}
	if n, ok := lengthOf(got); ok && (v["pick"] != nil || v["omit"] != nil) {
		s.countVisits(n)
	}
	if pick, ok := StringList(v["pick"]); ok {
		required, _ := v["pick_required"].(bool)
		if got, f = projectMembers(got, pick, required); f != nil {
			return nil, f
		}
	}
	if omit, ok := StringList(v["omit"]); ok {
		if got, f = omitMembers(got, omit); f != nil {
			return nil, f
		}
	}
	if n, ok := wholeNumber(v["truncate_items"]); ok {
		list, isList := got.([]any)
		if !isList {
			return nil, Failf(FailStateType, "truncate_items needs an array but found %s", TypeName(got))
		}
		if len(list) > n && v["from"] == "tail" {
			got = list[len(list)-n:]
		} else if len(list) > n {
			got = list[:n]
		}
	}
	if n, ok := wholeNumber(v["truncate_chars"]); ok {
		got = truncateStrings(got, n, s)
	}
	if n, ok := wholeNumber(v["max_bytes"]); ok {
		text, err := Marshal(got)
		s.countVisits(len(text))
		if err != nil || len(text) > n {
			return nil, Failf(FailLimit, "%v is larger than max_bytes %d", v["ref"], n)
		}
	}
	return got, nil
}

// Project keeps the picked members of an object, or of every object in an array; dotted paths reach inside. An empty
// list keeps the value whole. Missing members are left out.
func Project(v any, pick []string) (any, *Failure) { return projectMembers(v, pick, false) }

func projectMembers(v any, pick []string, required bool) (any, *Failure) {
	if len(pick) == 0 {
		return v, nil
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var f *Failure
			if out[i], f = projectMembers(v[i], pick, required); f != nil {
				return nil, f
			}
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for i, path := range pick {
			if slices.ContainsFunc(pick[:i], func(p string) bool { return strings.HasPrefix(path, p+".") }) {
				continue // already there with its parent, whose object is the state's own and must not be written
			}
			if !copyPath(v, out, strings.Split(path, ".")) && required {
				return nil, Failf(FailRef, "pick: there is no member %q", path)
			}
		}
		return out, nil
	}
	return nil, Failf(FailStateType, "pick needs an object or an array but found %s", TypeName(v))
}

// copyPath copies the member at path from one object to the other and reports whether it was there.
func copyPath(from, to map[string]any, path []string) bool {
	member, ok := from[path[0]]
	if !ok || len(path) == 1 {
		if ok {
			to[path[0]] = member
		}
		return ok
	}
	inner, ok := member.(map[string]any)
	if !ok {
		return false
	}
	child, ok := to[path[0]].(map[string]any)
	if !ok {
		child = map[string]any{}
	}
	if !copyPath(inner, child, path[1:]) {
		return false
	}
	to[path[0]] = child
	return true
}

// omitMembers drops members of an object, or of every object in an array.
func omitMembers(v any, omit []string) (any, *Failure) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var f *Failure
			if out[i], f = omitMembers(v[i], omit); f != nil {
				return nil, f
			}
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for k, m := range v {
			if !slices.Contains(omit, k) {
				out[k] = m
			}
		}
		return out, nil
	}
	return nil, Failf(FailStateType, "omit needs an object or an array but found %s", TypeName(v))
}

// truncateStrings cuts every string in v to n Unicode scalar values, the closing "…" included.
func truncateStrings(v any, n int, s Scope) any {
	s.countVisits(1)
	switch v := v.(type) {
	case string:
		return text.HeadRunes(v, n)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = truncateStrings(v[i], n, s)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = truncateStrings(v[k], n, s)
		}
		return out
	}
	return v
}

// StringList reads a list of strings; anything else is absent here and a finding of Parse.
func StringList(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(list))
	for i := range list {
		if out[i], ok = list[i].(string); !ok {
			return nil, false
		}
	}
	return out, true
}

// wholeNumber reads a whole number that is not negative.
func wholeNumber(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(n.String())
	return i, err == nil && i >= 0
}
