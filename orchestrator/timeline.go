package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// timeline folds a run's entries into one step per node visit. It is pure; both lattice show and the live progress of
// lattice run draw it.
type timeline struct {
	steps   []*step
	current *step
}

// step is one visit of a node.
type step struct {
	node, skill    string
	started, ended time.Time
	state          stepState
	message        string // the last thing it said, or why it failed
}

type stepState string

const (
	stepRunning stepState = "running"
	stepDone    stepState = "done"
	stepFailed  stepState = "failed"
	stepWaiting stepState = "waiting"
)

func newTimeline() *timeline { return &timeline{} }

// add takes the next entry; it reports whether anything to be seen changed.
func (t *timeline) add(e lattice.Entry) bool {
	if e.Kind == lattice.EntryEvent {
		return t.event(e)
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return false
	}
	before := t.current
	switch f := fact.(type) {
	case lattice.RunStarted:
		if f.Sprite != "" {
			t.begin("prepare", e.At)
		}
	case lattice.CallFinished:
		t.finish(e.At, f)
	case lattice.CallSuspended:
		t.set(stepWaiting, f.Reason)
		if f.Verdict == lattice.Deny {
			t.set(stepRunning, "refused: "+f.DenyReason)
		}
	case lattice.CallLost:
		t.set(stepRunning, "cut off: "+f.Detail)
	case lattice.Restored:
		t.set(stepRunning, "files restored to "+f.Pair.CheckpointID)
	case lattice.Answered:
		t.set(stepRunning, fmt.Sprintf("%s by %s", decided[f.Decision], f.By))
	case lattice.ActionDone:
		t.set(stepRunning, actionText(f))
	case lattice.TimerFired:
		t.set(stepRunning, "tries again")
	case lattice.CommandFailed:
		t.end(e.At, stepFailed, f.Fault.Message)
	case lattice.CancelRequested:
		t.end(e.At, stepFailed, "canceled by "+f.By)
	}
	for _, node := range e.Started {
		if t.current != nil && t.current.state == stepRunning {
			t.end(e.At, stepDone, t.current.message)
		}
		t.begin(node, e.At)
	}
	return t.current != before || t.current != nil
}

var decided = map[lattice.Decision]string{lattice.Approve: "approved", lattice.Reject: "rejected", lattice.Answer: "answered"}

func (t *timeline) begin(node string, at time.Time) {
	t.current = &step{node: node, started: at, state: stepRunning}
	t.steps = append(t.steps, t.current)
}

// pause shows that the run waits for a person, which is state and no entry of its own.
func (t *timeline) pause(waits []lattice.Wait) {
	if len(waits) > 0 && t.current != nil && t.current.state == stepRunning {
		t.set(stepWaiting, waits[0].Prompt)
	}
}

func (t *timeline) set(state stepState, message string) {
	if t.current != nil {
		t.current.state, t.current.message = state, clean(message)
	}
}

func (t *timeline) end(at time.Time, state stepState, message string) {
	if t.current != nil && t.current.ended.IsZero() {
		t.current.ended, t.current.state, t.current.message = at, state, clean(message)
	}
}

func (t *timeline) finish(at time.Time, f lattice.CallFinished) {
	if f.OK {
		t.end(at, stepDone, summary(f.Data))
		return
	}
	message := f.Kind
	if f.Fault != nil {
		message = f.Fault.Code + ": " + f.Fault.Message
	}
	t.end(at, stepFailed, message)
}

// event shows what the running step says.
func (t *timeline) event(e lattice.Entry) bool {
	if t.current == nil || len(e.Problems) > 0 {
		return false
	}
	ev, _, ok := protocol.Decode(e.Body)
	if !ok {
		return false
	}
	payload, err := ev.Open()
	if err != nil {
		return false
	}
	if slices.Contains(e.Flags, "orchestrator") { // the run's own end
		if _, ok := payload.(protocol.Completed); ok && t.current.state == stepRunning {
			t.end(e.At, stepDone, t.current.message)
		}
		return true
	}
	switch p := payload.(type) {
	case protocol.PhaseStarted:
		t.current.skill = clean(p.Phase)
	case protocol.Info:
		if p.Kind == "result" {
			return false
		}
		t.current.message = clean(p.Message)
	default:
		return false
	}
	return true
}

// summary picks what a person wants to see of a skill's data.
func summary(data json.RawMessage) string {
	var d struct {
		Status string `json:"status"`
		Commit string `json:"commit"`
		Head   string `json:"head"`
		Branch string `json:"branch"`
		Counts *struct {
			Total  int `json:"total"`
			Failed int `json:"failed"`
		} `json:"counts"`
	}
	if json.Unmarshal(data, &d) != nil {
		return ""
	}
	var parts []string
	if d.Status != "" {
		parts = append(parts, d.Status)
	}
	if d.Counts != nil && d.Counts.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d tests, %d failed", d.Counts.Total, d.Counts.Failed))
	}
	if d.Branch != "" {
		parts = append(parts, d.Branch)
	}
	for _, sha := range []string{d.Commit, d.Head} {
		if len(sha) >= 10 {
			parts = append(parts, sha[:10])
			break
		}
	}
	return clean(strings.Join(parts, " "))
}

func actionText(f lattice.ActionDone) string {
	if f.OK {
		return "done outside; resuming"
	}
	if f.Fault != nil {
		return "not done: " + f.Fault.Message
	}
	return "not done"
}

// text draws a step on one line.
func (s *step) text(now time.Time, colour bool) string {
	mark := map[stepState]string{stepRunning: "▸", stepDone: "✓", stepFailed: "✗", stepWaiting: "⏸"}[s.state]
	if colour {
		mark = map[stepState]string{stepRunning: "\x1b[36m", stepDone: "\x1b[32m", stepFailed: "\x1b[31m", stepWaiting: "\x1b[33m"}[s.state] + mark + "\x1b[0m"
	}
	end := s.ended
	if end.IsZero() {
		end = now
	}
	return strings.TrimRight(fmt.Sprintf("%s %-14s %-10s %6.1fs  %s", mark, s.node, s.skill, max(0, end.Sub(s.started).Seconds()), s.message), " ")
}

// superseded names the events of calls that were cut off and done again from an earlier checkpoint: what they said
// since that checkpoint is no longer true of the sprite's files. A call that waited goes back to where it waited; one
// that only reads is done again where it stands, and everything it said stays.
func superseded(entries []lattice.Entry) map[lattice.Seq]bool {
	gone := map[lattice.Seq]bool{}
	since := map[string][]lattice.Seq{} // events of a call since its checkpoint
	lost := ""                          // the call that was cut off last
	for _, e := range entries {
		if e.Kind == lattice.EntryEvent {
			since[e.CallID] = append(since[e.CallID], e.Seq)
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			continue
		}
		switch f := fact.(type) {
		case lattice.CallSuspended:
			delete(since, f.CallID)
			lost = ""
		case lattice.CallFinished:
			lost = ""
		case lattice.CallLost:
			lost = f.CallID
		case lattice.Restored:
			for _, seq := range since[lost] {
				gone[seq] = true
			}
			delete(since, lost)
			lost = ""
		}
	}
	return gone
}
