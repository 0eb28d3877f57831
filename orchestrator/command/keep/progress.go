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
}

func newWork(console *cli.Console) *work { return &work{console: console} }

func (w *work) progress(p api.StoreProgress) {
	if !w.console.Terminal || w.console.JSON || p.Of == 0 {
		return
	}
	w.shown = true
	fmt.Fprintf(w.console.Err, "\r\x1b[2K%s: %d of %d (%d%%)", p.Doing, p.Done, p.Of, 100*p.Done/p.Of)
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
