// Package relay has the skills that the program of a call runs, such as an agent or a script, take part in the run. [Follow] shows
// their events as they happen. [Attend] also has the call wait in the place of a skill that waits.
//
// It follows the outbox and writes each new event to stdout, once and in order. Events that it misses are still in the outbox. A
// request of such a skill for an action that it does not wait for becomes a request of the call, so that the orchestrator judges
// it under the permissions of the call that it knows. The package never changes the outbox and never believes a line of it: the
// program can write there, too. A line is relayed only if it is a valid event with a time and an id. By its id a reader of both
// stream and outbox knows that it is the same event. Calls of the orchestrator that work in the sprite at the same time write to the
// outbox, too; their requests are never passed on.
package relay

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxShown      = 10_000   // events of one call
	maxShownBytes = 16 << 20 // and their size
	shownPerLook  = 100
	lookPause     = 100 * time.Millisecond // between two reads; together with shownPerLook it sets the rate
	lookAnyway    = time.Second            // even if inotify reports nothing
	maxRequests   = 100                    // of one call, passed on
	maxAhead      = 24 * time.Hour         // of the clock: a later event was forged to hide those after it
	resultKind    = "result"               // kind of the record of a result, which the caller of the skill has
)

// Relay follows the outbox for one call.
type Relay struct {
	call       *skill.Call
	nested     bool                 // only events of nested calls are relayed
	onQuestion func(skill.Question) // called for each question of a skill
	began      time.Time
	stop       chan struct{}
	ended      chan struct{}

	// The fields below belong to the goroutine until ended is closed.
	file   fs.FileInfo // the outbox at the last read
	offset int64       // of the first unread line
	last   time.Time   // time of the newest event shown; times in an outbox strictly ascend
	buf    []byte
	shown  int
	bytes  int
	over   bool // a limit was passed
	asked  int  // requests that were passed on
	err    error
}

// Follow starts a relay of all events of other calls at the current end of the outbox. It calls asked for each question of a
// skill. The caller must call Finish.
func Follow(c *skill.Call, asked func(skill.Question)) (*Relay, error) {
	return follow(c, false, asked)
}

func follow(c *skill.Call, nested bool, asked func(skill.Question)) (*Relay, error) {
	info, err := c.Root.Stat(protocol.OutboxFile)
	if err != nil {
		return nil, fmt.Errorf("follow the outbox: %w", err)
	}
	r := &Relay{
		call: c, nested: nested, onQuestion: asked, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}),
		file: info, offset: info.Size(), buf: make([]byte, protocol.MaxLine+1),
	}
	go r.run()
	return r, nil
}

// run relays events until Finish is called.
func (r *Relay) run() {
	defer close(r.ended)
	changed, unwatch := watchFolder(r.call.Root.Own(protocol.Dir))
	defer unwatch()
	anyway := time.NewTicker(lookAnyway)
	defer anyway.Stop()
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		more := r.readLines()
		select {
		case <-pause.C:
		case <-r.stop:
			return
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-anyway.C:
		case <-r.stop:
			return
		}
	}
}

// Finish stops the relay after the program has ended, and shows the remaining events.
func (r *Relay) Finish() error {
	close(r.stop)
	<-r.ended
	for r.readLines() {
	}
	if r.over {
		r.call.Warn("events_not_shown", fmt.Sprintf("the skills that the program called emitted more than %d events or %d bytes; the rest is only in %s",
			maxShown, maxShownBytes, protocol.OutboxFile))
	}
	if r.asked > maxRequests {
		r.call.Warn("requests_not_passed_on", fmt.Sprintf("the skills that the program called requested %d actions; those beyond %d were not passed on", r.asked, maxRequests))
	}
	return r.err
}

// readLines relays some of the new lines, and reports whether there may be more. There are none if the outbox was removed or is
// not a file.
func (r *Relay) readLines() (more bool) {
	if r.err != nil {
		return false
	}
	f, err := r.call.Root.Open(protocol.OutboxFile)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	if !os.SameFile(info, r.file) || info.Size() < r.offset { // created again: it may contain old lines
		r.offset = 0
		if r.last.Before(r.began) {
			r.last = r.began
		}
	}
	r.file = info
	n, err := f.ReadAt(r.buf, r.offset)
	if err != nil && err != io.EOF {
		return false
	}
	rest := r.buf[:n]
	for range shownPerLook {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if len(rest) == len(r.buf) { // the line is too long; the rest of it is not an event either
				r.offset += int64(len(rest))
			}
			return n == len(r.buf)
		}
		r.relayLine(rest[:end])
		r.offset += int64(end) + 1
		rest = rest[end+1:]
	}
	return true
}

// relayLine relays a line of the outbox if it is an event of another call. After a limit was passed, it shows none, but questions and
// requests count.
func (r *Relay) relayLine(line []byte) {
	if r.over && !bytes.Contains(line, []byte(skill.KindNestedWaiting)) && !bytes.Contains(line, []byte(protocol.TypeActionRequest)) {
		return
	}
	e, problems, ok := protocol.Decode(line)
	if !ok || len(problems) > 0 || e.Legacy || e.EventID == "" || e.CallID == r.call.ID || isResult(e) || r.nested && !r.call.Nests(e) {
		return
	}
	at, err := protocol.ParseTime(e.Timestamp)
	if err != nil || !at.After(r.last) || at.After(time.Now().Add(maxAhead)) {
		return
	}
	if q, ok := r.call.Asked(e); ok {
		r.onQuestion(q)
	}
	if r.shown == maxShown || r.bytes+len(e.Raw) > maxShownBytes {
		r.over = true
	}
	if r.err != nil {
		return
	}
	r.last = at
	if !r.over {
		r.shown++
		r.bytes += len(e.Raw)
		r.err = r.call.Relay(e)
	}
	if r.err == nil {
		r.err = r.passOn(e)
	}
}

// passOn requests an action for a nested call that requested it without waiting.
func (r *Relay) passOn(e protocol.Event) error {
	payload, err := e.Open()
	request, ok := payload.(protocol.ActionRequest)
	if err != nil || !ok || request.Blocking || !r.call.Nests(e) {
		return nil
	}
	if r.asked++; r.asked > maxRequests {
		return nil
	}
	return r.call.Emit(request)
}

// isResult reports whether an event is the record of a result.
func isResult(e protocol.Event) bool {
	payload, err := e.Open()
	info, ok := payload.(protocol.Info)
	return err == nil && ok && info.Kind == resultKind
}
