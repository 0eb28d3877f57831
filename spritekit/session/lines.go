package session

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

const (
	// company is how long a line waits for others. A call that ends sooner is one write, and one message on the wire.
	company = 2 * time.Millisecond
	// maxHeld is how much waits at most, in bytes.
	maxHeld = 32 << 10
)

// lines writes whole lines to stdout. Its methods may be called concurrently.
type lines struct {
	w io.Writer

	mu    sync.Mutex // guards the fields below
	held  []byte
	timer *time.Timer
	armed bool
	said  time.Time // when something was last written
	err   error     // the first of w; nothing is written after it
}

func newLines(w io.Writer) *lines {
	l := &lines{w: w, said: time.Now()}
	l.timer = time.AfterFunc(time.Hour, l.flushLines)
	l.timer.Stop()
	return l
}

// addLine writes one line, given in parts without its end: at once with everything that waits, or soon.
func (l *lines) addLine(now bool, parts ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, part := range parts {
		l.held = append(l.held, part...)
	}
	l.held = append(l.held, '\n')
	switch {
	case now || len(l.held) >= maxHeld:
		l.writeBuffered()
	case !l.armed:
		l.armed = true
		l.timer.Reset(company)
	}
	return l.err
}

func (l *lines) flushLines() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.writeBuffered()
}

// writeBuffered writes the buffered lines. mu is held. The timer is not stopped, although it then fires without need, or a little early
// for the next line: stopping and starting it for each call would wake a thread each time.
func (l *lines) writeBuffered() {
	if len(l.held) == 0 {
		return
	}
	if l.err == nil {
		_, l.err = l.w.Write(l.held)
		l.said = time.Now()
	}
	l.held = l.held[:0]
	if cap(l.held) > 8*maxHeld { // of a large result
		l.held = nil
	}
}

func (l *lines) closeLines() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeBuffered()
	return l.err
}

// isBroken reports whether nothing can be written any more.
func (l *lines) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

func (l *lines) writeNote(n protocol.SessionNote) {
	l.writeJSON(n.Session == protocol.SessionRefused, n)
}

// writeKeepalive says a word when nothing was said for that long.
func (l *lines) writeKeepalive(silence time.Duration) {
	l.mu.Lock()
	quiet := time.Since(l.said) >= silence
	l.mu.Unlock()
	if quiet {
		l.writeJSON(true, protocol.SessionNote{Session: protocol.SessionKeepalive})
	}
}

// writeJSON writes v, of which each is a struct of plain text, as one line.
func (l *lines) writeJSON(now bool, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) == nil { // which cannot fail
		_ = l.addLine(now, bytes.TrimSuffix(b.Bytes(), []byte("\n"))) // kept in err
	}
}

// text passes on the output of a call for people. It keeps half a character back until the other half comes.
type text struct {
	call string
	to   *lines

	mu   sync.Mutex
	half []byte
}

// maxText is the size of the text in one line, in bytes: even escaped it is below the limit of readers.
const maxText = 64 << 10

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.half, b...)
	whole := len(all) - halfRune(all)
	t.half = append([]byte(nil), all[whole:]...)
	t.writeText(all[:whole])
	return len(b), nil
}

// endText writes the rest.
func (t *text) endText() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writeText(t.half)
	t.half = nil
}

func (t *text) writeText(all []byte) {
	for len(all) > 0 {
		part := all[:min(len(all), maxText)]
		if len(part) < len(all) {
			part = part[:len(part)-halfRune(part)]
		}
		all = all[len(part):]
		said := strings.ToValidUTF8(string(part), "\uFFFD")
		t.to.writeJSON(false, protocol.SessionOutput{CallID: t.call, Stderr: &said})
	}
}

// halfRune is how many bytes at the end of b begin a character that is not complete.
func halfRune(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		switch c := b[len(b)-n]; {
		case c < 0x80:
			return 0
		case c >= 0xC0: // begins a character of so many bytes
			need := 2
			if c >= 0xE0 {
				need++
			}
			if c >= 0xF0 {
				need++
			}
			if n < need {
				return n
			}
			return 0
		}
	}
	return 0
}
