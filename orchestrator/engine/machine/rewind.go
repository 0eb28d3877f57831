package machine

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// StepBefore is engine.StepBefore with the ops of a table.
func StepBefore(ops Operations, p *ir.Program, s runstate.State, f lattice.Fact, node string, visit int) (runstate.State, bool, error) {
	m := &Machine{Program: p, State: s.Clone(), operations: ops}
	if err := m.applyFact(f); err != nil {
		return s, false, err
	}
	for m.Err == nil {
		if len(m.ready) > 0 {
			next := m.ready[0]
			if next.thread.up == nil && next.node == node && m.State.Visits[node]+1 == visit {
				return m.State, true, nil
			}
		}
		if !m.runNext() {
			return s, false, m.Err
		}
	}
	return s, false, m.Err
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
	m.moveTo(then, f.Moment)
	if f.Pair != nil {
		m.flow().Issue(Restore(*f.Pair))
		return nil
	}
	m.flow().Schedule(f.Moment.Node)
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
	for _, set := range f.Set {
		value, err := expr.Decode(set.Value)
		if err != nil {
			return fmt.Errorf("%w: value of %s: %v", ErrAnswer, set.Path, err)
		}
		if bad := expr.Assign(set.Path, then.Vars, then.Tmp, value); bad != nil {
			return fmt.Errorf("%w: %s", ErrAnswer, bad.Message)
		}
	}
	m.moveTo(then, f.Moment)
	if f.Pair != nil {
		m.flow().Issue(lattice.Command{Kind: lattice.DoFork, Sprite: f.Sprite, Pair: f.Pair})
		return nil
	}
	if m.Program.CallsSkills() { // the other run had no files yet
		m.flow().Issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
		return nil
	}
	m.flow().Schedule(f.Moment.Node)
	return nil
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
	case then.Status != lattice.Running || len(then.Pending)+len(then.Waits) > 0:
		return runstate.State{}, fmt.Errorf("the state is not of a moment: it is %s, with %d commands pending", then.Status, len(then.Pending))
	}
	return then, nil
}

// moveTo makes then the state of the run, with the node of at as the next one.
func (m *Machine) moveTo(then runstate.State, at lattice.Moment) {
	m.State = then.Clone()
	m.State.Node, m.State.Visit = at.Node, nil
}
