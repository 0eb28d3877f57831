// Package engine runs ExecIR programs. It has two halves:
//
//   - [Step], the pure core: (program, state, fact) → (state, commands). It reads no clock, draws no random number, does
//     no I/O and does not depend on the order of a map. Commands stay in State.Pending until a fact answers them, so
//     recovery means performing the pending commands.
//   - [Runner], the driver: the one owner of a run. It appends facts to the log before it believes them, performs commands
//     through small interfaces (Log, Caller, Boundary, Preparer, Actor) and feeds their outcomes back as facts.
//
// Start with Step and [State]. operation.go has the table of ops; call.go and suspend.go hold the rules of TOOL_CALL,
// llm.go, human.go and simpleops.go those of the other simple ops, mapop.go and inner.go those of nodes that run others
// inside. thread.go says where in a run a node is visited, flow.go how a visit begins and ends, vars.go how a node writes
// its outputs, drain.go which calls wait for others. copies.go, cache.go, overdue.go and undo.go add forks of sprites,
// cached answers, timeouts and compensation. DESIGN.md explains the hard parts.
//
// Time: entries carry the wall clock. A run's timeout counts the time that it is driven while the machine is awake; timers
// count sleep, and setting the clock does not change them. See clock.go.
//
// Invariants: a fact is on disk before any effect that follows from it; a call is dispatched again only under the same
// id and only if its class allows it (DESIGN 14); a run's state equals the fold of its journal.
package engine

import (
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Step applies one fact. It returns the next state and the new commands, which are also in State.Pending, and never
// changes s. It returns s and an error if the fact is illegal in this state; see [ErrStale] and [ErrAnswer]. A failure of
// the flow itself is part of the state, not an error.
func Step(p *ir.Program, s State, f lattice.Fact) (State, []lattice.Command, error) {
	return applyStep(operationOf, p, s, f)
}

// StepBefore is Step up to the moment when the flow itself would begin a visit of a node. It reports whether it got there.
func StepBefore(p *ir.Program, s State, f lattice.Fact, node string, visit int) (State, bool, error) {
	return stepUntil(operationOf, p, s, f, node, visit)
}
