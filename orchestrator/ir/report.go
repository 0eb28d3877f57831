package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// Severities of a Finding.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// report gathers findings.
type report struct{ findings []Finding }

func (r *report) addError(code, ptr, hint, format string, args ...any) {
	r.findings = append(r.findings, Finding{Code: code, Severity: SeverityError, Pointer: ptr, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *report) addWarning(code, ptr, hint, format string, args ...any) {
	r.findings = append(r.findings, Finding{Code: code, Severity: SeverityWarning, Pointer: ptr, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// sortedFindings returns the findings in document order of their pointers, each once.
func (r *report) sortedFindings() []Finding {
	slices.SortStableFunc(r.findings, func(a, b Finding) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(r.findings)
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

// escapePointer writes a member name as a segment of a JSON pointer (RFC 6901).
func escapePointer(name string) string { return pointerEscaper.Replace(name) }

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// suggestNames returns a hint that names the candidates that look most like name, or all of them when they are few.
func suggestNames(name string, candidates []string) string {
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

// oneOf is near for the members of a closed list: where none is like name, all are named, however many.
func oneOf(name string, list []string) string {
	if hint := suggestNames(name, list); hint != "" {
		return hint
	}
	return "known: " + strings.Join(list, ", ")
}
