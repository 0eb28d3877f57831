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
//	SoundPoint   finds the newest fact behind which the files of each sprite in use lay at a durable checkpoint: before the
//	             call that is at work there, or at the last turn of that call; durable asks the host
//	PowerLost    the run is in the state behind that fact again, under a new epoch; the files are restored, sprite by sprite
//	Restored     of the last sprite: pending commands are issued again. Calls get new ids, and timers go on
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
	m.State.Disk = f.Disk
	back := &runstate.Recovering{Left: f.Sprites, Begin: len(f.Sprites) > 0, Type: f.FactKind, Fact: f.Fact}
	if !back.Begin {
		back.Left = []lattice.SpriteBack{{Pair: f.Pair}}
	}
	recovery{m}.restoreNext(*back)
	return nil
}

// recovery is a run that goes back after a loss of power.
type recovery struct{ *Machine }

// restoreNext restores the files of the next sprite.
func (m recovery) restoreNext(back runstate.Recovering) {
	pair := back.Left[0].Pair
	if back.Left = back.Left[1:]; len(back.Left) == 0 {
		back.Left = nil
	}
	m.flow().Issue(Restore(pair))
	back.Command = m.State.Pending[len(m.State.Pending)-1].ID
	m.State.Recovering = &back
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

// resumeRecovered goes on when the files of a sprite are back.
func (m *Machine) resumeRecovered(pair lattice.Pair) error {
	back := *m.State.Recovering
	m.State.Recovering = nil
	if pair.CheckpointID != "" {
		m.setPair(pair, pair.Sprite)
	}
	m.InvalidateCache(pair.Sprite)
	switch {
	case len(back.Left) > 0:
		recovery{m}.restoreNext(back)
	case back.Begin:
		return recovery{m}.beginAgain()
	case back.Type != "":
		fact, err := lattice.DecodeFact(back.Type, back.Fact)
		if err != nil {
			return err
		}
		return m.applyFact(fact)
	}
	return nil
}

// beginAgain issues all pending commands but timers again, under new ids.
func (m recovery) beginAgain() error {
	timer := func(c lattice.Command) bool { return c.Kind == lattice.DoTimer }
	again := slices.DeleteFunc(slices.Clone(m.State.Pending), timer)
	m.State.Pending = slices.DeleteFunc(m.State.Pending, func(c lattice.Command) bool { return !timer(c) })
	for _, w := range slices.Clone(m.State.Waits) { // whose action was done behind the point
		if t := m.thread(w.Path); w.Kind == lattice.WaitAction && t != nil && resumeFromRecord(t, w.Action) {
			t.CloseWait(w)
		}
	}
	for _, c := range again {
		t := m.thread(c.Path)
		if t == nil {
			return fmt.Errorf("command %s belongs to iteration %s, which is not under way", c.ID, c.Path)
		}
		switch c.Kind {
		case lattice.DoCall, lattice.DoModel:
			d, ok := t.operation().(dispatcher)
			if !ok {
				return fmt.Errorf("command %s is not of node %s", c.ID, t.Node)
			}
			d.Dispatch()
		case lattice.DoAction:
			if !resumeFromRecord(t, c.Action) {
				t.Issue(c)
			}
		default:
			t.Issue(c)
		}
	}
	return nil
}

// resumeFromRecord goes on with the recorded outcome of an action of the current call of t, if there is one.
func resumeFromRecord(t *Thread, a *lattice.Action) bool {
	op, ok := t.operation().(recorded)
	return ok && a != nil && op.ResumeFromRecord(a.Name)
}
