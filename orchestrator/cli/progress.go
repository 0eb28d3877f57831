package cli

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/bytecount"
)

// Progress shows a person at a terminal how far a work has come that takes a while, in one line that it replaces.
type Progress struct {
	console *Console
	shown   bool
	told    time.Time
	doing   string    // the part that goes on
	began   time.Time // when it was first shown
	found   uint64    // and how much of it was done then
}

// NewProgress returns a Progress that shows nothing unless the console is a terminal for people.
func NewProgress(console *Console) *Progress { return &Progress{console: console} }

// visible reports whether there is a person to show anything to.
func (p *Progress) visible() bool { return p.console.Terminal && !p.console.JSON }

// Show shows that done of a total is done, 0 for a total that is not known, and about how long the rest takes. format writes an
// amount.
func (p *Progress) Show(doing string, done, total uint64, format func(uint64) string) {
	now := time.Now()
	if !p.visible() || now.Sub(p.told) < 100*time.Millisecond && done != total {
		return
	}
	if doing != p.doing {
		p.doing, p.began, p.found = doing, now, done
	}
	p.told, p.shown = now, true
	line := doing + ": " + format(done)
	if total > 0 {
		total = max(total, done)
		line += fmt.Sprintf(" of %s (%d%%)%s", format(total), 100*done/total, estimateRest(done-min(p.found, done), total-done, now.Sub(p.began)))
	}
	fmt.Fprintf(p.console.Err, "\r\x1b[2K%s", line)
}

// ShowPart is Show for amounts without a unit.
func (p *Progress) ShowPart(doing string, done, total uint64) {
	p.Show(doing, done, total, func(n uint64) string { return strconv.FormatUint(n, 10) })
}

// CountBytes returns a counter of bytes that shows how many of a total there are, 0 for a total that is not known.
func (p *Progress) CountBytes(doing string, total uint64) *bytecount.Counter {
	c := &bytecount.Counter{Tell: func(n int64) { p.Show(doing, uint64(n), total, FormatSize) }}
	c.Tell(0)
	return c
}

// ShowStep is Show for bytes of a step, whose name may come from elsewhere. It shows the name alone if total is 0.
func (p *Progress) ShowStep(step string, done, total int64) {
	if total <= 0 {
		p.Show("now", 0, 0, func(uint64) string { return Clean(step) })
		return
	}
	p.Show(Clean(step), uint64(max(done, 0)), uint64(total), FormatSize)
}

// ShowWait shows what goes on, and after two seconds for how long, until stop is called. It is for work of which only the end is known.
func (c *Console) ShowWait(doing string) (stop func()) {
	p := NewProgress(c)
	if !p.visible() {
		return func() {}
	}
	var ticks sync.WaitGroup
	ended, began := make(chan struct{}), time.Now()
	ticks.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case now := <-tick.C:
				if waited := now.Sub(began).Round(time.Second); waited >= 2*time.Second {
					p.Show(doing, uint64(waited), 0, func(n uint64) string { return time.Duration(n).String() })
				}
			}
		}
	})
	return func() {
		close(ended)
		ticks.Wait()
		p.Clear()
	}
}

// Clear removes the line.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.console.Err, "\r\x1b[2K")
	}
	p.shown = false
}

// MeasureFiles returns the size of the regular files at and below path, as the total of a Progress. Files that cannot be read count as
// nothing.
func MeasureFiles(path string) (total uint64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += uint64(info.Size())
			}
		}
		return nil
	})
	return total
}

// estimateRest says how long the rest takes if it goes on as fast as before. It says nothing before that can be told.
func estimateRest(done, rest uint64, elapsed time.Duration) string {
	if done == 0 || rest == 0 || elapsed < 2*time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(rest) / float64(done))
	return ", about " + max(left, time.Second).Round(time.Second).String() + " left"
}
