package session

import (
	"io"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Secrets are taken out where a call's events, its result and its other output enter the orchestrator: the journal, prompts,
// notifications and everything that is shown are made of these.

// redactEvents returns event for events without secrets.
func redactEvents(known *redact.Secrets, event func(lattice.Event)) func(lattice.Event) {
	if !known.Any() {
		return event
	}
	return func(e lattice.Event) {
		clean := func(texts ...*string) {
			for _, t := range texts {
				*t = known.Text(*t)
			}
		}
		clean(&e.Dedupe, (*string)(&e.Event.Type), &e.Event.EventID, &e.Event.CallID, &e.Event.SpriteID, &e.Event.WorkItemID, &e.Event.Timestamp, &e.Event.ProtocolVersion)
		e.Event.Payload, e.Event.Raw = known.JSON(e.Event.Payload), known.JSON(e.Event.Raw)
		e.Problems = slices.Clone(e.Problems)
		for i := range e.Problems {
			clean(&e.Problems[i].Pointer, &e.Problems[i].Message)
		}
		event(e)
	}
}

// flushOutput writes the output that redactors held back. A redactor takes one stream: a secret whose halves come with text
// of another stream in between would pass.
func flushOutput(writers ...io.Writer) {
	for _, w := range writers {
		if f, ok := w.(interface{ Flush() error }); ok {
			_ = f.Flush() // it is a log
		}
	}
}
