package engine

import (
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// callBlocked stops the run where a call asked in the way of the time before v1. Such a program does not wait: nothing
// of this run goes on, and the answer begins another one.
func (t callOp) callBlocked(f lattice.CallBlocked) {
	kind, status := lattice.WaitQuestion, lattice.BlockedWaitingForUser
	if f.Question.Kind == protocol.KindBlocked {
		kind, status = lattice.WaitBlocked, lattice.Blocked
	}
	t.Run.State.Waits = []lattice.Wait{{
		ID:   "wait_" + t.VisitKey("wait", string(kind)),
		Kind: kind, Node: t.Node, Path: t.Path, Prompt: f.Question.Prompt, Reason: f.Question.Kind,
		Choices: f.Question.Choices, Default: f.Question.Default, QuestionID: f.Question.ID,
		Expected: map[string]string{protocol.AnswerName: "string"},
	}}
	t.Run.StopRun(status)
}
