package keep

import (
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
)

// work shows a person at a terminal how far something has come that takes a while.
type work struct {
	console *cli.Console
	shown   bool
	told    time.Time
	doing   string    // the part that goes on
	began   time.Time // when it was first seen
	found   uint64    // and how much of it was done then
}

func newWork(console *cli.Console) *work { return &work{console: console} }

func (w *work) progress(p api.StoreProgress) {
	if !w.console.Terminal || w.console.JSON || p.Of == 0 {
		return
	}
	if p.Doing != w.doing {
		w.doing, w.began, w.found = p.Doing, time.Now(), p.Done
	}
	w.shown = true
	fmt.Fprintf(w.console.Err, "\r\x1b[2K%s: %d of %d (%d%%)%s", p.Doing, p.Done, p.Of, 100*p.Done/p.Of, estimate(p.Done-min(w.found, p.Done), p.Of-min(p.Done, p.Of), time.Since(w.began)))
}

// estimate says how long the rest takes if it goes on as fast as before. It says nothing before that can be told.
func estimate(done, rest uint64, elapsed time.Duration) string {
	if done == 0 || rest == 0 || elapsed < 2*time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(rest) / float64(done))
	return ", about " + max(left, time.Second).Round(time.Second).String() + " left"
}

// count shows a number of bytes whose total is not known.
func (w *work) count(doing string, n uint64) {
	if now := time.Now(); w.console.Terminal && !w.console.JSON && now.Sub(w.told) > 100*time.Millisecond {
		w.told, w.shown = now, true
		fmt.Fprintf(w.console.Err, "\r\x1b[2K%s: %s", doing, cli.FormatBytes(int64(n)))
	}
}

func (w *work) clear() {
	if w.shown {
		fmt.Fprint(w.console.Err, "\r\x1b[2K")
	}
	w.shown = false
}
