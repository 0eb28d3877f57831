package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// output is where a call's events go: the outbox first, then one write to stdout (DESIGN 8). It keeps both in the
// same order and counts.
type output struct {
	stdout io.Writer
	now    func() time.Time

	mu       sync.Mutex // guards what follows
	log      *outbox.Log
	events   int
	warnings []protocol.Warning
	progAt   time.Time
	closed   bool
	last     protocol.Payload // recorded together with the result, nil for none
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

func (o *output) append(p protocol.Payload) error {
	e, err := o.log.Append(p)
	if err != nil {
		return err
	}
	o.events++
	return o.print(e.Raw)
}

// emitLast is emit of the event that ends the work: it is recorded in one with the result, right before that.
func (o *output) emitLast(p protocol.Payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = p
	o.events++
}

// conclude records what emitLast held back, and the result, if there is one to record.
func (o *output) conclude(result ...protocol.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := result
	if o.last != nil {
		all = append([]protocol.Payload{o.last}, result...)
	}
	if len(all) == 0 {
		return nil
	}
	events, err := o.log.AppendAll(all...)
	if err != nil || o.last == nil {
		return err
	}
	o.last = nil
	return o.print(events[0].Raw)
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
	if own {
		o.events++
	}
	return o.print(e.Raw)
}

func (o *output) print(line []byte) error {
	b := make([]byte, 0, len(protocol.Prefix)+len(line)+1)
	b = append(append(append(b, protocol.Prefix...), line...), '\n')
	if _, err := o.stdout.Write(b); err != nil {
		return fmt.Errorf("write event to stdout: %w", err)
	}
	return nil
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
