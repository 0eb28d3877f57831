package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// StepBefore is engine.StepBefore with the ops of a table.
func StepBefore(ops Operations, p *ir.Program, s runstate.State, f lattice.Fact, at lattice.Moment) (runstate.State, bool, error) {
	m := &Machine{Program: p, State: s.Clone(), operations: ops}
	if err := m.applyFact(f); err != nil {
		return s, false, err
	}
	for m.Err == nil {
		if len(m.ready) > 0 {
			next := m.ready[0]
			if next.thread.Path == at.Path && next.node == at.Node && next.thread.Visits[at.Node]+1 == at.Visit {
				return m.State, at.Path == "" || m.isAlone(next.thread), nil
			}
		}
		if !m.runNext() {
			return s, false, m.Err
		}
	}
	return s, false, m.Err
}

// isAlone reports whether the iteration of t, which is about to begin a node, is all that is at work in the run. The timers of
// the nodes around it do not count.
func (m *Machine) isAlone(t *Thread) bool {
	s := &m.State
	busy := func(c lattice.Command) bool { return !timesAround(c, t.Path) }
	return len(m.ready) == 1 && len(s.Waits)+len(s.Held)+len(s.Settling)+len(s.Overdue) == 0 && s.Undoing == nil &&
		!slices.ContainsFunc(s.Pending, busy) && s.IsSingle(t.Path)
}

// timesAround reports whether c is the timer of a node around the iteration with a path.
func timesAround(c lattice.Command, path string) bool {
	return c.Kind == lattice.DoTimer && c.Path != path && (c.Path == "" || runstate.Within(path, c.Path))
}

// rewindRun goes on from the moment that f names, under a new epoch, once the files are there.
func (m *Machine) rewindRun(f lattice.Rewound) error {
	if m.State.Status == lattice.Pending {
		return fmt.Errorf("a rewind before RunStarted")
	}
	then, err := decodeMoment(m.Program, f.State, f.Moment)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	if then.RunID != m.State.RunID {
		return fmt.Errorf("rewind of run %s to a state of run %s", m.State.RunID, then.RunID)
	}
	then.Epoch = m.State.Epoch + 1
	then.Models, then.ModelsBy = m.State.Models, m.State.ModelsBy                                                  // no way back takes money back
	then.Disk, then.Losses, then.Records, then.Recovering = cmp.Or(f.Disk, m.State.Disk), m.State.Losses, nil, nil // it was asked for, with the effects behind it
	t := m.moveTo(then, f.Moment)
	if f.Pair != nil {
		t.Issue(Restore(*f.Pair))
		return nil
	}
	t.Schedule(f.Moment.Node)
	return nil
}

// startFork begins a run at a moment of another one.
func (m *Machine) startFork(f lattice.RunForked) error {
	switch {
	case m.State.Status != lattice.Pending:
		return fmt.Errorf("%w: run %s has started before", ErrStale, m.State.RunID)
	case f.RunID != m.State.RunID:
		return fmt.Errorf("RunForked of run %q in the journal of %q", f.RunID, m.State.RunID)
	case f.Program != m.Program.Digest:
		return fmt.Errorf("run %s was forked with program %s, not %s", f.RunID, f.Program, m.Program.Digest)
	}
	own, err := DecodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("context of the fork: %w", err)
	}
	then, err := decodeMoment(m.Program, f.State, f.Moment)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	then.RunID, then.WorkItem, then.Sprite, then.Epoch = f.RunID, f.WorkItem, f.Sprite, 0
	then.Pairs, then.Dirty = map[string]lattice.Pair{}, map[string]bool{}
	then.Cache, then.Kept, then.Marks = nil, nil, nil                           // they belong to the other run
	then.Disk, then.Losses, then.Records, then.Recovering = f.Disk, 0, nil, nil // so do its losses
	then.Ctx = mergeMaps(then.Ctx, own)
	if len(f.Set) > 0 && m.isInMap(then, f.Moment) {
		return fmt.Errorf("%w: the items of a MAP may depend on variables, so that none can be set inside of it", ErrAnswer)
	}
	for _, set := range f.Set {
		value, err := expr.Decode(set.Value)
		if err != nil {
			return fmt.Errorf("%w: value of %s: %v", ErrAnswer, set.Path, err)
		}
		if bad := expr.Assign(set.Path, then.Vars, then.Tmp, value); bad != nil {
			return fmt.Errorf("%w: %s", ErrAnswer, bad.Message)
		}
	}
	t := m.moveTo(then, f.Moment)
	if f.Pair != nil {
		t.Issue(lattice.Command{Kind: lattice.DoFork, Sprite: f.Sprite, Pair: f.Pair})
		return nil
	}
	if m.Program.CallsSkills() { // the other run had no files yet
		t.Issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
		return nil
	}
	t.Schedule(f.Moment.Node)
	return nil
}

// isInMap reports whether a moment is inside of a MAP.
func (m *Machine) isInMap(s runstate.State, at lattice.Moment) bool {
	for l, own := range s.LanesTo(at.Path) {
		if own != at.Path && m.Program.Node(l.Node).Op == ir.OpMap {
			return true
		}
	}
	return false
}

// decodeMoment reads the state of a moment, whose program must be this one.
func decodeMoment(p *ir.Program, raw json.RawMessage, at lattice.Moment) (runstate.State, error) {
	then, err := runstate.Decode(raw)
	switch {
	case err != nil:
		return runstate.State{}, err
	case then.Program != p.Digest:
		return runstate.State{}, fmt.Errorf("the state is of program %s, not %s", then.Program, p.Digest)
	case p.Node(at.Node) == nil:
		return runstate.State{}, fmt.Errorf("the program has no node %q", at.Node)
	case then.FindLane(at.Path) == nil:
		return runstate.State{}, fmt.Errorf("the state has no iteration %q", at.Path)
	case then.Status != lattice.Running || len(then.Waits) > 0 || slices.ContainsFunc(then.Pending, func(c lattice.Command) bool { return !timesAround(c, at.Path) }):
		return runstate.State{}, fmt.Errorf("the state is not of a moment: it is %s, with %d commands pending", then.Status, len(then.Pending))
	}
	return then, nil
}

// moveTo makes then the state of the run, with the node of at as the next one. It returns the thread there. The timers of the
// nodes around it begin again.
func (m *Machine) moveTo(then runstate.State, at lattice.Moment) *Thread {
	m.State = then.Clone()
	timers := m.State.Pending
	m.State.Pending = nil
	for _, c := range timers {
		m.thread(c.Path).Issue(lattice.Command{Kind: lattice.DoTimer, DelayS: c.DelayS})
	}
	t := m.thread(at.Path)
	t.Node, t.Visit = at.Node, nil
	return t
}
