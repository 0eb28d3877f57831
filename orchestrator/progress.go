package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// progress shows a followed run: redrawn lines on a terminal, one line per change otherwise, entries with --json.
type progress struct {
	d     *deps
	stop  chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex // guards all below
	view   api.RunView
	steps  *timeline
	drawn  int // lines on the terminal that belong to us
	shown  map[*step]stepState
	closed bool
	known  lattice.Seq // entries up to here were shown by an earlier command
}

func newProgress(d *deps, v api.RunView, known lattice.Seq) *progress {
	p := &progress{d: d, view: v, known: known, steps: newTimeline(), shown: map[*step]stepState{}, stop: make(chan struct{})}
	if d.json {
		return p
	}
	if !d.terminal {
		fmt.Fprintf(d.err, "%s %s\n", v.RunID, v.Flow)
		return p
	}
	p.ended.Go(p.tick)
	return p
}

// tick redraws the clock of what runs.
func (p *progress) tick() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// line takes what the leader reports.
func (p *progress) line(l api.WatchLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, news := time.Now(), true
	if l.View != nil {
		p.view = *l.View
		p.steps.pause(l.View.Waits)
		if s := p.steps.current; p.known > 0 && s != nil && s.ended.IsZero() { // where an earlier command left it
			delete(p.shown, s)
			p.known = 0
		}
	}
	if l.Entry != nil {
		at, news = l.Entry.At, l.Entry.Seq > p.known
		if p.d.json && news {
			return p.d.printJSON(l.Entry)
		}
		p.steps.add(*l.Entry)
	}
	switch {
	case p.d.json:
	case p.d.terminal:
		p.draw()
	default:
		p.print(at, news)
	}
	return nil
}

// print writes a line for each step whose state changed; what is no news is only noted.
func (p *progress) print(at time.Time, news bool) {
	for _, s := range p.steps.all() {
		if p.shown[s] == s.state {
			continue
		}
		p.shown[s] = s.state
		if news {
			fmt.Fprintf(p.d.err, "%s  %s\n", at.Local().Format(time.TimeOnly), s.text(at, false))
			p.known = 0 // and so is all that follows; the step at hand needs no second showing
		}
	}
}

// draw replaces what was drawn before. mu is held.
func (p *progress) draw() {
	if p.closed {
		return
	}
	width := terminalWidth(p.d.out)
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn)
	}
	lines := []string{fmt.Sprintf("\x1b[1m%s\x1b[0m  %s  %s", p.view.RunID, p.view.Status, p.view.Flow)}
	now := time.Now()
	for _, line := range p.steps.lines(now, true) {
		lines = append(lines, "  "+line)
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "\x1b[2K%s\n", cut(line, width))
	}
	p.drawn = len(lines)
	fmt.Fprint(p.d.err, b.String())
}

// close leaves the last picture standing.
func (p *progress) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	if p.d.terminal && !p.d.json {
		p.draw()
	}
	p.closed = true
	if p.view.Status == lattice.Failed && !p.d.json {
		p.quote()
	}
	p.mu.Unlock()
	close(p.stop)
	p.ended.Wait()
}

// quote prints what the agent of a failed run said last: it often knows why. mu is held.
func (p *progress) quote() {
	words := []rune(strings.TrimSpace(p.steps.words))
	if len(words) == 0 {
		return
	}
	if len(words) > maxQuote {
		words = append([]rune("…"), words[len(words)-maxQuote:]...)
	}
	fmt.Fprintln(p.d.err, "the agent's last words:")
	for line := range strings.Lines(string(words)) {
		fmt.Fprintf(p.d.err, "  %s\n", clean(strings.TrimRight(line, "\r\n")))
	}
}

// maxQuote is how much of an agent's last words is printed, in characters.
const maxQuote = 1000

func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 20 {
			return width
		}
	}
	return 100
}

// cut shortens a line to width columns, not counting colour.
func cut(line string, width int) string {
	var b strings.Builder
	columns, escape := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			if columns++; columns >= width {
				return b.String() + "…\x1b[0m"
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clean makes text from a sprite safe for one line of a terminal, and short.
func clean(s string) string {
	s = cleanLine(s)
	if utf8.RuneCountInString(s) > 300 {
		s = string([]rune(s)[:299]) + "…"
	}
	return s
}

// cleanLine is clean for text whose length is bounded elsewhere, and whose end counts.
func cleanLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s))
}

// sanitizer drops control characters from text for a terminal, line ends and tabs excepted: those of one byte, those that
// UTF-8 writes in two, of which some terminals take U+009B for the beginning of a sequence, and their halves.
type sanitizer struct{ w io.Writer }

func (s sanitizer) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		char := rest[:size]
		rest = rest[size:]
		switch {
		case r == '\n' || r == '\t':
		case r == utf8.RuneError && size == 1 && char[0] <= 0x9f: // of nothing, or cut off by the end of the piece before
			continue
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			continue
		}
		out = append(out, char...)
	}
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// statusText is a run's status with what a person should know beside it.
func statusText(v api.RunView) string {
	if !v.Driving && (v.Status == lattice.Running || v.Status == lattice.Pending) {
		return string(v.Status) + " (interrupted; lattice resume)"
	}
	return string(v.Status)
}

func age(t time.Time) string {
	switch d := max(0, time.Since(t)); { // a clock may have been set back
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
