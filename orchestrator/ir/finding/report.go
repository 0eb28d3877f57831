package finding

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/text"
)

// Severities of a Finding.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Report gathers findings.
type Report struct{ Findings []Finding }

func (r *Report) AddError(code, ptr, hint, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Code: code, Severity: SeverityError, Pointer: ptr, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *Report) AddWarning(code, ptr, hint, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Code: code, Severity: SeverityWarning, Pointer: ptr, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// SortedFindings returns the findings in document order of their pointers, each once.
func (r *Report) SortedFindings() []Finding {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(r.Findings)
}

// NameNodes sets Node of findings about a document, as far as their pointers lead into its nodes, steps and edges.
func NameNodes(data []byte, findings []Finding) []Finding {
	var doc any
	for i := range findings {
		if !strings.HasPrefix(findings[i].Pointer, "/") {
			continue
		}
		if doc == nil && json.Unmarshal(data, &doc) != nil {
			return findings
		}
		if id := nodeAt(doc, strings.Split(findings[i].Pointer[1:], "/")); id != "" {
			findings[i].Node = id
		}
	}
	return findings
}

// nodeAt returns the id of the innermost node or step on the way that the segments of a pointer lead, "" for none. It does
// not enter the arguments of nodes, which may have members of any name.
func nodeAt(v any, segments []string) (id string) {
	for i, segment := range segments {
		switch at := v.(type) {
		case map[string]any:
			if !slices.Contains([]string{"nodes", "steps", "edges", "body", "branches", "subgraphs", "document"}, segment) && (i == 0 || segments[i-1] != "subgraphs") {
				return id
			}
			v = at[PointerUnescaper.Replace(segment)]
		case []any:
			n, err := strconv.Atoi(segment)
			if err != nil || n < 0 || n >= len(at) {
				return id
			}
			v = at[n]
			object, _ := v.(map[string]any)
			name := "id"
			switch segments[i-1] {
			case "branches":
				continue
			case "edges":
				name = "from"
			}
			if own, ok := object[name].(string); ok {
				id = own
			}
		}
	}
	return id
}

// Examples holds a value of each type, as hints for one that is wanted.
var Examples = map[string]string{
	"an object": `{"name": value}`, "an array": "[value, value]", "a string": `"text"`, "true or false": "true", "a number": "60",
	"a list of member names": `["id", "name"]`, "a whole number": "10", `"head" or "tail"`: `"head"`,
}

// HasErrors reports whether one of the findings is an error.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// comparePointers orders JSON pointers segment by segment, indexes as numbers.
func comparePointers(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(i, j)
		}
		return cmp.Compare(x, y)
	})
}

// EscapePointer writes a member name as a segment of a JSON pointer (RFC 6901).
func EscapePointer(name string) string { return pointerEscaper.Replace(name) }

// MaxPointer is the length in bytes after which [ExtendPointer] does not continue a pointer, and that of the names in it.
const MaxPointer = 1000

// ExtendPointer returns the pointer to a member or element of the value at pointer. It bounds the length: names in a value can be as long
// as the value, and one below a long name can have very many members.
func ExtendPointer(pointer, name string) string {
	if len(pointer) >= MaxPointer {
		return pointer
	}
	return pointer + "/" + EscapePointer(text.Cut(name, MaxPointer))
}

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	PointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// Near returns a hint that names the candidates that look most like name, or all of them when they are few.
func Near(name string, candidates []string) string {
	var close []string
	least := len(name)
	if len(candidates) > 128 {
		return "" // a long list makes poor guesses and costs time for every finding
	}
	for _, c := range candidates {
		d := manifests.Distance(strings.ToLower(name), strings.ToLower(c))
		switch {
		case d > 1+len(c)/4 || d > least:
			continue
		case d < least:
			close, least = nil, d
		}
		close = append(close, strconv.Quote(c))
	}
	switch {
	case len(close) > 0:
		return "did you mean " + strings.Join(close[:min(len(close), 3)], " or ") + "?"
	case len(candidates) > 0 && len(candidates) <= 12:
		return "known: " + strings.Join(candidates, ", ")
	}
	return ""
}

// OneOf is Near for the members of a closed list: where none is like name, all are named, however many.
func OneOf(name string, list []string) string {
	if hint := Near(name, list); hint != "" {
		return hint
	}
	return "known: " + strings.Join(list, ", ")
}
