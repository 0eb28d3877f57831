// Package machine applies facts to the state of a run. It knows threads, visits, attempts, edges, waits and limits, but no
// op: the rules of each op come through the interface [Operation], from a table that [Step] is given. Start with Step and
// its drawing; flow.go says how a visit begins and ends, vars.go how a node writes its outputs, barrier.go which calls wait
// for others, iteration.go and overdue.go how iterations end, undo.go how completed nodes are undone. It is pure: it never
// reads a clock, draws a random number or does I/O.
package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Step is engine.Step with the ops of a table.
//
// One visit of a node:
//
//	applyFact ──▶ answered ──▶ operation.answered ◀──────────────┐
//	    │                          │                            fact
//	    ▼                          │                             │
//	 schedule ─▶ ready             │                          driver
//	    ▲          │ runNext       │                             ▲
//	    │          ▼               │                          command
//	    │      enterNode           │                             │
//	    │          │ when_skip, max_steps                        │
//	    │          ▼               ▼                             │
//	    │     startAttempt ─▶ operation.begin ──▶ issue ─▶ State.Pending
//	    │          ▲               │       └────▶ openWait ─▶ State.Waits
//	    │   timer  │               │
//	    │          │        ┌──────┴─────────┐
//	    │    failAttempt ◀──┤ attempt failed │ ended ─▶ completeNode
//	    │          │        └────────────────┘              │ outputs
//	    │          ▼ no retry rule                          ▼
//	    ├──── failVisit (catch)                        followEdge
//	    │          │                                        │
//	    └──────────┼────────────────────────────────────────┤
//	               ▼ not caught                             ▼ no edge
//	           failThread                             completeThread
//	     (iteration, compensation, end)             (iteration, end of the run)
func Step(ops Operations, p *ir.Program, s runstate.State, f lattice.Fact) (runstate.State, []lattice.Command, error) {
	m := &Machine{Program: p, State: s.Clone(), operations: ops}
	if err := m.applyFact(f); err != nil {
		return s, nil, err
	}
	for m.Err == nil && m.runNext() {
	}
	m.settleStatus()
	if m.Err != nil {
		return s, nil, m.Err
	}
	return m.State, m.commands, nil
}

// settleStatus sets a run to waiting if one of several waits was closed and nothing else is pending.
func (m *Machine) settleStatus() {
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer }
	if m.Err == nil && m.State.Status == lattice.Running && len(m.State.Waits) > 0 && !slices.ContainsFunc(m.State.Pending, busy) {
		m.setStatus(lattice.Waiting)
	}
}

// runNext makes the next move that follows from the fact. It reports whether there was one.
func (m *Machine) runNext() bool {
	if len(m.State.Overdue) > 0 && m.giveUpOverdue() {
		return true
	}
	if len(m.ready) == 0 {
		return m.releaseHeld()
	}
	next := m.ready[0]
	m.ready = m.ready[1:]
	next.thread.enterNode(next.node)
	return true
}

func (m *Machine) applyFact(f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.RunStarted:
		return m.startRun(f)
	case lattice.RunForked:
		return m.startFork(f)
	case lattice.Rewound:
		return m.rewindRun(f)
	}
	switch f.(type) {
	case lattice.ActionNoted, lattice.ActionDecided, lattice.ActionSettled:
		return nil // recorded only; they never change the state
	}
	if m.State.Status.Ended() {
		return fmt.Errorf("%w: the run is %s", ErrStale, m.State.Status)
	}
	if m.State.Recovering != nil {
		switch f.(type) {
		case lattice.Restored, lattice.CommandFailed, lattice.CancelRequested, lattice.PowerLost:
		default:
			return fmt.Errorf("%w: %s", ErrRecovering, f.FactType())
		}
	}
	if m.State.Status == lattice.Pending {
		if _, ok := f.(lattice.CancelRequested); !ok {
			return fmt.Errorf("%s before RunStarted", f.FactType())
		}
	}
	switch f := f.(type) {
	case lattice.PowerLost:
		return m.powerLost(f)
	case lattice.Answered:
		return m.waitAnswered(f)
	case lattice.CommandFailed:
		return m.commandFailed(f)
	case lattice.ModelAskedAgain:
		return m.modelAskedAgain(f)
	case lattice.TimerFired:
		if f.CommandID == RunTimer {
			return m.runTimedOut()
		}
	case lattice.CancelRequested:
		m.endRun(lattice.Canceled, &expr.Failure{Kind: expr.FailCancelled, Message: "canceled by " + f.By, Node: m.State.Node})
		return nil
	}
	id, kinds := answers(f)
	if kinds == nil {
		return fmt.Errorf("unknown fact type %s", f.FactType())
	}
	c, t, err := m.takeCommand(id, kinds...)
	if err != nil {
		return err
	}
	return m.Answered(t, c, f)
}

// answers returns the id of the command that f answers and the kinds that it may be of, no kinds for other facts.
func answers(f lattice.Fact) (id string, kinds []lattice.CommandKind) {
	switch f := f.(type) {
	case lattice.Prepared:
		return f.CommandID, []lattice.CommandKind{lattice.DoPrepare, lattice.DoFork}
	case lattice.CallFinished:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallBlocked:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallSuspended:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallLost:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.BoundaryTaken:
		return f.CommandID, []lattice.CommandKind{lattice.DoCheckpoint}
	case lattice.Restored:
		return f.CommandID, []lattice.CommandKind{lattice.DoRestore}
	case lattice.ActionDone:
		return f.CommandID, []lattice.CommandKind{lattice.DoAction}
	case lattice.TimerFired:
		return f.CommandID, []lattice.CommandKind{lattice.DoTimer}
	case lattice.ModelAnswered:
		return f.CommandID, []lattice.CommandKind{lattice.DoModel}
	case lattice.Attested:
		return f.CommandID, []lattice.CommandKind{lattice.DoAttest}
	}
	return "", nil
}

// Answered goes on in t with the fact that answers c. Facts about the files of the whole run are taken here, all others
// by the op of the node that t visits.
func (m *Machine) Answered(t *Thread, c lattice.Command, f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.Prepared:
		return m.spritePrepared(t, c, f)
	case lattice.Restored:
		if r := m.State.Recovering; r != nil && r.Command == c.ID {
			return m.resumeRecovered(*c.Pair)
		}
		m.setPair(*c.Pair, c.Sprite)
		m.InvalidateCache(c.Sprite)
		if t.Visit == nil { // of a rewind, which begins the node again
			t.Schedule(t.Node)
			return nil
		}
	case lattice.BoundaryTaken:
		if f.Pair.CheckpointID == "" {
			return errors.New("BoundaryTaken without a checkpoint id")
		}
		f.Pair.Sprite = c.Sprite
		m.setPair(f.Pair, c.Sprite)
	case lattice.TimerFired:
		if t.Visit.Map == nil && !m.timesVisit(t) {
			t.Visit.Attempt++
			t.Visit.Losses = 0
			t.startAttempt()
			return nil
		}
	}
	node := m.Program.Node(t.Node)
	return t.operation().Answered(node, c, f)
}

// timesVisit reports whether the timer of t limits or makes up its visit; any other is the delay before the next attempt.
func (m *Machine) timesVisit(t *Thread) bool {
	return m.Program.Node(t.Node).Op == ir.OpWait || slices.ContainsFunc(m.State.Waits, func(w lattice.Wait) bool { return w.Path == t.Path })
}

func (m *Machine) startRun(f lattice.RunStarted) error {
	switch {
	case m.State.Status != lattice.Pending:
		return fmt.Errorf("%w: run %s has started before", ErrStale, m.State.RunID)
	case f.RunID != m.State.RunID:
		return fmt.Errorf("RunStarted of run %q in the journal of %q", f.RunID, m.State.RunID)
	case f.Program != m.Program.Digest:
		return fmt.Errorf("run %s was started with program %s, not %s", f.RunID, f.Program, m.Program.Digest)
	case m.Program.CallsSkills() && f.Sprite == "":
		return fmt.Errorf("run %s calls skills but has no sprite", f.RunID)
	}
	in, err := DecodeObject(f.Input)
	if err != nil {
		return fmt.Errorf("run input: %w", err)
	}
	ctx, err := DecodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("run context: %w", err)
	}
	m.State.WorkItem, m.State.Program, m.State.Sprite = f.WorkItem, f.Program, f.Sprite
	m.State.Grants = slices.Sorted(slices.Values(f.Grants))
	m.State.In, m.State.Ctx, m.State.Disk = in, ctx, f.Disk
	m.State.AskWorld, m.State.ApproveWorld, m.State.BelowExec = f.AskWorld, slices.Clone(f.ApproveWorld), f.BelowExec
	m.setStatus(lattice.Running)
	switch {
	case len(f.Input) > m.maxStateBytes():
		m.endRun(lattice.Failed, Failf(expr.FailLimit, "the input has %d bytes; max_state_bytes is %d", len(f.Input), m.maxStateBytes()))
	case m.Program.CallsSkills():
		m.flow().Issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
	default:
		m.flow().Schedule(m.Program.Doc.EntryNode)
	}
	return nil
}

// spritePrepared begins the flow, the iteration or the call whose sprite is ready.
func (m *Machine) spritePrepared(t *Thread, c lattice.Command, f lattice.Prepared) error {
	extra, err := DecodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("prepared context: %w", err)
	}
	m.State.Dirty[c.Sprite] = true
	if t.Visit != nil { // the call's own fork
		return t.operation().Answered(m.Program.Node(t.Node), c, f)
	}
	if t.up != nil && c.Sprite != m.State.Sprite { // the iteration's own fork
		t.Schedule(m.Program.Inner(m.Program.Node(t.up.Node), t.Iteration.Index).EntryNode)
		return nil
	}
	m.State.Ctx = mergeMaps(m.State.Ctx, extra)
	t.Schedule(cmp.Or(t.Node, m.Program.Doc.EntryNode)) // a fork begins where the other run was
	return nil
}

// runTimedOut ends the run at its limits.timeout_s.
func (m *Machine) runTimedOut() error {
	if m.Program.Doc.Limits == nil || m.Program.Doc.Limits.TimeoutS <= 0 || m.State.Status != lattice.Running {
		return fmt.Errorf("the run's timeout fired for a run that is %s and may take any time then", m.State.Status)
	}
	m.endRun(lattice.Failed, Failf(expr.FailTimeout, "the run took longer than its %g seconds", m.Program.Doc.Limits.TimeoutS))
	return nil
}

func (m *Machine) commandFailed(f lattice.CommandFailed) error {
	c, ok := m.State.FindCommand(f.CommandID)
	if !ok {
		return fmt.Errorf("%w: command %s is not pending", ErrStale, f.CommandID)
	}
	data, err := expr.Marshal(f.Fault)
	if err != nil {
		return fmt.Errorf("encode fault: %w", err)
	}
	m.endRun(lattice.Failed, &expr.Failure{
		Kind: expr.FailToolUnavailable, Message: fmt.Sprintf("%s: %s", c.Kind, f.Fault.Message), Node: c.Node, Data: data,
	})
	return nil
}
