package reconcile

import "github.com/spritekit/lattice/spritekit/protocol"

// Source is where a merged event was found.
type Source string

const (
	SourceStream Source = "stream"
	SourceOutbox Source = "outbox"
	SourceBoth   Source = "both"
)

// Merged is one event of a reconciliation.
type Merged struct {
	Source Source
	Event  protocol.Event
}

// AppendJSON appends m as one compact object, {"source":…,"event":{…}}.
func (m Merged) AppendJSON(out []byte) []byte {
	out = append(append(append(out, `{"source":"`...), m.Source...), `","event":`...)
	return append(append(out, m.Event.Raw...), '}')
}
