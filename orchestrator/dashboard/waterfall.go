package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/timeline"
)

// waterfall is the steps of a run as bars. Times are in percent of its width, so that it fits any screen.
type waterfall struct {
	Rows     []row
	Selected *row
	// Before and After are the numbers of rows to go to when not all are shown, -1 for none.
	Before, After int
	Total         int
	Marks         []tick
	Shortened     bool // waits are drawn shorter than they were
}

// row is one step.
type row struct {
	*timeline.Step
	Depth    int
	Mark     mark
	Lasted   time.Duration
	Bars     []bar
	Ticks    []tick // checkpoints
	Height   int    // in pixels
	Selected bool
}

// Key names the row in an address. It stays the same while the run goes on.
func (r row) Key() string { return strconv.FormatUint(uint64(r.Seq), 10) + r.Path() }

// bar is a stretch of a step. Attempts are stacked.
type bar struct {
	Kind, Title string
	X, W        string // percent
	Y, H        int    // pixels
}

// tick is an instant.
type tick struct{ X, Title string }

const (
	maxRows      = 80 // of a page
	maxShownDone = 12 // iterations of one step that are done
	maxStacked   = 4  // attempts that are drawn below each other
	rowHeight    = 28
	laneHeight   = 9
)

// The kinds of bars.
const (
	barQueue   = "queue" // it waits for its turn, or for the next attempt
	barWork    = "work"
	barWait    = "wait" // for a person
	barFailed  = "failed"
	barDropped = "dropped"
)

// drawWaterfall draws steps between two instants. key names the row to open; by default it is the one that a person looks
// for: the first failure, else the one that waits, else the last.
func drawWaterfall(t *timeline.Timeline, begin, end time.Time, key string, from int) waterfall {
	rows := listRows(t.Steps(), 0, nil)
	scale := newScale(rows, begin, end)
	w := waterfall{Total: len(rows), Before: -1, After: -1, Shortened: scale.shortened}
	chosen := slices.IndexFunc(rows, func(r row) bool { return r.Key() == key })
	if chosen < 0 {
		chosen = findInteresting(rows)
	}
	for i := range rows {
		r := &rows[i]
		r.Selected = i == chosen
		r.drawBars(scale, begin, end)
	}
	if len(rows) > 0 && rows[0].Started.After(begin) {
		rows[0].addBar(scale, barQueue, begin, rows[0].Started, 0)
	}
	if chosen >= 0 {
		selected := rows[chosen]
		w.Selected = &selected
	}
	if from < 0 || from >= len(rows) {
		from = max(0, min(chosen-maxRows/2, len(rows)-maxRows))
	}
	to := min(from+maxRows, len(rows))
	if from > 0 {
		w.Before = max(0, from-maxRows)
	}
	if to < len(rows) {
		w.After = to
	}
	w.Rows = rows[from:to]
	w.Marks = []tick{{"0%", "0"}}
	for _, share := range []int{25, 50, 75} {
		w.Marks = append(w.Marks, tick{fmt.Sprintf("%d%%", share), shortDuration(scale.instantAt(float64(share)).Sub(begin))})
	}
	return w
}

// listRows lists steps with their iterations. Of many iterations that are done only the newest are listed.
func listRows(steps []*timeline.Step, depth int, rows []row) []row {
	done := 0
	for _, s := range steps {
		if s.State == timeline.Done {
			done++
		}
	}
	for _, s := range steps {
		if s.Path() != "" && s.State == timeline.Done {
			if done--; done >= maxShownDone {
				continue
			}
		}
		rows = append(rows, row{Step: s, Depth: depth, Mark: stepMarks[s.State]})
		rows = listRows(s.Below, depth+1, rows)
	}
	return rows
}

// findInteresting returns the row that is opened at first, -1 without rows.
func findInteresting(rows []row) int {
	for _, state := range []timeline.StepState{timeline.Failed, timeline.Waiting, timeline.Running} {
		if i := slices.IndexFunc(rows, func(r row) bool { return r.State == state && len(r.Below) == 0 }); i >= 0 {
			return i
		}
	}
	return len(rows) - 1
}

func (r *row) drawBars(scale scale, begin, end time.Time) {
	over := r.Ended
	if over.IsZero() {
		over = end
	}
	r.Lasted = max(0, over.Sub(r.Started))
	lanes := min(r.Attempts(), maxStacked)
	r.Height = max(rowHeight, 2*laneHeight+(lanes-1)*(laneHeight+2))
	attempt := 0
	for i, p := range r.Phases {
		until, last := over, i == len(r.Phases)-1
		if !last {
			until = r.Phases[i+1].From
		}
		kind := barWork
		switch p.State {
		case timeline.Waiting:
			kind = barWait
		case timeline.Failed:
			if kind = barQueue; last {
				continue // the end of the bar before
			}
		case timeline.Dropped, timeline.Done:
			continue
		}
		ends := !last && r.Phases[i+1].State == timeline.Failed || last && r.State == timeline.Failed
		if ends && kind == barWork {
			kind = barFailed
		}
		if last && r.State == timeline.Dropped || !last && r.Phases[i+1].State == timeline.Dropped {
			kind = barDropped
		}
		r.addBar(scale, kind, p.From, until, min(attempt, maxStacked-1))
		if p.State == timeline.Failed {
			attempt++
		}
	}
	for _, at := range r.Checkpoints {
		x, _ := scale.placeStretch(at, at)
		r.Ticks = append(r.Ticks, tick{x, "checkpoint after " + shortDuration(at.Sub(begin))})
	}
}

// addBar adds a bar in a lane, of which there is one for each attempt.
func (r *row) addBar(scale scale, kind string, from, to time.Time, lane int) {
	height, top := 12, 8
	if lanes := min(r.Attempts(), maxStacked); lanes > 1 {
		height, top = laneHeight, (r.Height-lanes*(laneHeight+2))/2
	}
	x, w := scale.placeStretch(from, to)
	r.Bars = append(r.Bars, bar{Kind: kind, X: x, W: w, Y: top + lane*(laneHeight+2), H: height, Title: barTitles[kind] + " " + shortDuration(to.Sub(from))})
}

var barTitles = map[string]string{barQueue: "queued for", barWork: "worked for", barWait: "waited for a person for", barFailed: "failed after", barDropped: "given up after"}

// scale maps time to the width of the page. A stretch in which nothing works is drawn no longer than a quarter of the work, so
// that a night of waiting leaves room for the steps.
type scale struct {
	stretches []stretch
	width     time.Duration
	shortened bool
}

// stretch is a part of the time that is drawn at one speed.
type stretch struct {
	from, to     time.Time
	start, width time.Duration
}

func newScale(rows []row, begin, end time.Time) scale {
	busy := findWork(rows, end)
	var work time.Duration
	for _, b := range busy {
		work += b.to.Sub(b.from)
	}
	longest := max(work/4, time.Second)
	var s scale
	at := begin
	add := func(to time.Time, most time.Duration) {
		if !to.After(at) {
			return
		}
		width := to.Sub(at)
		if most > 0 && width > most {
			width, s.shortened = most, true
		}
		s.stretches = append(s.stretches, stretch{at, to, s.width, width})
		s.width += width
		at = to
	}
	for _, b := range busy {
		add(b.from, longest)
		add(b.to, 0)
	}
	add(end, longest)
	return s
}

// findWork returns the times in which a step works, in order and apart from each other.
func findWork(rows []row, end time.Time) (busy []stretch) {
	for _, r := range rows {
		for i, p := range r.Phases {
			if p.State != timeline.Running || len(r.Below) > 0 {
				continue
			}
			until := r.Ended
			if i < len(r.Phases)-1 {
				until = r.Phases[i+1].From
			} else if until.IsZero() {
				until = end
			}
			busy = append(busy, stretch{from: p.From, to: until})
		}
	}
	slices.SortFunc(busy, func(a, b stretch) int { return a.from.Compare(b.from) })
	merged := busy[:0]
	for _, b := range busy {
		if n := len(merged); n > 0 && !b.from.After(merged[n-1].to) {
			merged[n-1].to = maxTime(merged[n-1].to, b.to)
			continue
		}
		merged = append(merged, b)
	}
	return merged
}

// offsetOf returns where an instant is drawn.
func (s scale) offsetOf(t time.Time) time.Duration {
	for _, p := range s.stretches {
		if t.Before(p.from) {
			return p.start
		}
		if !t.After(p.to) {
			return p.start + time.Duration(float64(t.Sub(p.from))/float64(p.to.Sub(p.from))*float64(p.width))
		}
	}
	return s.width
}

// instantAt returns the instant that is drawn at a share of the width, in percent.
func (s scale) instantAt(share float64) time.Time {
	offset := time.Duration(share / 100 * float64(s.width))
	for _, p := range s.stretches {
		if offset <= p.start+p.width {
			return p.from.Add(time.Duration(float64(offset-p.start) / float64(p.width) * float64(p.to.Sub(p.from))))
		}
	}
	if len(s.stretches) == 0 {
		return time.Time{}
	}
	return s.stretches[len(s.stretches)-1].to
}

// placeStretch returns the left end and the width of a stretch in percent. A short one can still be seen.
func (s scale) placeStretch(from, to time.Time) (x, w string) {
	if s.width == 0 {
		return "0%", "100%"
	}
	left := float64(s.offsetOf(from)) / float64(s.width) * 100
	width := max(float64(s.offsetOf(to))/float64(s.width)*100-left, 0.4)
	return fmt.Sprintf("%.2f%%", min(left, 99.6)), fmt.Sprintf("%.2f%%", width)
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
