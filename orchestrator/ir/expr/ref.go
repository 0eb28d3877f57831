package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Scope holds the values of the namespaces. Numbers are json.Number throughout. A nil namespace is absent.
type Scope struct {
	Vars, Tmp, Ctx, In, Out, Err any

	element *element // of the innermost any, all or MAP
	visited *int     // counts what a condition visits; nil outside of one
}

// countVisits counts values, or bytes of text, that an expression visits.
func (s Scope) countVisits(n int) {
	if s.visited != nil {
		*s.visited += n
	}
}

// WithItem is s inside of a MAP's iteration.
func (s Scope) WithItem(item any, index int) Scope {
	s.element = &element{value: item, index: index}
	return s
}

// roots are the namespaces that a reference may start with. $trigger is another name of $in.
var roots = map[string]bool{
	"$vars": true, "$tmp": true, "$ctx": true, "$in": true, "$trigger": true, "$out": true, "$item": true, "$index": true, "$err": true,
}

// Segment is one step of a reference: a member name, an index (negative counts from the end), or [*].
type Segment struct {
	Name  string
	index int
	Kind  segmentKind
}

type segmentKind uint8

const (
	SegName segmentKind = iota
	segIndex
	SegAll
)

// Ref is a parsed reference, a subset of RFC 9535: no filters, no slices, no "..".
type Ref struct {
	Root string
	Segs []Segment
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

// ParseRef reads a whole string as a reference.
func ParseRef(text string) (Ref, error) {
	root := rootPattern().FindString(text)
	if !roots[root] {
		return Ref{}, fmt.Errorf("%q does not start with one of $vars, $tmp, $ctx, $in, $err", text)
	}
	r := Ref{Root: root}
	for rest := text[len(root):]; rest != ""; {
		m := segPattern().FindStringSubmatch(rest)
		if m == nil {
			return Ref{}, fmt.Errorf("%q is not a reference: unexpected %q", text, rest)
		}
		switch {
		case m[4] != "":
			r.Segs = append(r.Segs, Segment{Kind: SegAll})
		case m[3] != "":
			i, err := strconv.Atoi(m[3])
			if err != nil {
				return Ref{}, fmt.Errorf("%q has a bad index: %w", text, err)
			}
			r.Segs = append(r.Segs, Segment{Kind: segIndex, index: i})
		case m[1] != "":
			r.Segs = append(r.Segs, Segment{Name: m[1]})
		default:
			r.Segs = append(r.Segs, Segment{Name: unescape.Replace(m[2])})
		}
		if len(r.Segs) > maxSegments {
			return Ref{}, fmt.Errorf("the reference has more than %d segments", maxSegments)
		}
		rest = rest[len(m[0]):]
	}
	return r, nil
}

// LooksLikeRef reports whether a string is meant as a reference: "$" and a letter. "$5" and "$" are plain text.
func LooksLikeRef(s string) bool {
	return len(s) > 1 && s[0] == '$' && (s[1] >= 'a' && s[1] <= 'z' || s[1] >= 'A' && s[1] <= 'Z')
}

// MemberNames returns the leading member names of r, the part of it that static analysis can follow.
func (r Ref) MemberNames() []string {
	var out []string
	for _, s := range r.Segs {
		if s.Kind != SegName {
			break
		}
		out = append(out, s.Name)
	}
	return out
}

func (r Ref) String() string {
	var b strings.Builder
	b.WriteString(r.Root)
	for _, s := range r.Segs {
		b.WriteString(s.String())
	}
	return b.String()
}

func (s Segment) String() string {
	switch {
	case s.Kind == SegAll:
		return "[*]"
	case s.Kind == segIndex:
		return "[" + strconv.Itoa(s.index) + "]"
	case segPattern().FindString("."+s.Name) == "."+s.Name:
		return "." + s.Name
	}
	return "['" + escape.Replace(s.Name) + "']"
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
func (r Ref) resolve(s Scope) (any, *Failure) {
	v, ok := s.rootValue(r.Root)
	if !ok {
		return nil, Failf(FailRef, "%s: %s has no value here", r, r.Root)
	}
	return r.walkSegments(v, 0, s)
}

func (r Ref) walkSegments(v any, from int, s Scope) (any, *Failure) {
	for i := from; i < len(r.Segs); i++ {
		seg := r.Segs[i]
		switch seg.Kind {
		case SegName:
			object, _ := v.(map[string]any)
			member, ok := object[seg.Name]
			if !ok {
				return nil, Failf(FailRef, "%s: there is no member %q", r, seg.Name)
			}
			v = member
		case segIndex:
			list, _ := v.([]any)
			at := seg.index
			if at < 0 {
				at += len(list)
			}
			if at < 0 || at >= len(list) {
				return nil, Failf(FailRef, "%s: there is no element %d", r, seg.index)
			}
			v = list[at]
		case SegAll:
			return r.walkElements(v, i, s)
		}
	}
	return v, nil
}

// walkElements applies the segments behind the [*] at position i to every element and keeps those that resolve. A nested [*]
// flattens, as a node list of RFC 9535 does.
func (r Ref) walkElements(v any, i int, s Scope) (any, *Failure) {
	list, ok := v.([]any)
	if !ok {
		return nil, Failf(FailStateType, "%s: [*] needs an array but found %s", r, TypeName(v))
	}
	s.countVisits(len(list))
	nested := false
	for _, seg := range r.Segs[i+1:] {
		nested = nested || seg.Kind == SegAll
	}
	out := []any{}
	for _, item := range list {
		got, f := r.walkSegments(item, i+1, s)
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
	r, err := ParseTarget(path)
	if err != nil {
		return Failf(FailStateType, "%v", err)
	}
	object := vars
	if r.Root == "$tmp" {
		object = tmp
	}
	if object == nil {
		return Failf(FailStateType, "write %s: there is no %s", path, r.Root)
	}
	last := len(r.Segs) - 1
	// Look before writing: a refused write must leave nothing behind.
	probe := object
	for _, seg := range r.Segs[:last] {
		member, ok := probe[seg.Name]
		if !ok {
			break
		}
		if probe, ok = member.(map[string]any); !ok {
			return Failf(FailStateType, "write %s: %q is %s, not an object", path, seg.Name, TypeName(member))
		}
	}
	for _, seg := range r.Segs[:last] {
		old, _ := object[seg.Name].(map[string]any)
		fresh := make(map[string]any, len(old)+1)
		maps.Copy(fresh, old)
		object[seg.Name] = fresh
		object = fresh
	}
	object[r.Segs[last].Name] = v
	return nil
}

// ParseTarget reads the path of a write: $vars or $tmp and at least one member name, nothing else.
func ParseTarget(path string) (Ref, error) {
	r, err := ParseRef(path)
	if err != nil {
		return Ref{}, err
	}
	if r.Root != "$vars" && r.Root != "$tmp" {
		return Ref{}, fmt.Errorf("%s is read-only; outputs are written to $vars.… or $tmp.…", r.Root)
	}
	if len(r.Segs) == 0 || len(r.MemberNames()) != len(r.Segs) {
		return Ref{}, fmt.Errorf("%q cannot be written; a target is %s and member names", path, r.Root)
	}
	return r, nil
}

// SplitRef reads a string that is a reference as a whole: its namespace ("$vars") and the member names that follow.
// exact is false when an index or [*] comes behind them. ok is false for any other text.
func SplitRef(text string) (root string, names []string, exact, ok bool) {
	r, err := ParseRef(text)
	if err != nil {
		return "", nil, false, false
	}
	names = r.MemberNames()
	return r.Root, names, len(names) == len(r.Segs), true
}

// RefAt returns the reference at the start of text, "" if there is none.
func RefAt(text string) string {
	end := len(rootPattern().FindString(text))
	for end > 0 {
		n := len(segPattern().FindString(text[end:]))
		if n == 0 {
			break
		}
		end += n
	}
	return text[:end]
}

// CondOps lists the ops of conditions, sorted.
func CondOps() []string { return slices.Sorted(maps.Keys(condFields)) }
