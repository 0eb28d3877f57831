package ir

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// roots are the namespaces that a reference may start with. $trigger is another name of $in.
var roots = map[string]bool{
	"$vars": true, "$tmp": true, "$ctx": true, "$in": true, "$trigger": true, "$out": true, "$item": true, "$index": true, "$err": true,
}

// segment is one step of a reference: a member name, an index (negative counts from the end), or [*].
type segment struct {
	name  string
	index int
	kind  segmentKind
}

type segmentKind uint8

const (
	segName segmentKind = iota
	segIndex
	segAll
)

// ref is a parsed reference, a subset of RFC 9535: no filters, no slices, no "..".
type ref struct {
	root string
	segs []segment
}

const maxSegments = 64

var (
	rootPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$[a-z]+`) })
	segPattern  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\['\\])*)'\]|\[(-?[0-9]{1,9})\]|\[(\*)\])`)
	})
	escape   = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	unescape = strings.NewReplacer(`\'`, `'`, `\\`, `\`)
)

// parseRef reads a whole string as a reference.
func parseRef(text string) (ref, error) {
	root := rootPattern().FindString(text)
	if !roots[root] {
		return ref{}, fmt.Errorf("%q does not start with one of $vars, $tmp, $ctx, $in, $err", text)
	}
	r := ref{root: root}
	for rest := text[len(root):]; rest != ""; {
		m := segPattern().FindStringSubmatch(rest)
		if m == nil {
			return ref{}, fmt.Errorf("%q is not a reference: unexpected %q", text, rest)
		}
		switch {
		case m[4] != "":
			r.segs = append(r.segs, segment{kind: segAll})
		case m[3] != "":
			i, err := strconv.Atoi(m[3])
			if err != nil {
				return ref{}, fmt.Errorf("%q has a bad index: %w", text, err)
			}
			r.segs = append(r.segs, segment{kind: segIndex, index: i})
		case m[1] != "":
			r.segs = append(r.segs, segment{name: m[1]})
		default:
			r.segs = append(r.segs, segment{name: unescape.Replace(m[2])})
		}
		if len(r.segs) > maxSegments {
			return ref{}, fmt.Errorf("the reference has more than %d segments", maxSegments)
		}
		rest = rest[len(m[0]):]
	}
	return r, nil
}

// looksLikeRef reports whether a string is meant as a reference: "$" and a letter. "$5" and "$" are plain text.
func looksLikeRef(s string) bool {
	return len(s) > 1 && s[0] == '$' && (s[1] >= 'a' && s[1] <= 'z' || s[1] >= 'A' && s[1] <= 'Z')
}

// memberNames returns the leading member names of r, the part of it that static analysis can follow.
func (r ref) memberNames() []string {
	var out []string
	for _, s := range r.segs {
		if s.kind != segName {
			break
		}
		out = append(out, s.name)
	}
	return out
}

func (r ref) String() string {
	var b strings.Builder
	b.WriteString(r.root)
	for _, s := range r.segs {
		b.WriteString(s.String())
	}
	return b.String()
}

func (s segment) String() string {
	switch {
	case s.kind == segAll:
		return "[*]"
	case s.kind == segIndex:
		return "[" + strconv.Itoa(s.index) + "]"
	case segPattern().FindString("."+s.name) == "."+s.name:
		return "." + s.name
	}
	return "['" + escape.Replace(s.name) + "']"
}

// rootValue returns the value of a namespace and whether it is there at all.
func (s Scope) rootValue(name string) (any, bool) {
	var v any
	switch name {
	case "$vars":
		v = s.Vars
	case "$tmp":
		v = s.Tmp
	case "$ctx":
		v = s.Ctx
	case "$in", "$trigger":
		v = s.In
	case "$out":
		v = s.Out
	case "$err":
		v = s.Err
	case "$item":
		if s.element == nil {
			return nil, false
		}
		return s.element.value, true
	case "$index":
		if s.element == nil {
			return nil, false
		}
		return json.Number(strconv.Itoa(s.element.index)), true
	}
	return v, v != nil
}

// element holds the values of $item and $index inside any, all and the body of a MAP.
type element struct {
	value any
	index int
}

// resolve looks r up. With [*] the result is a list; without it a missing member is ref_unresolved, never null.
func (r ref) resolve(s Scope) (any, *Failure) {
	v, ok := s.rootValue(r.root)
	if !ok {
		return nil, failf(FailRef, "%s: %s has no value here", r, r.root)
	}
	return r.walkSegments(v, 0)
}

func (r ref) walkSegments(v any, from int) (any, *Failure) {
	for i := from; i < len(r.segs); i++ {
		seg := r.segs[i]
		switch seg.kind {
		case segName:
			object, _ := v.(map[string]any)
			member, ok := object[seg.name]
			if !ok {
				return nil, failf(FailRef, "%s: there is no member %q", r, seg.name)
			}
			v = member
		case segIndex:
			list, _ := v.([]any)
			at := seg.index
			if at < 0 {
				at += len(list)
			}
			if at < 0 || at >= len(list) {
				return nil, failf(FailRef, "%s: there is no element %d", r, seg.index)
			}
			v = list[at]
		case segAll:
			return r.walkElements(v, i)
		}
	}
	return v, nil
}

// walkElements applies the segments behind the [*] at position i to every element and keeps those that resolve. A nested [*]
// flattens, as a node list of RFC 9535 does.
func (r ref) walkElements(v any, i int) (any, *Failure) {
	list, ok := v.([]any)
	if !ok {
		return nil, failf(FailStateType, "%s: [*] needs an array but found %s", r, typeName(v))
	}
	nested := false
	for _, s := range r.segs[i+1:] {
		nested = nested || s.kind == segAll
	}
	out := []any{}
	for _, item := range list {
		got, f := r.walkSegments(item, i+1)
		switch {
		case f != nil && f.Kind == FailRef:
		case f != nil:
			return nil, f
		case nested:
			out = append(out, got.([]any)...)
		default:
			out = append(out, got)
		}
	}
	return out, nil
}

// Assign writes v at path ("$vars.a.b" or "$tmp.a"). Missing parents are created as objects; writing through
// something else is state_type_error. Only the top level of vars and tmp is changed in place: objects below are copied
// before they are written, so a caller that clones the two top maps keeps its former state untouched.
func Assign(path string, vars, tmp map[string]any, v any) *Failure {
	r, err := parseTarget(path)
	if err != nil {
		return failf(FailStateType, "%v", err)
	}
	object := vars
	if r.root == "$tmp" {
		object = tmp
	}
	if object == nil {
		return failf(FailStateType, "write %s: there is no %s", path, r.root)
	}
	last := len(r.segs) - 1
	// Look before writing: a refused write must leave nothing behind.
	probe := object
	for _, seg := range r.segs[:last] {
		member, ok := probe[seg.name]
		if !ok {
			break
		}
		if probe, ok = member.(map[string]any); !ok {
			return failf(FailStateType, "write %s: %q is %s, not an object", path, seg.name, typeName(member))
		}
	}
	for _, seg := range r.segs[:last] {
		old, _ := object[seg.name].(map[string]any)
		fresh := make(map[string]any, len(old)+1)
		for k, m := range old {
			fresh[k] = m
		}
		object[seg.name] = fresh
		object = fresh
	}
	object[r.segs[last].name] = v
	return nil
}

// parseTarget reads the path of a write: $vars or $tmp and at least one member name, nothing else.
func parseTarget(path string) (ref, error) {
	r, err := parseRef(path)
	if err != nil {
		return ref{}, err
	}
	if r.root != "$vars" && r.root != "$tmp" {
		return ref{}, fmt.Errorf("%s is read-only; outputs are written to $vars.… or $tmp.…", r.root)
	}
	if len(r.segs) == 0 || len(r.memberNames()) != len(r.segs) {
		return ref{}, fmt.Errorf("%q cannot be written; a target is %s and member names", path, r.root)
	}
	return r, nil
}
