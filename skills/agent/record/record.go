// Package record keeps the words and deeds of an agent as text, for agents whose own sessions cannot be resumed: the text becomes a
// part of the prompt of a new session. Begin with [Record].
package record

import (
	"strings"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	// MaxText bounds a record, in bytes. The beginning is left out of a longer one.
	MaxText = 64 << 10

	maxInput = 2 << 10 // of a tool's input
	omitted  = "[the beginning is left out]\n"
)

// Record is the end of a conversation. The zero value is an empty one.
type Record struct {
	text string
	said bool // the last event was a part of a text
}

// New returns a record that begins with an earlier one.
func New(earlier string) *Record { return &Record{text: earlier} }

// Add adds an event. Events that are no part of a conversation are ignored.
func (r *Record) Add(e adapter.Event) {
	switch e.Kind {
	case adapter.KindText:
		if words := e.Text("text"); e.Truth("delta") && r.said {
			r.addText(words)
		} else {
			r.addLine("you: " + words)
		}
		r.said = true
		return
	case adapter.KindToolCall:
		r.addLine("you used the tool " + e.Text("name") + ": " + text.Head(e.Text("input"), maxInput))
	case adapter.KindToolResult:
		if e.Truth("failed") {
			r.addLine("the tool failed")
		}
	default:
		return
	}
	r.said = false
}

// AddOutput adds the plain output of an agent.
func (r *Record) AddOutput(output string) {
	if output = strings.TrimSpace(output); output != "" {
		r.addLine(output)
		r.said = false
	}
}

func (r *Record) addLine(words string) {
	if r.text != "" && !strings.HasSuffix(r.text, "\n") {
		words = "\n" + words
	}
	r.addText(words)
}

func (r *Record) addText(words string) {
	r.text += words
	if over := len(r.text) - MaxText; over > 0 {
		rest := r.text[over+len(omitted):]
		if _, after, ok := strings.Cut(rest, "\n"); ok && len(after) >= MaxText/2 { // otherwise it is one long line
			rest = after
		}
		r.text = omitted + strings.ToValidUTF8(rest, "")
	}
}

// String returns the text of the record.
func (r *Record) String() string { return r.text }

// Prompt returns the prompt of a new session that goes on with a task: the task, the record of the former session, and the words for
// this moment. Without a record it is the task.
func Prompt(task, record, now string) string {
	if record == "" {
		return task
	}
	return task + "\n\nYou worked on this task before. That session cannot be loaded again; this is its record:\n\n<record>\n" + strings.TrimSuffix(record, "\n") + "\n</record>\n\n" + now
}
