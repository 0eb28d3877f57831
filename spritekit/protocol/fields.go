package protocol

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// report collects the rules that an event breaks.
type report struct{ problems []Problem }

func (r *report) add(pointer, message string) {
	switch {
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, Problem{pointer, message})
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, Problem{"", "there are more problems than are listed here"})
	}
}

// fields reads the members of one object against rules and reports what is broken. null counts as absent, and of a
// member given twice the last one counts.
type fields struct {
	at        string // JSON pointer of the object
	members   []member
	report    *report
	rulesOnly bool // nobody wants the texts: str leaves them undecoded
}

const (
	optional = false
	required = true
)

func newFields(at string, object []byte, into []member, r *report) fields {
	f := fields{at, members(object, into), r, false}
	f.reportTwins()
	return f
}

// reportTwins finds members that are given twice: two readers could disagree about what such an object says.
func (f fields) reportTwins() {
	const few = 16
	if len(f.members) <= few {
		for i := range f.members {
			for j := range i {
				if f.members[i].name == f.members[j].name {
					f.bad(f.members[i].name, twice)
					break
				}
			}
		}
		return
	}
	seen := make(map[string]bool, len(f.members))
	for _, m := range f.members {
		if seen[m.name] {
			f.bad(m.name, twice)
		}
		seen[m.name] = true
	}
}

const twice = "is given twice; the last one counts"

func (f fields) bad(name, message string) { f.report.add(f.at+pointer(name), message) }

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is the JSON pointer step to a member.
func pointer(name string) string {
	if strings.ContainsAny(name, "~/") {
		name = pointerEscape.Replace(name)
	}
	return "/" + name
}

// get is the text of a member, nil when it is absent. need makes absence a problem.
func (f fields) get(name string, need bool) json.RawMessage {
	for i := len(f.members) - 1; i >= 0; i-- {
		if f.members[i].name == name {
			if isNull(f.members[i].value) {
				break
			}
			return f.members[i].value
		}
	}
	if need {
		f.bad(name, "is required")
	}
	return nil
}

func (f fields) str(name string, need bool) string {
	v := f.text(name, need)
	if v == nil || f.rulesOnly {
		return ""
	}
	return unquote(v)
}

// text is a string as it stands in the text, with its quotes; nil when there is none.
func (f fields) text(name string, need bool) json.RawMessage {
	v := f.get(name, need)
	if v != nil && !isString(v) {
		f.bad(name, "must be a string")
		return nil
	}
	return v
}

// oneOf is a required string out of a closed list.
func (f fields) oneOf(name string, allowed ...string) string {
	v := f.get(name, required)
	if v == nil {
		return ""
	}
	if isString(v) {
		for _, a := range allowed {
			if isQuoted(v, a) || unquote(v) == a {
				return a
			}
		}
	}
	f.bad(name, "must be one of "+strings.Join(allowed, ", "))
	return ""
}

func (f fields) boolean(name string, need bool) bool {
	v := f.get(name, need)
	if v != nil && v[0] != 't' && v[0] != 'f' {
		f.bad(name, "must be true or false")
	}
	return v != nil && v[0] == 't'
}

func (f fields) object(name string, need bool) json.RawMessage {
	v := f.get(name, need)
	if v != nil && !isObject(v) {
		f.bad(name, "must be an object")
		return nil
	}
	return v
}

// inner reads the members of a required object member; without one they are all absent and reported as such once.
func (f fields) inner(name string) (fields, bool) {
	v := f.object(name, required)
	if v == nil {
		return fields{}, false
	}
	return newFields(f.at+pointer(name), v, nil, f.report), true
}

func (f fields) integer(name string, need bool) int {
	v := f.get(name, need)
	if v == nil {
		return 0
	}
	if n, err := strconv.ParseInt(string(v), 10, 32); err == nil {
		return int(n)
	}
	// 127.0 and 1e2 are integers too.
	if x, err := strconv.ParseFloat(string(v), 64); err == nil && x == math.Trunc(x) && math.Abs(x) <= math.MaxInt32 {
		return int(x)
	}
	f.bad(name, "must be an integer of at most 32 bits")
	return 0
}

// fraction is a required number from 0 to 1.
func (f fields) fraction(name string) float64 {
	v := f.get(name, required)
	if v == nil {
		return 0
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || x < 0 || x > 1 {
		f.bad(name, "must be a number from 0.0 to 1.0")
		return 0
	}
	return x
}

// texts is a required list of strings.
func (f fields) texts(name string) []string {
	v := f.get(name, required)
	if v == nil {
		return nil
	}
	if v[0] != '[' {
		f.bad(name, "must be a list of strings")
		return nil
	}
	out := []string{}
	for i, e := range elements(v) {
		if !isString(e) {
			f.bad(name, "must be a list of strings, but element "+strconv.Itoa(i)+" is none")
			return nil
		}
		out = append(out, unquote(e))
	}
	return out
}
