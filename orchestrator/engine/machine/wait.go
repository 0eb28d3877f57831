package machine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// legacyAnswered ends the run in favour of the next one. An empty answer takes the question's default.
func (m *Machine) legacyAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	given, ok := inputs[protocol.AnswerName].(string)
	if f.Decision != lattice.Answer || !ok {
		return fmt.Errorf("%w: a question is answered by answer=TEXT", ErrAnswer)
	}
	given = cmp.Or(given, w.Default)
	switch {
	case given == "":
		return fmt.Errorf("%w: the answer is empty, and the question has no default", ErrAnswer)
	case len(w.Choices) > 0 && !slices.Contains(w.Choices, given):
		return fmt.Errorf("%w: the answer must be one of %q", ErrAnswer, w.Choices)
	}
	q := protocol.Question{ID: w.QuestionID, Prompt: w.Prompt}
	m.State.Next = &runstate.Next{RunID: lattice.LinkedRun(m.State.RunID, w.ID), Answers: q.Answers(given)}
	m.endRun(lattice.Canceled, &expr.Failure{
		Kind: expr.FailCancelled, Message: fmt.Sprintf("answered by %s; %s goes on", f.By, m.State.Next.RunID), Node: w.Node,
	})
	return nil
}

// OpenWait asks a person; the run waits.
func (t *Thread) OpenWait(w lattice.Wait) {
	m := t.Run
	m.State.Serial++
	w.Node, w.Path = t.Node, t.Path
	w.ID = "wait_" + t.VisitKey("wait", string(w.Kind), fmt.Sprint(m.State.Serial))
	m.State.Waits = append(m.State.Waits, w)
	m.setStatus(lattice.Waiting)
}

// CloseWait ends a wait and the timer that may run against it, and goes on in its thread. People may have written in the
// sprite meanwhile.
func (t *Thread) CloseWait(w lattice.Wait) {
	m := t.Run
	m.InvalidateCache(t.Sprite())
	m.State.Waits = slices.DeleteFunc(m.State.Waits, func(o lattice.Wait) bool { return o.ID == w.ID })
	m.State.Pending = slices.DeleteFunc(m.State.Pending, func(c lattice.Command) bool { return c.Kind == lattice.DoTimer && c.Path == t.Path })
	m.setStatus(lattice.Running)
}

// waitAnswered takes a person's decision on a wait.
func (m *Machine) waitAnswered(f lattice.Answered) error {
	w, ok := m.State.FindWait(f.WaitID)
	if !ok {
		return fmt.Errorf("%w: wait %s is not open", ErrStale, f.WaitID)
	}
	inputs, err := DecodeObject(f.Inputs)
	if err != nil {
		return fmt.Errorf("%w: inputs: %v", ErrAnswer, err)
	}
	switch f.Decision {
	case lattice.Approve, lattice.Reject, lattice.Answer:
	default:
		return fmt.Errorf("%w: decision %q; use approve, reject or answer", ErrAnswer, f.Decision)
	}
	if w.Kind == lattice.WaitQuestion || w.Kind == lattice.WaitBlocked { // the run has been stopped, and no thread is left
		return m.legacyAnswered(w, f, inputs)
	}
	t := m.thread(w.Path)
	op, ok := t.operation().(decider)
	if !ok {
		return fmt.Errorf("wait %s has an unknown kind %q", w.ID, w.Kind)
	}
	return op.Decided(w, f, inputs)
}
