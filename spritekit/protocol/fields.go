package protocol

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// report collects the rules that an event breaks.
type report struct{ problems []Problem }

func (r *report) addProblem(pointer, message string) {
	switch {
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, Problem{pointer, message})
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, Problem{"", "there are more problems than are listed here"})
	}
}

// fields reads the members of one object and reports the rules that they break. null counts as absent, and of duplicate
// keys the last one counts.
type fields struct {
	at        string // JSON pointer of the object
	members   []member
	report    *report
	rulesOnly bool // str does not decode strings
}

const (
	optional = false
	required = true
)

func newFields(at string, object []byte, r *report) fields {
	f := fields{at, splitObject(object, nil), r, false}
	f.reportTwins()
	return f
}

// reportTwins reports duplicate keys: two readers could disagree about the meaning of such an object.
func (f fields) reportTwins() {
	const few = 16
	if len(f.members) <= few {
		for i := range f.members {
			for j := range i {
				if f.members[i].name == f.members[j].name {
					f.addProblem(f.members[i].name, twice)
					break
				}
			}
		}
		return
	}
	seen := make(map[string]bool, len(f.members))
	for _, m := range f.members {
		if seen[m.name] {
			f.addProblem(m.name, twice)
		}
		seen[m.name] = true
	}
}

const twice = "is given twice; the last one counts"

func (f fields) addProblem(name, message string) {
	f.report.addProblem(f.at+memberPointer(name), message)
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// memberPointer returns the last step of the JSON pointer to a member.
func memberPointer(name string) string {
	if strings.ContainsAny(name, "~/") {
		name = pointerEscape.Replace(name)
	}
	return "/" + name
}

// getMember returns the text of a member, nil if it is absent. need makes absence a problem.
func (f fields) getMember(name string, need bool) json.RawMessage {
	for i := len(f.members) - 1; i >= 0; i-- {
		if f.members[i].name == name {
			if isNull(f.members[i].value) {
				break
			}
			return f.members[i].value
		}
	}
	if need {
		f.addProblem(name, "is required")
	}
	return nil
}

func (f fields) getString(name string, need bool) string {
	v := f.quotedString(name, need)
	if v == nil || f.rulesOnly {
		return ""
	}
	return quote.Decode(v)
}

// quotedString returns a string member with its quotes and escapes, nil if it is absent or not a string.
func (f fields) quotedString(name string, need bool) json.RawMessage {
	v := f.getMember(name, need)
	if v != nil && !isString(v) {
		f.addProblem(name, "must be a string")
		return nil
	}
	return v
}

// oneOf returns a required string, which must be one of allowed.
func (f fields) oneOf(name string, allowed ...string) string {
	v := f.getMember(name, required)
	if v == nil {
		return ""
	}
	if isString(v) {
		for _, a := range allowed {
			if isQuoted(v, a) || quote.Decode(v) == a {
				return a
			}
		}
	}
	f.addProblem(name, "must be one of "+strings.Join(allowed, ", "))
	return ""
}

func (f fields) getBool(name string, need bool) bool {
	v := f.getMember(name, need)
	if v != nil && v[0] != 't' && v[0] != 'f' {
		f.addProblem(name, "must be true or false")
	}
	return v != nil && v[0] == 't'
}

func (f fields) getObject(name string, need bool) json.RawMessage {
	v := f.getMember(name, need)
	if v != nil && !isObject(v) {
		f.addProblem(name, "must be an object")
		return nil
	}
	return v
}

// objectFields returns the members of a required object. If the object is absent that is reported once.
func (f fields) objectFields(name string) (fields, bool) {
	v := f.getObject(name, required)
	if v == nil {
		return fields{}, false
	}
	return newFields(f.at+memberPointer(name), v, f.report), true
}

func (f fields) getInt(name string, need bool) int {
	v := f.getMember(name, need)
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
	f.addProblem(name, "must be an integer of at most 32 bits")
	return 0
}

// getFraction returns a required number from 0 to 1.
func (f fields) getFraction(name string) float64 {
	v := f.getMember(name, required)
	if v == nil {
		return 0
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || x < 0 || x > 1 {
		f.addProblem(name, "must be a number from 0.0 to 1.0")
		return 0
	}
	return x
}

// stringList returns a required array of strings.
func (f fields) stringList(name string) []string {
	v := f.getMember(name, required)
	if v == nil {
		return nil
	}
	if v[0] != '[' {
		f.addProblem(name, "must be a list of strings")
		return nil
	}
	out := []string{}
	for i, e := range splitArray(v) {
		if !isString(e) {
			f.addProblem(name, "must be a list of strings, but element "+strconv.Itoa(i)+" is none")
			return nil
		}
		out = append(out, quote.Decode(e))
	}
	return out
}
