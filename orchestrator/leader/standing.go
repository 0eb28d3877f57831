package leader

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// standing is the state of a run: as its runner has it, else as the store does. A snapshot is not written down with each
// fact, so that the facts behind it are folded where there are some: a process was killed then. begun is false before the
// first fact.
func (l *Leader) standing(id string) (at engine.Standing, begun bool, err error) {
	l.mu.Lock()
	r := l.runs[id]
	l.mu.Unlock()
	if r != nil && !r.runner.Broken() {
		at = r.runner.Standing()
		return at, at.State.Status != lattice.Pending, nil
	}
	snapshot, found, err := l.store.State(id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	behind, err := l.store.FactBehind(id, snapshot.Seq)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	if behind {
		return l.folded(id)
	}
	if !found {
		return at, false, nil
	}
	at = engine.Standing{Seq: snapshot.Seq, At: snapshot.At}
	if at.State, err = engine.DecodeState(snapshot.Body); err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	return at, true, nil
}

// folded is standing by all facts.
func (l *Leader) folded(id string) (at engine.Standing, begun bool, err error) {
	rec, err := l.record(id)
	if err != nil {
		return at, false, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return at, false, fmt.Errorf("load run %s: its program is not valid any more: %s", id, findings[0].Message)
	}
	h, err := l.store.Load(id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	f, err := history(h).Fold(program, id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	return engine.Standing{State: f.State, Seq: h.Last, At: f.At}, true, nil
}

// stateText is the state of a run as JSON, nil before the first fact.
func (l *Leader) stateText(id string) (json.RawMessage, error) {
	at, begun, err := l.standing(id)
	if err != nil || !begun {
		return nil, err
	}
	return at.State.Encode()
}
