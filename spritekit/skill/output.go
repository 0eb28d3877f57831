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

// output is where a call's events go: the outbox first, then one write to stdout (DESIGN 8). It keeps both in the
// same order and counts.
//
// The event that begins a call which only reads may be held back for a moment: when the call ends within that, its
// beginning, its end and its result are one append and one write. A crash in between loses the word that something began
// that nobody has to know of, because it is simply done again.
type output struct {
	stdout io.Writer
	now    func() time.Time

	mu       sync.Mutex // guards what follows
	log      *outbox.Log
	events   int
	warnings []protocol.Warning
	progAt   time.Time
	closed   bool
	first    protocol.Payload // held back, nil for none
	since    time.Time        // when it was emitted
	last     protocol.Payload // recorded together with the result, nil for none
	ready    []byte           // lines to print together with the result
	spilled  bool             // the result was moved to a file; set by the runner alone
}

var errClosed = errors.New("the call has ended")

func (o *output) emit(p protocol.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("emit %s: %w", p.EventType(), errClosed)
	}
	return o.append(p)
}

// append records and prints what emitFirst held back, then p. mu is held.
func (o *output) append(p ...protocol.Payload) error {
	said, then := o.held(p...)
	events, err := o.log.AppendSince(then, said...)
	if err != nil {
		return err
	}
	o.first, o.events = nil, o.events+len(events)
	var lines []byte
	for _, e := range events {
		lines = appendLine(lines, e.Raw)
	}
	return o.print(lines)
}

// held is what is still to be recorded, in order: what emitFirst held back and since when, and after it p. mu is held.
func (o *output) held(p ...protocol.Payload) (all []protocol.Payload, then time.Time) {
	if o.first == nil {
		return p, time.Time{}
	}
	return append([]protocol.Payload{o.first}, p...), o.since
}

// emitFirst is emit of an event that is held back until another one comes, linger is called, or the call ends.
func (o *output) emitFirst(p protocol.Payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first, o.since = p, o.now()
}

// linger ends the holding back: the call takes longer.
func (o *output) linger() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.first != nil {
		_ = o.append() // the next event that matters meets the same trouble and tells it
	}
}

// emitLast is emit of the event that ends the work: it is recorded in one with the result, right before that.
func (o *output) emitLast(p protocol.Payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = p
}

// conclude records what was held back, and the result, if there is one to record.
func (o *output) conclude(result ...protocol.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var end []protocol.Payload
	if o.last != nil {
		end = append(end, o.last)
	}
	said, then := o.held(end...)
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

// finish writes the result line, and what conclude left to be printed before it.
func (o *output) finish(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.stdout.Write(append(append(o.ready, line...), '\n'))
	o.ready = nil
	return err
}

func (o *output) relay(e protocol.Event, own bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fmt.Errorf("relay %s: %w", e.Type, errClosed)
	}
	if !json.Valid(e.Raw) {
		return fmt.Errorf("relay %s: it is not JSON", e.Type)
	}
	if o.first != nil {
		if err := o.append(); err != nil {
			return err
		}
	}
	if own {
		o.events++
	}
	return o.print(appendLine(nil, e.Raw))
}

func (o *output) print(lines []byte) error {
	if _, err := o.stdout.Write(lines); err != nil {
		return fmt.Errorf("write event to stdout: %w", err)
	}
	return nil
}

// appendLine appends an event as it is printed.
func appendLine(out, event []byte) []byte {
	out = slices.Grow(out, len(protocol.Prefix)+len(event)+1)
	return append(append(append(out, protocol.Prefix...), event...), '\n')
}

func (o *output) progress(message string, metadata any) {
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
			return // progress is a courtesy
		}
		info.Metadata = raw
	}
	o.append(info) // the next event that matters meets the same trouble and tells it
}

func (o *output) warn(w protocol.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, w)
}

// close ends the call's say: later emissions fail, so that a goroutine which a skill left behind cannot speak after
// the result.
func (o *output) close() (events int, warnings []protocol.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return o.events, o.warnings
}

// left is how many events conclude will add to those that were said.
func (o *output) left() (events int) {
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

// syncWriter lets a skill's goroutines share stderr.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
