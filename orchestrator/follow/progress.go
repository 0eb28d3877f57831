package follow

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// progress shows a followed run: redrawn lines on a terminal, one line per change otherwise, entries with --json.
type progress struct {
	console *cli.Console
	stop    chan struct{}
	ended   sync.WaitGroup

	mu     sync.Mutex // guards all below
	view   api.RunView
	steps  *timeline.Timeline
	drawn  int // lines on the terminal that belong to us
	shown  map[*timeline.Step]timeline.StepState
	closed bool
	known  lattice.Seq // entries up to here were shown by an earlier command
}

func newProgress(console *cli.Console, v api.RunView, known lattice.Seq) *progress {
	p := &progress{console: console, view: v, known: known, steps: timeline.New(), shown: map[*timeline.Step]timeline.StepState{}, stop: make(chan struct{})}
	if console.JSON {
		return p
	}
	if !console.Terminal {
		fmt.Fprintf(console.Err, "%s %s\n", v.RunID, v.Flow)
		return p
	}
	p.ended.Go(p.redrawClocks)
	return p
}

// redrawClocks redraws the clocks of running steps.
func (p *progress) redrawClocks() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.drawPicture(cli.TerminalSize(p.console.Out))
			p.mu.Unlock()
		}
	}
}

// takeReport takes a report of the leader.
func (p *progress) takeReport(l api.WatchLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, news := time.Now(), true
	if l.View != nil {
		p.view = *l.View
		p.steps.Pause(l.View.Waits)
		if s := p.steps.Current; p.known > 0 && s != nil && s.Ended.IsZero() { // where an earlier command left it
			delete(p.shown, s)
			p.known = 0
		}
	}
	if l.Entry != nil {
		at, news = l.Entry.At, l.Entry.Seq > p.known
		if p.console.JSON && news {
			return p.console.PrintJSON(l.Entry)
		}
		p.steps.Add(*l.Entry)
	}
	switch {
	case p.console.JSON:
	case p.console.Terminal:
		p.drawPicture(cli.TerminalSize(p.console.Out))
	default:
		p.printChanges(at, news)
	}
	return nil
}

// printChanges writes a line for each step whose state changed; a change that is not new is only noted.
func (p *progress) printChanges(at time.Time, news bool) {
	for _, s := range p.steps.All() {
		if p.shown[s] == s.State || s.OnlyDecides() {
			continue
		}
		p.shown[s] = s.State
		if news {
			fmt.Fprintf(p.console.Err, "%s  %s\n", at.Local().Format(time.TimeOnly), s.Text(at, false))
			p.known = 0 // and so is all that follows; the step at hand needs no second showing
		}
	}
}

// drawPicture replaces the previous picture by one of at most height lines, 0 for any number: lines that have left the screen
// cannot be replaced. mu is held.
func (p *progress) drawPicture(width, height int) {
	if p.closed {
		return
	}
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn)
	}
	id := p.view.RunID
	if p.console.Coloured() {
		id = "\x1b[1m" + id + "\x1b[0m"
	}
	steps := p.steps.Progress(time.Now(), p.console.Coloured())
	lines := []string{fmt.Sprintf("%s  %s  %s", id, p.view.Status, p.view.Flow)}
	if most := height - 3; height > 0 && len(steps) > most { // one line each for the title, for those left out, and below all
		lines = append(lines, fmt.Sprintf("  … %d lines before", len(steps)-most))
		steps = steps[len(steps)-most:]
	}
	for _, line := range steps {
		lines = append(lines, "  "+line)
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "\x1b[2K%s\n", cli.Cut(line, width))
	}
	fmt.Fprint(&b, "\x1b[J") // the picture before may have been longer
	p.drawn = len(lines)
	fmt.Fprint(p.console.Err, b.String())
}

// leavePicture leaves the last picture standing.
func (p *progress) leavePicture() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	if p.console.Terminal && !p.console.JSON {
		p.drawPicture(cli.TerminalWidth(p.console.Out), 0)
	}
	p.closed = true
	if p.view.Status == lattice.Failed && !p.console.JSON {
		p.quoteAgent()
	}
	p.mu.Unlock()
	close(p.stop)
	p.ended.Wait()
}

// quoteAgent prints the last words of the agent of a failed run: it often knows why. mu is held.
func (p *progress) quoteAgent() {
	words := []rune(strings.TrimSpace(p.steps.Words))
	if len(words) == 0 {
		return
	}
	if len(words) > maxQuote {
		words = append([]rune("…"), words[len(words)-maxQuote:]...)
	}
	fmt.Fprintln(p.console.Err, "the agent's last words:")
	for line := range strings.Lines(string(words)) {
		fmt.Fprintf(p.console.Err, "  %s\n", cli.Clean(strings.TrimRight(line, "\r\n")))
	}
}

// maxQuote is how much of an agent's last words is printed, in characters.
const maxQuote = 1000
