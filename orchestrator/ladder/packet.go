package ladder

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/spritekit/text"
)

// Packet describes the problems of an answer to the model that has to repair it. error, allowed_ids and previous_output are
// top-level members because the model needs them most.
type Packet struct {
	Version     string          `json:"packet_version"` // "1"
	Node        string          `json:"node"`
	Attempt     int             `json:"attempt"` // the request that contains this packet
	MaxAttempts int             `json:"max_attempts"`
	Kind        string          `json:"kind"` // of failure
	Error       string          `json:"error"`
	Errors      []Problem       `json:"errors"`
	AllowedIDs  []any           `json:"allowed_ids,omitempty"`
	Allowed     []any           `json:"allowed_labels,omitempty"`
	Previous    json.RawMessage `json:"previous_output"` // null when it was no JSON
	Text        *string         `json:"previous_text"`   // then; cut to maxPrevious
	Schema      string          `json:"schema"`
	Instruction string          `json:"instruction"` // "fix_only"
}

// Problem is an error in an answer.
type Problem struct {
	Validator int    `json:"validator"` // 0 is the output schema, then as in the node; -1 is none of them
	Path      string `json:"path"`      // JSON pointer into the answer
	Code      string `json:"code"`
	Message   string `json:"message"`
}

const (
	maxProblems = 10
	maxPrevious = 2000 // characters of an answer that goes back, of texts and of JSON
	maxMessage  = 300  // characters of a problem's message
	maxAllowed  = 100  // ids or labels
)

func newProblem(validator int, path, code, format string, args ...any) Problem {
	return Problem{Validator: validator, Path: path, Code: code, Message: text.HeadRunes(fmt.Sprintf(format, args...), maxMessage)}
}
