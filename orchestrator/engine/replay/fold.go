// Package replay reads the journal of a run. [Fold] gives its state, [Verify] compares every step with its record, [Points]
// finds the moments to which the run can go back and where their files are, and [SoundPoint] the newest one that survived a
// loss of power. It never writes to a journal and performs no command.
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Folded is a run as its journal tells it.
type Folded struct {
	State  runstate.State
	Since  map[string]time.Time // when each pending timer was issued
	Active time.Duration        // how long the run had been driven at its last fact
	At     time.Time            // when that was
	Chain  string               // of its last fact
}

// History holds the entries and the snapshot that a store has of a run. The snapshot is of the state behind the facts up to SnapshotSeq, nil before the
// first fact.
type History struct {
	Facts       []lattice.Entry // in order
	Snapshot    json.RawMessage
	SnapshotSeq lattice.Seq
	Last        lattice.Seq // of the last entry of any kind
	EventBytes  uint64      // of the bodies of its events
}

// Fold replays all facts, and holds the state where the snapshot was taken against that.
func (h History) Fold(p *ir.Program, run string) (Folded, error) {
	at := slices.IndexFunc(h.Facts, func(e lattice.Entry) bool { return e.Seq > h.SnapshotSeq })
	if at < 0 {
		at = len(h.Facts)
	}
	out := Folded{State: runstate.New(run), Since: map[string]time.Time{}}
	if err := out.applyFacts(p, h.Facts[:at]); err != nil {
		return Folded{}, err
	}
	if h.Snapshot != nil || len(h.Facts) > 0 {
		if err := out.Matches(h.Snapshot); err != nil {
			return Folded{}, err
		}
	}
	if err := out.applyFacts(p, h.Facts[at:]); err != nil {
		return Folded{}, err
	}
	return out, nil
}

// Fold replays the facts of a run from the first one. Runs are recovered by it, and snapshots are compared with it.
func Fold(p *ir.Program, run string, facts []lattice.Entry) (Folded, error) {
	out := Folded{State: runstate.New(run), Since: map[string]time.Time{}}
	if err := out.applyFacts(p, facts); err != nil {
		return Folded{}, err
	}
	return out, nil
}

func (f *Folded) applyFacts(p *ir.Program, facts []lattice.Entry) error {
	run := f.State.RunID
	for _, e := range facts {
		if e.Kind != lattice.EntryFact {
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		state, commands, err := engine.Step(p, f.State, fact)
		if err != nil {
			return fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		for _, c := range commands {
			f.Since[c.ID] = e.At
		}
		f.State, f.Active, f.At, f.Chain = state, e.Active, e.At, e.Chain
	}
	return nil
}

// Matches compares the fold with a stored snapshot. A difference means that another version of lattice, or something
// else, wrote one of the two: the run cannot continue.
func (f Folded) Matches(snapshot json.RawMessage) error {
	mine, err := f.State.Encode()
	if err != nil {
		return fmt.Errorf("encode run state: %w", err)
	}
	stored, err := runstate.Decode(snapshot)
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
