package agent

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
	maxShown      = 10_000   // events of one agent's skills
	maxShownBytes = 16 << 20 // and their size
	shownPerLook  = 100
	lookPause     = 100 * time.Millisecond // between two looks: with the above, the rate
	lookAnyway    = time.Second            // without word from the system
	maxAhead      = 24 * time.Hour         // of the clock; a later event was planted to silence what follows
	resultKind    = "result"               // marks the record of a call's result, which its caller got already
)

// relay shows live what skills that the agent calls write to the outbox: it follows the file and writes each new event
// to stdout, once and in order. They are nobody's result: what is missed here is still in the outbox.
//
// The agent can write to the file as well, so a line counts only if it is an event that breaks no rule, names when it
// happened and has an id, by which whoever reads both stream and outbox knows that it is the same event.
type relay struct {
	call  *skill.Call
	asked func(skill.Question) // called for each question of a skill that the agent called
	began time.Time
	stop  chan struct{}
	ended chan struct{}

	// What follows belongs to the goroutine until ended is closed.
	file   fs.FileInfo // the outbox at the last look
	offset int64       // the first line not looked at
	last   time.Time   // of the newest event shown; an outbox is strictly ascending
	buf    []byte
	shown  int
	bytes  int
	over   bool // a limit was passed
	err    error
}

// follow starts at the present end of the outbox. The caller calls finish.
func follow(c *skill.Call, asked func(skill.Question)) (*relay, error) {
	info, err := c.Root.Stat(protocol.OutboxFile)
	if err != nil {
		return nil, fmt.Errorf("follow the outbox: %w", err)
	}
	r := &relay{
		call: c, asked: asked, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}),
		file: info, offset: info.Size(), buf: make([]byte, protocol.MaxLine+1),
	}
	go r.run()
	return r, nil
}

func (r *relay) run() {
	defer close(r.ended)
	changed, unwatch := watch(r.call.Root.Own(protocol.Dir))
	defer unwatch()
	anyway := time.NewTicker(lookAnyway)
	defer anyway.Stop()
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		more := r.look()
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

// finish shows the rest, when the agent is dead.
func (r *relay) finish() error {
	close(r.stop)
	<-r.ended
	for r.look() {
	}
	if r.over {
		r.call.Warn("events_not_shown", fmt.Sprintf("the skills that the agent called emitted more than %d events or %d bytes; the rest is only in %s",
			maxShown, maxShownBytes, protocol.OutboxFile))
	}
	return r.err
}

// look shows whole lines that are new, some of them, and reports whether there may be more. An outbox that is gone, or
// is no file any more, has nothing to show.
func (r *relay) look() (more bool) {
	if r.over || r.err != nil {
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
	if !os.SameFile(info, r.file) || info.Size() < r.offset { // made anew: it may hold old lines, too
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
			if len(rest) == len(r.buf) { // too long for a line; its last part is no event either
				r.offset += int64(len(rest))
			}
			return n == len(r.buf)
		}
		r.show(rest[:end])
		r.offset += int64(end) + 1
		rest = rest[end+1:]
	}
	return true
}

// show relays one line of the outbox if it is another call's event.
func (r *relay) show(line []byte) {
	e, problems, ok := protocol.Decode(line)
	if !ok || len(problems) > 0 || e.Legacy || e.EventID == "" || e.CallID == r.call.ID || isResult(e) {
		return
	}
	at, err := protocol.ParseTime(e.Timestamp)
	if err != nil || !at.After(r.last) || at.After(time.Now().Add(maxAhead)) {
		return
	}
	if q, ok := r.call.Asked(e); ok {
		r.asked(q)
	}
	if r.shown == maxShown || r.bytes+len(e.Raw) > maxShownBytes {
		r.over = true
	}
	if r.over || r.err != nil {
		return
	}
	r.last = at
	r.shown++
	r.bytes += len(e.Raw)
	r.err = r.call.Relay(e)
}

func isResult(e protocol.Event) bool {
	payload, err := e.Open()
	info, ok := payload.(protocol.Info)
	return err == nil && ok && info.Kind == resultKind
}
