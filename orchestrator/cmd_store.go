package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/spritekit/protocol"
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

func newStoreCheckCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Look for damage in the store",
		Long: `Check the store, or FILE, without changing it: every page of the file, every entry against its indexes, and every run:
its facts, played again, must lead to the state that is stored beside them. Without FILE the sprite host's own database is
checked as well. While another process leads, that one does it and its runs wait for a moment.

With --json one object is printed:
{"ok","path","bytes","runs","entries","host":{"path","bytes","sprites"},"findings":[{"code","run_id","message","hint"}]}.
Exit codes: 0 sound, 1 damaged, 3 there is no store, 4 it may not be read, 8 a newer lattice wrote it.`,
		Example: "  lattice store check --json\n  lattice store check runs.db.bak",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			show := newWork(d)
			report, err := checkStore(cmd.Context(), d, optional(list), show.progress)
			show.clear()
			if err != nil {
				return err
			}
			return d.printReport(report)
		},
	}
}

// checkStore looks at a store that nobody leads by itself, because a leader could not open a damaged one.
func checkStore(ctx context.Context, d *deps, file string, progress func(api.StoreProgress)) (api.StoreReport, error) {
	if file != "" {
		return leader.CheckFile(ctx, file, progress)
	}
	home := leader.Home(d.home)
	lock, err := home.Acquire()
	if errors.Is(err, leader.ErrLed) {
		c, err := connect(ctx, d, leaderOptions{})
		if err != nil {
			return api.StoreReport{}, err
		}
		defer c.close()
		return c.CheckStore(ctx, progress)
	}
	if err != nil && !leader.IsReadOnly(err) { // then nobody writes to it meanwhile
		return api.StoreReport{}, err
	}
	report, err := leader.CheckHome(ctx, home, progress)
	return report, errors.Join(err, lock.Unlock())
}

func (d *deps) printReport(r api.StoreReport) error {
	if d.json {
		if err := d.printJSON(r); err != nil {
			return err
		}
	} else if r.OK {
		if _, err := fmt.Fprintf(d.out, "%s is sound: %s, %s, %s\n", r.Path, numbered(r.Runs, "run", "runs"), numbered(r.Entries, "entry", "entries"), bytesText(r.Bytes)); err != nil {
			return err
		}
		if r.Host != nil {
			if _, err := fmt.Fprintf(d.out, "%s is sound: %s, %s\n", r.Host.Path, numbered(r.Host.Sprites, "sprite", "sprites"), bytesText(r.Host.Bytes)); err != nil {
				return err
			}
		}
	} else {
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		for _, f := range r.Findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Code, f.RunID, clean(f.Message))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(d.err, "lattice: %s is damaged: %s\n", damagedPath(r), numbered(len(r.Findings), "finding", "findings"))
		for _, hint := range hints(r.Findings) {
			fmt.Fprintf(d.err, "  try: %s\n", hint)
		}
	}
	if r.OK {
		return nil
	}
	return &exitError{code: protocol.ExitFailed}
}

// damagedPath is the file that the findings are about, the first if they are about two.
func damagedPath(r api.StoreReport) string {
	if r.Host != nil && r.Findings[0].Code == "sprites" {
		return r.Host.Path
	}
	return r.Path
}

// hints are the remedies of findings, each once, a few at most.
func hints(findings []api.StoreFinding) []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range findings {
		if f.Hint != "" && !seen[f.Hint] && len(out) < 5 {
			seen[f.Hint] = true
			out = append(out, f.Hint)
		}
	}
	return out
}

func newStoreCompactCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Make the store's file smaller",
		Long: `Write the store anew without the room that lies free in it. The new file is checked and on disk before it takes the place
of the old one; until then nothing has changed, and Ctrl-C is safe. It needs room for a second file. Runs that are driven
wait meanwhile and go on.

With --json one object is printed: {"bytes_before","bytes_after"}.
Exit codes: 0 done, 1 the store is damaged, 9 the disk is full.`,
		Example: "  lattice store compact",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(cmd.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer c.close()
			show := newWork(d)
			out, err := c.CompactStore(cmd.Context(), show.progress)
			show.clear()
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(out)
			}
			_, err = fmt.Fprintf(d.out, "%s before, %s after\n", bytesText(out.BytesBefore), bytesText(out.BytesAfter))
			return err
		},
	}
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
