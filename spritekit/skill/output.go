package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// output writes the events of a call to the outbox, then to stdout (DESIGN 8), in the same order, and counts them.
//
// PHASE_STARTED of a call that only reads may be delayed for heldBack: if the call ends before that, its start, its end
// and its result are one append and one write. A crash loses the delayed event, which is harmless because the read is
// simply done again.
type output struct {
	stdout io.Writer
	now    func() time.Time

	mu       sync.Mutex // guards the fields below
	log      *outbox.Log
	events   int
	warnings []protocol.Warning
	progAt   time.Time
	closed   bool
	first    protocol.Payload // delayed, nil for none
	since    time.Time        // when it was emitted
	last     protocol.Payload // recorded together with the result, nil for none
	ready    []byte           // lines to print together with the result
	spilled  bool             // the result was moved to a file; set by the runner alone
}

var errClosed = errors.New("the call has ended")

func (o *output) emitPayload(p protocol.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("emit %s: %w", p.EventType(), errClosed)
	}
	return o.appendEvents(p)
}

// appendEvents records and prints the delayed event, then p. mu is held.
func (o *output) appendEvents(p ...protocol.Payload) error {
	said, then := o.pendingEvents(p...)
	events, err := o.log.AppendSince(then, said...)
	if err != nil {
		return err
	}
	o.first, o.events = nil, o.events+len(events)
	var lines []byte
	for _, e := range events {
		lines = appendLine(lines, e.Raw)
	}
	return o.printLines(lines)
}

// pendingEvents returns the events to record, in order: the delayed event and the time when it was emitted, then p. mu is held.
func (o *output) pendingEvents(p ...protocol.Payload) (all []protocol.Payload, then time.Time) {
	if o.first == nil {
		return p, time.Time{}
	}
	return append([]protocol.Payload{o.first}, p...), o.since
}

// emitFirst emits an event that is delayed until the next event, release, or the end of the call.
func (o *output) emitFirst(p protocol.Payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first, o.since = p, o.now()
}

// releaseOutbox emits the delayed event of a call that takes longer.
func (o *output) releaseOutbox() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.first != nil {
		_ = o.appendEvents() // the next emit returns the same error
	}
}

// emitLast emits the event that ends the work: it is recorded together with the result, right before it.
func (o *output) emitLast(p protocol.Payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = p
}

// concludeCall records the delayed events and the result, if there is one.
func (o *output) concludeCall(result ...protocol.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var end []protocol.Payload
	if o.last != nil {
		end = append(end, o.last)
	}
	said, then := o.pendingEvents(end...)
	all := append(slices.Clip(said), result...)
	if len(all) == 0 {
		return nil
	}
	events, err := o.log.AppendSince(then, all...)
	if err != nil {
		return err
	}
	o.first, o.last = nil, nil
	for _, e := range events[:len(said)] {
		o.ready = appendLine(o.ready, e.Raw)
	}
	return nil
}

// finishLine writes the events of conclude and the result line to stdout.
func (o *output) finishLine(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.stdout.Write(append(append(o.ready, line...), '\n'))
	o.ready = nil
	return err
}

func (o *output) relayEvent(e protocol.Event, own bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("relay %s: %w", e.Type, errClosed)
	}
	if !json.Valid(e.Raw) {
		return fmt.Errorf("relay %s: it is not JSON", e.Type)
	}
	if o.first != nil {
		if err := o.appendEvents(); err != nil {
			return err
		}
	}
	if own {
		o.events++
	}
	return o.printLines(appendLine(nil, e.Raw))
}

func (o *output) printLines(lines []byte) error {
	if _, err := o.stdout.Write(lines); err != nil {
		return fmt.Errorf("write event to stdout: %w", err)
	}
	return nil
}

// appendLine appends an event with its prefix and line end.
func appendLine(out, event []byte) []byte {
	out = slices.Grow(out, len(protocol.Prefix)+len(event)+1)
	return append(append(append(out, protocol.Prefix...), event...), '\n')
}

func (o *output) emitProgress(message string, metadata any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if o.closed || now.Sub(o.progAt) < progressInterval {
		return
	}
	o.progAt = now
	info := protocol.Info{Message: message, Kind: "progress"}
	if metadata != nil {
		raw, err := json.Marshal(metadata)
		if err != nil {
			return // progress is optional
		}
		info.Metadata = raw
	}
	o.appendEvents(info) // the next emit returns the same error
}

func (o *output) addWarning(w protocol.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, w)
}

// close makes later calls of emit fail, so that a goroutine that the skill left behind cannot emit events after the
// result.
func (o *output) close() (events int, warnings []protocol.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return o.events, o.warnings
}

// countPending returns the number of events that conclude will record.
func (o *output) countPending() (events int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first != nil {
		events++
	}
	if o.last != nil {
		events++
	}
	return events
}

// syncWriter makes stderr safe for concurrent use.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
