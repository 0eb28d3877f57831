package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

func newStoreCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "store",
		Short:   "Look after the file that holds all runs: check, compact, backup, restore",
		Example: "  lattice store check\n  lattice store backup runs-today.tar",
	})
	cmd.AddCommand(newStoreCheckCmd(d), newStoreCompactCmd(d), newStoreBackupCmd(d), newStoreRestoreCmd(d))
	return cmd
}

// work shows a person at a terminal how far something has come that takes a while.
type work struct {
	d     *deps
	shown bool
	told  time.Time
}

func newWork(d *deps) *work { return &work{d: d} }

func (w *work) progress(p api.StoreProgress) {
	if !w.d.terminal || w.d.json || p.Of == 0 {
		return
	}
	w.shown = true
	fmt.Fprintf(w.d.err, "\r\x1b[2K%s: %d of %d (%d%%)", p.Doing, p.Done, p.Of, 100*p.Done/p.Of)
}

// count shows bytes of which nobody knows yet how many there will be.
func (w *work) count(doing string, n uint64) {
	if now := time.Now(); w.d.terminal && !w.d.json && now.Sub(w.told) > 100*time.Millisecond {
		w.told, w.shown = now, true
		fmt.Fprintf(w.d.err, "\r\x1b[2K%s: %s", doing, bytesText(int64(n)))
	}
}

func (w *work) clear() {
	if w.shown {
		fmt.Fprint(w.d.err, "\r\x1b[2K")
	}
	w.shown = false
}

// bytesText is a size for people.
func bytesText(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for size >= 1<<10 && unit < len(units)-1 {
		size, unit = size/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
