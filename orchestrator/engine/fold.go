package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Folded is a run as its journal tells it.
type Folded struct {
	State  State
	Since  map[string]time.Time // when each pending timer was issued
	Active time.Duration        // how long the run had been driven at its last fact
	Chain  string               // of its last fact
}

// Fold replays the facts of a run from its first one. It is how a run is recovered, and what its snapshot is checked
// against.
func Fold(p *ir.Program, run string, facts []lattice.Entry) (Folded, error) {
	out := Folded{State: New(run), Since: map[string]time.Time{}}
	for _, e := range facts {
		if e.Kind != lattice.EntryFact {
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return Folded{}, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		state, commands, err := Step(p, out.State, fact)
		if err != nil {
			return Folded{}, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		for _, c := range commands {
			out.Since[c.ID] = e.At
		}
		out.State, out.Active, out.Chain = state, e.Active, e.Chain
	}
	return out, nil
}

// Matches compares the fold with a stored snapshot. A difference means that another version of lattice, or something
// else, wrote one of the two: going on would act on what never happened.
func (f Folded) Matches(snapshot json.RawMessage) error {
	mine, err := f.State.Encode()
	if err != nil {
		return fmt.Errorf("encode run state: %w", err)
	}
	stored, err := DecodeState(snapshot)
	if err != nil {
		return err
	}
	theirs, err := stored.Encode()
	if err != nil {
		return fmt.Errorf("encode run state: %w", err)
	}
	if !bytes.Equal(mine, theirs) {
		return fmt.Errorf("the journal of run %s does not lead to its stored state; it was driven by another version of lattice: "+
			"drive it with that version, or cancel it", f.State.RunID)
	}
	return nil
}
