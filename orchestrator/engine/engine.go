// Package engine runs ExecIR programs. [Step] is its core, a pure function: (program, state, fact) → (state, commands). It
// reads no clock, draws no random number, does no I/O and does not depend on the order of a map. Commands stay in
// State.Pending until a fact answers them, so that recovery means performing the pending commands.
//
// This package holds one type per op: call.go and suspend.go have TOOL_CALL, llm.go
// the ops that ask models, human.go and simple.go the other simple ones, map.go, bodies.go and body.go the nodes that run others
// inside. operation.go has the table. The packages below it are:
//
//   - runstate: the state of a run, its digest and its encoding;
//   - machine: threads, visits, edges, retries, waits, limits; it applies a fact and calls the ops;
//   - replay: folds a journal, compares it with its records and finds the points to which a run can go back;
//   - driver: the one owner of a run, which appends facts before it believes them and performs commands.
//
// DESIGN.md explains the hard parts.
//
// Invariants: a fact is on disk before any effect that follows from it; a call is dispatched again only under the same
// id and only if its class allows it (DESIGN 14); a run's state equals the fold of its journal.
package engine

import (
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Errors of Step.
var (
	// ErrStale marks a fact that comes too late: an answer to a wait that is no longer open, the outcome of a command that
	// has been answered, any fact but an observation after the end of the run. Drivers treat it as a duplicate.
	ErrStale = machine.ErrStale
	// ErrAnswer marks a decision that does not fit the wait that it answers; the wait stays open.
	ErrAnswer = machine.ErrAnswer
)

// Step applies one fact. It returns the next state and the new commands, which are also in State.Pending, and never
// changes s. It returns s and an error if the fact is illegal in this state; see [ErrStale] and [ErrAnswer]. A failure of
// the flow itself is part of the state, not an error.
func Step(p *ir.Program, s runstate.State, f lattice.Fact) (runstate.State, []lattice.Command, error) {
	return machine.Step(operationOf, p, s, f)
}

// StepBefore is Step up to the moment at, whose Seq does not count. It reports whether it got there; inside of another node, it
// does not if anything else is at work then.
func StepBefore(p *ir.Program, s runstate.State, f lattice.Fact, at lattice.Moment) (runstate.State, bool, error) {
	return machine.StepBefore(operationOf, p, s, f, at)
}
