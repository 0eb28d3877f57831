package engine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Next is the run that goes on where a legacy question was answered (DESIGN 25). Whoever drives starts it, if there is
// none of this id yet.
type Next struct {
	RunID   string            `json:"run_id"`
	Answers map[string]string `json:"answers"` // in addition to those that this run had
}

// callBlocked stops the run where a call asked in the way of the time before v1. Such a program does not wait: nothing
// of this run goes on, and the answer begins another one.
func (t callOp) callBlocked(f lattice.CallBlocked) {
	kind, status := lattice.WaitQuestion, lattice.BlockedWaitingForUser
	if f.Question.Kind == protocol.KindBlocked {
		kind, status = lattice.WaitBlocked, lattice.Blocked
	}
	t.m.s.Waits = []lattice.Wait{{
		ID:   "wait_" + t.visitKey("wait", string(kind)),
		Kind: kind, Node: t.Node, Path: t.path, Prompt: f.Question.Prompt, Reason: f.Question.Kind,
		Choices: f.Question.Choices, Default: f.Question.Default, QuestionID: f.Question.ID,
		Expected: map[string]string{protocol.AnswerName: "string"},
	}}
	t.m.stopRun(status)
}

// legacyAnswered ends the run in favour of the next one. An empty answer takes the question's default.
func (m *machine) legacyAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	given, ok := inputs[protocol.AnswerName].(string)
	if f.Decision != lattice.Answer || !ok {
		return fmt.Errorf("%w: a question is answered by answer=TEXT", ErrAnswer)
	}
	if given == "" {
		given = w.Default
	}
	switch {
	case given == "":
		return fmt.Errorf("%w: the answer is empty, and the question has no default", ErrAnswer)
	case len(w.Choices) > 0 && !slices.Contains(w.Choices, given):
		return fmt.Errorf("%w: the answer must be one of %q", ErrAnswer, w.Choices)
	}
	q := protocol.Question{ID: w.QuestionID, Prompt: w.Prompt}
	m.s.Next = &Next{RunID: lattice.LinkedRun(m.s.RunID, w.ID), Answers: q.Answers(given)}
	m.endRun(lattice.Canceled, &ir.Failure{
		Kind: ir.FailCancelled, Message: fmt.Sprintf("answered by %s; %s goes on", f.By, m.s.Next.RunID), Node: w.Node,
	})
	return nil
}
