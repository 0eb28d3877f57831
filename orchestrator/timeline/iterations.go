package timeline

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// The part of the timeline that knows of MAPs, whose iterations may run at once.

// commandOf returns the ids of the command that a fact answers and of its call, "" if there is none.
func commandOf(fact lattice.Fact) (command, call string) {
	switch f := fact.(type) {
	case lattice.Prepared:
		return f.CommandID, ""
	case lattice.CallFinished:
		return f.CommandID, f.CallID
	case lattice.CallBlocked:
		return f.CommandID, f.CallID
	case lattice.CallSuspended:
		return f.CommandID, f.CallID
	case lattice.CallLost:
		return f.CommandID, f.CallID
	case lattice.BoundaryTaken:
		return f.CommandID, ""
	case lattice.Restored:
		return f.CommandID, ""
	case lattice.ActionDone:
		return f.CommandID, ""
	case lattice.TimerFired:
		return f.CommandID, ""
	case lattice.CommandFailed:
		return f.CommandID, ""
	case lattice.ModelAnswered:
		return f.CommandID, ""
	case lattice.ModelAskedAgain:
		return f.CommandID, ""
	case lattice.Attested:
		return f.CommandID, ""
	}
	return "", ""
}

// setCurrent makes the step of a command current, and gives it the earlier output of its call.
func (t *Timeline) setCurrent(command, call string) {
	if command == "" {
		return
	}
	s := t.lanes[lattice.IterationPath(command)]
	if s == nil {
		return
	}
	t.Current = s
	if said := t.said[call]; said != nil {
		s.Skill, s.Message = said.Skill, said.Message
		delete(t.said, call)
	}
}

// noteQuestion notes whose question is open: that of the call which began to wait, or, where several do, of the one for which a
// boundary was taken.
func (t *Timeline) noteQuestion(boundary bool) {
	if t.Current == nil {
		return
	}
	if boundary && t.Current.State == Waiting || !boundary && (t.asking == nil || t.asking.State != Waiting) {
		t.asking = t.Current
	}
}

// findSpeaker returns the step that a call belongs to; while several run, a place to keep its output.
func (t *Timeline) findSpeaker(call string) *Step {
	var running []*Step
	for _, s := range t.lanes {
		if s.Ended.IsZero() && !s.hasIterations() {
			running = append(running, s)
		}
	}
	switch {
	case len(running) == 1:
		return running[0]
	case len(running) == 0 || call == "":
		return t.Current
	case t.said[call] == nil:
		t.said[call] = &Step{}
	}
	return t.said[call]
}

var iterationEnds = []struct {
	suffix string
	state  StepState
}{{lattice.IterationDone, Done}, {lattice.IterationFailed, Failed}, {lattice.IterationDropped, Dropped}}

// goOn takes one name of Entry.Started: a node that began, or the end of an iteration.
func (t *Timeline) goOn(name string, at time.Time) {
	for _, end := range iterationEnds {
		if iteration, ok := strings.CutSuffix(name, end.suffix); ok {
			t.endIteration(iteration, at, end.state)
			return
		}
	}
	iteration, node := path.Split(name)
	t.beginStep(strings.TrimSuffix(iteration, "/"), node, at)
}

// beginStep lets the flow, or an iteration, go to a node.
func (t *Timeline) beginStep(iteration, node string, at time.Time) {
	s := t.lanes[iteration]
	switch {
	case iteration == "":
		if s != nil && s.State == Running {
			t.Current = s
			t.endStep(at, Done, s.Message)
		}
		s = &Step{Seq: t.seq, Started: at}
		t.steps = append(t.steps, s)
	case s == nil:
		s = &Step{Seq: t.seq, path: iteration, Started: at}
		up := t.lanes[strings.TrimSuffix(path.Dir(iteration), ".")]
		if up == nil {
			return
		}
		up.Below = append(up.Below, s)
	}
	s.Node, s.Skill, s.State, s.Ended = node, "", Running, time.Time{}
	s.answers, s.spent, s.since = 0, lattice.ModelUsage{}, at
	t.lanes[iteration], t.Current = s, s
}

// beginPreparation begins a step in which the sprite is made or restored.
func (t *Timeline) beginPreparation(name string, at time.Time) {
	t.beginStep("", name, at)
	t.Current.prepares = true
}

func (t *Timeline) endIteration(iteration string, at time.Time, state StepState) {
	s := t.lanes[iteration]
	if s == nil {
		return
	}
	s.Ended, s.State, s.endSeq = at, state, t.seq
	for lane := range t.lanes { // the steps in it are over, too
		if lane == iteration || strings.HasPrefix(lane, iteration+"/") {
			delete(t.lanes, lane)
		}
	}
	if up := t.lanes[strings.TrimSuffix(path.Dir(iteration), ".")]; up != nil {
		if up.ended == nil {
			up.ended = map[StepState]int{}
		}
		up.ended[state]++
		up.Message, t.Current = up.sumUp(), up
	}
}

// reopenBelow lets the iterations of a step go on that were under way behind an entry, and drops those that began later.
func (t *Timeline) reopenBelow(s *Step, at time.Time, seq lattice.Seq, message string) {
	for _, b := range s.Below {
		switch {
		case b.Seq > seq:
			if b.Ended.IsZero() {
				b.Ended, b.Message = at, "the power was lost"
			} else if b.endSeq > seq {
				s.ended[b.State]--
			}
			b.State = Dropped
			delete(t.lanes, b.path)
		case b.Ended.IsZero() || b.endSeq > seq:
			if !b.Ended.IsZero() {
				s.ended[b.State]--
			}
			b.Ended, b.State, b.Message = time.Time{}, Running, message
			t.lanes[b.path] = b
			t.reopenBelow(b, at, seq, message)
		}
	}
}

// closeSteps ends the open steps when the run has ended.
func (t *Timeline) closeSteps(at time.Time, state StepState, message string) {
	for iteration, s := range t.lanes {
		switch {
		case !s.Ended.IsZero():
		case iteration == "":
			s.Ended, s.State = at, state
			if message != "" {
				s.Message = cli.Clean(message)
			}
		default:
			s.Ended, s.State = at, Dropped
		}
	}
}

// maxShown is how many iterations of a MAP are drawn before those that are done are only counted.
const maxShown = 10

// Lines draws the timeline for people.
func (t *Timeline) Lines(now time.Time, colour bool) []string {
	return drawSteps(t.steps, "", now, colour)
}

// Progress draws the timeline for people who follow the run: without the steps that only decide, unless one takes long.
func (t *Timeline) Progress(now time.Time, colour bool) []string {
	steps := slices.DeleteFunc(slices.Clone(t.steps), func(s *Step) bool {
		return s.OnlyDecides() && (!s.Ended.IsZero() || now.Sub(s.Started) < time.Second)
	})
	return drawSteps(steps, "", now, colour)
}

func drawSteps(steps []*Step, indent string, now time.Time, colour bool) (out []string) {
	hidden := 0
	for i, s := range steps {
		if s.path != "" && len(steps) > maxShown && s.State == Done && i < len(steps)-3 {
			hidden++
			continue
		}
		out = append(out, indent+s.Text(now, colour))
		out = append(out, drawSteps(s.Below, indent+"  ", now, colour)...)
	}
	if hidden > 0 {
		out = slices.Insert(out, 0, fmt.Sprintf("%s… %d more, done", indent, hidden))
	}
	return out
}
