package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// begin is when the runs of these tests begin.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newTimeline returns the timeline of facts, each with the second in which it happened and the nodes that it began.
func newTimeline(t *testing.T, facts ...struct {
	at      int
	fact    lattice.Fact
	started string
}) *timeline.Timeline {
	t.Helper()
	tl := timeline.New()
	for i, f := range facts {
		body, err := json.Marshal(f.fact)
		if err != nil {
			t.Fatal(err)
		}
		e := lattice.Entry{Seq: lattice.Seq(i + 1), At: begin.Add(time.Duration(f.at) * time.Second), Kind: lattice.EntryFact, Type: f.fact.FactType(), Body: body}
		if f.started != "" {
			e.Started = strings.Split(f.started, ",")
		}
		tl.Add(e)
	}
	return tl
}

type told = struct {
	at      int
	fact    lattice.Fact
	started string
}

// drawn writes a row as its name and its bars.
func drawn(r row) string {
	text := r.Label() + ":"
	for _, b := range r.Bars {
		text += " " + b.Title
	}
	if len(r.Ticks) > 0 {
		text += fmt.Sprintf(", %d checkpoints", len(r.Ticks))
	}
	return text
}

// TestWaterfall: queue, work and waits for people are told apart, attempts are stacked, and the first failure is opened.
func TestWaterfall(t *testing.T) {
	t.Parallel()
	tl := newTimeline(t,
		told{2, lattice.RunStarted{}, "build"},
		told{5, lattice.CallFinished{CommandID: "build#1", Kind: "tool_error"}, ""},
		told{6, lattice.TimerFired{CommandID: "build#1"}, ""},
		told{8, lattice.CallFinished{CommandID: "build#1", OK: true}, ""},
		told{9, lattice.BoundaryTaken{CommandID: "build#1"}, "ask"},
		told{3609, lattice.Answered{Decision: lattice.Approve, By: "ann"}, "push"},
		told{3611, lattice.CallFinished{CommandID: "push#1", Kind: "tool_error"}, ""},
	)
	w := drawWaterfall(tl, begin, begin.Add(3611*time.Second), "", -1)
	var rows []string
	for _, r := range w.Rows {
		rows = append(rows, drawn(r))
	}
	want := []string{
		"build: failed after 3.0 s queued for 1.0 s worked for 2.0 s queued for 2.0 s, 1 checkpoints",
		"ask: waited for a person for 1 h 0 min",
		"push: failed after 2.0 s",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
	if w.Selected == nil || w.Selected.Label() != "push" {
		t.Errorf("%+v is open, want push", w.Selected)
	}
	if first := w.Rows[0]; first.Attempts() != 2 || first.Bars[0].Y == first.Bars[len(first.Bars)-2].Y {
		t.Errorf("the attempts are not stacked: %+v", first.Bars)
	}
	if !w.Shortened {
		t.Error("an hour of waiting leaves no room for seconds of work")
	}
	if again := drawWaterfall(tl, begin, begin.Add(3611*time.Second), w.Rows[0].Key(), -1); again.Selected.Label() != "build" {
		t.Errorf("%s is open, want build", again.Selected.Label())
	}
}

// TestWaterfallBounds: of many steps a page has a part, and of many iterations that are done the newest.
func TestWaterfallBounds(t *testing.T) {
	t.Parallel()
	var facts []told
	facts = append(facts, told{0, lattice.RunStarted{}, "n0"})
	for i := range 1000 {
		facts = append(facts, told{i, lattice.CallFinished{CommandID: fmt.Sprintf("n%d#1", i), OK: true}, fmt.Sprintf("n%d", i+1)})
	}
	w := drawWaterfall(newTimeline(t, facts...), begin, begin.Add(time.Hour), "", -1)
	if len(w.Rows) != maxRows || w.Before < 0 || w.After >= 0 || w.Total != 1001 {
		t.Errorf("%d of %d rows, before %d, after %d", len(w.Rows), w.Total, w.Before, w.After)
	}
	if w := drawWaterfall(newTimeline(t, facts...), begin, begin.Add(time.Hour), "", 0); w.Before >= 0 || w.After != maxRows {
		t.Errorf("the first part has %d before and %d after it", w.Before, w.After)
	}
	facts = []told{{0, lattice.RunStarted{}, "each"}}
	for i := range 100 {
		facts = append(facts, told{i, lattice.TimerFired{}, fmt.Sprintf("each[%d]/work", i)}, told{i, lattice.TimerFired{}, fmt.Sprintf("each[%d]%s", i, lattice.IterationDone)})
	}
	if w := drawWaterfall(newTimeline(t, facts...), begin, begin.Add(time.Hour), "", -1); len(w.Rows) != 1+maxShownDone {
		t.Errorf("%d rows of a MAP, want %d", len(w.Rows), 1+maxShownDone)
	}
	if w := drawWaterfall(timeline.New(), begin, begin, "", -1); len(w.Rows) != 0 || w.Selected != nil {
		t.Errorf("a run without steps has %+v", w)
	}
}
