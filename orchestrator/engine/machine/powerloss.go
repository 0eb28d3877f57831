package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Power loss (DESIGN 23). The journal is on the disk; files that a sprite wrote after its last durable checkpoint may be torn.
// When the machine or the disk was restarted, a run goes back before anything else is done:
//
//	SoundPoint   finds the newest fact behind which the main sprite's files lay at a durable checkpoint and no copy of the
//	             sprite was in use; durable asks the host. If a call was alone at work there, its last turn is newer
//	PowerLost    the run is in the state before that fact again, under a new epoch; the files are restored
//	Restored     the fact is taken once more, so that the calls behind it are made again
//
// A durable checkpoint is taken before a skill of class world is called or a person is asked, and when a call has ended
// that changed the world. Effects after that point are not repeated: PowerLost carries the outcome of each such call and
// action, and the same visit of the same node is answered from it.

// ErrRecovering marks a fact that has to wait until the files of a run are back.
var ErrRecovering = errors.New("the run's files are being restored after a loss of power")

// powerLost takes the run back, once the files are there.
func (m *Machine) powerLost(f lattice.PowerLost) error {
	if f.Disk == m.State.Disk {
		return fmt.Errorf("%w: the run is on disk %q already", ErrStale, f.Disk)
	}
	if f.Pair.Sprite == "" || f.Pair.Sprite != m.State.Sprite {
		return fmt.Errorf("a loss of power in sprite %q for a run in %q", f.Pair.Sprite, m.State.Sprite)
	}
	if len(f.State) > 0 {
		then, err := runstate.Decode(f.State)
		if err != nil {
			return fmt.Errorf("state before the loss of power: %w", err)
		}
		if then.RunID != m.State.RunID || then.Program != m.Program.Digest {
			return fmt.Errorf("the state before the loss of power is of run %s and program %s", then.RunID, then.Program)
		}
		then.Epoch, then.Losses = m.State.Epoch+1, m.State.Losses+1
		then.Models, then.ModelsBy = m.State.Models, m.State.ModelsBy
		then.Records = slices.Concat(then.Records, f.Records)
		then.Started, then.Emitted = nil, nil
		maps.DeleteFunc(then.Marks, func(_ string, p lattice.Pair) bool { return !p.Durable })
		m.State = then
		for _, t := range m.threads() {
			renewCall(t.Visit, m.State.Epoch)
		}
	}
	pair := f.Pair
	m.flow().Issue(lattice.Command{Kind: lattice.DoRestore, Sprite: pair.Sprite, Pair: &pair})
	m.State.Disk = f.Disk
	m.State.Recovering = &runstate.Recovering{Command: m.State.Pending[len(m.State.Pending)-1].ID, Type: f.FactKind, Fact: f.Fact}
	return nil
}

// renewCall moves the call of a visit to an epoch. A call that will be resumed keeps its id, which its journal knows.
func renewCall(v *runstate.Visit, epoch int) {
	if v == nil || v.Call == nil || v.Call.Resume != nil || v.Suspended != nil {
		return
	}
	call := *v.Call
	call.Epoch = epoch
	v.Call = &call
}

// resumeRecovered goes on when the files are back.
func (m *Machine) resumeRecovered(pair lattice.Pair) error {
	again := m.State.Recovering
	m.State.Recovering = nil
	if pair.CheckpointID != "" {
		m.setPair(pair, pair.Sprite)
	}
	m.InvalidateCache(pair.Sprite)
	if again.Type == "" {
		return nil
	}
	fact, err := lattice.DecodeFact(again.Type, again.Fact)
	if err != nil {
		return err
	}
	return m.applyFact(fact)
}
