// Package finding holds the findings of validation: [Finding], an error or warning with a JSON pointer, and [Report], which
// collects them and returns them in document order. [Near] makes hints for misspelt names. The package knows no document.
package finding

import (
	"fmt"
	"strings"
)

// Finding is an error or warning of validation; all are reported at once.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // error | warning
	Pointer  string `json:"pointer"`
	Line     int    `json:"line,omitempty"`   // of Pointer in the document, from 1
	Column   int    `json:"column,omitempty"` // in characters, from 1
	Node     string `json:"node,omitempty"`   // the node or step that Pointer lies in, or from which the edge at Pointer leads
	Message  string `json:"message"`
	Hint     string `json:"hint"`
}

// Position returns LINE:COLUMN, "" if it is not known.
func (f Finding) Position() string {
	if f.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", f.Line, f.Column)
}

// Place returns the pointer, and the node in parentheses.
func (f Finding) Place() string {
	place := f.Pointer
	if f.Node != "" {
		place += " (" + f.Node + ")"
	}
	return strings.TrimSpace(place)
}
