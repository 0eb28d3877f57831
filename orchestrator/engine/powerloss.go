package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Power loss (DESIGN 23). The journal is on the disk; what a sprite wrote since its last durable checkpoint may be
// torn. So when the machine or the disk was restarted under a run, it goes back before anything else is done:
//
//	SoundPoint   finds the newest fact behind which the main sprite's files lay at a durable checkpoint and no copy of the
//	             sprite was in use; durable is what the host says now
//	PowerLost    the run is in the state before that fact again, under a new epoch; the files are restored
//	Restored     the fact is taken once more, so that the calls behind it are made again
//
// A durable checkpoint is taken before a skill of class world is called or a person is asked, and when a call has ended
// that changed the world. What the way back crosses all the same is not repeated: PowerLost carries the outcome of each
// such call and action, and the same visit of the same node is answered from that.

// ErrRecovering marks a fact that has to wait until the files of a run are back.
var ErrRecovering = errors.New("the run's files are being restored after a loss of power")

// Recovering is a way back under way: the fact that is taken again when the files are there; none where the run stays.
type Recovering struct {
	Command string          `json:"command"` // that restores them
	Type    string          `json:"type,omitempty"`
	Fact    json.RawMessage `json:"fact,omitempty"`
}

// SoundPoint folds a run's facts to the PowerLost that takes it back, for a machine or disk that is now known as disk. Its
// pair has no checkpoint when there is none to go back to: the sprite is to be made again.
func SoundPoint(p *ir.Program, run string, facts []lattice.Entry, disk string, durable func(lattice.Pair) bool) (lattice.PowerLost, error) {
	var (
		back    lattice.PowerLost
		before  = New(run) // of the fact at hand
		then    State      // of back
		crossed []lattice.Record
	)
	facts = slices.DeleteFunc(slices.Clone(facts), func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact })
	for i, e := range facts {
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		after, _, err := Step(p, before, fact)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		switch pair, sound := soundAfter(before, after, fact, durable); {
		case i == 0: // nothing but to prepare the sprite again
			then, back = after, lattice.PowerLost{Seq: e.Seq, Pair: lattice.Pair{Sprite: after.Sprite}}
		case sound:
			then, back = before, lattice.PowerLost{Seq: e.Seq, Pair: pair, FactKind: e.Type, Fact: e.Body}
			crossed = nil
		default:
			crossed = append(crossed, recordsOf(before, after, fact)...)
		}
		if i == len(facts)-1 && stays(after, durable) {
			return lattice.PowerLost{Disk: disk, Seq: e.Seq, Pair: after.Pairs[after.Sprite]}, nil
		}
		before = after
	}
	crossed = append(crossed, cutOff(before)...)
	body, err := then.Encode()
	if err != nil {
		return back, fmt.Errorf("encode run state: %w", err)
	}
	back.Disk, back.State, back.Records = disk, body, crossed
	return back, nil
}

// soundAfter reports whether the run can go on behind a fact with the files of the pair that it returns.
func soundAfter(before, after State, fact lattice.Fact, durable func(lattice.Pair) bool) (lattice.Pair, bool) {
	pair, paired := after.Pairs[after.Sprite]
	clean := !after.Dirty[after.Sprite]
	switch f := fact.(type) {
	case lattice.BoundaryTaken:
		c, ok := before.pending(f.CommandID)
		clean = clean || ok && c.Sprite == after.Sprite
	case lattice.Restored:
		c, ok := before.pending(f.CommandID)
		clean = clean || ok && c.Sprite == after.Sprite
	case lattice.CallSuspended:
		clean = clean || pair.CheckpointID == f.CheckpointID
	case lattice.Rewound:
		if f.Pair != nil { // to which it goes by itself
			pair, paired, clean = *f.Pair, true, true
		}
	case lattice.PowerLost, lattice.ActionDecided, lattice.ActionSettled, lattice.ActionNoted: // the last precedes the end of its call, which is made again
		return pair, false
	}
	return pair, paired && clean && !after.Status.Ended() && before.Recovering == nil && after.Recovering == nil &&
		!before.hasCopies() && durable(pair)
}

// stays reports whether nothing of a run is lost: all that it needs is the files of its pair.
func stays(s State, durable func(lattice.Pair) bool) bool {
	pair, paired := s.Pairs[s.Sprite]
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer && c.Kind != lattice.DoModel }
	return paired && !s.Dirty[s.Sprite] && s.Recovering == nil && !s.hasCopies() && !slices.ContainsFunc(s.Pending, busy) && durable(pair)
}

// hasCopies reports whether work is done in other sprites than the main one.
func (s State) hasCopies() bool {
	elsewhere := func(c lattice.Command) bool { return c.Sprite != "" && c.Sprite != s.Sprite }
	return slices.ContainsFunc(s.Pending, elsewhere) || s.Lane.hasCopies(s.Sprite)
}

func (l Lane) hasCopies(main string) bool {
	if l.Visit == nil {
		return false
	}
	if c := l.Visit.Call; c != nil && c.Sprite != main {
		return true
	}
	return l.Visit.Map != nil && slices.ContainsFunc(l.Visit.Map.Open, func(it *Iteration) bool {
		return it.Sprite != "" || it.Lane.hasCopies(main)
	})
}

// recordsOf are the outcomes of effects on the world that a fact tells.
func recordsOf(before, after State, fact lattice.Fact) []lattice.Record {
	switch f := fact.(type) {
	case lattice.CallFinished:
		if c, ok := before.pending(f.CommandID); ok && onWorld(c) {
			return []lattice.Record{{Of: attemptOf(c.Call), Finished: &f}}
		}
	case lattice.CallLost:
		if c, ok := before.pending(f.CommandID); ok && onWorld(c) {
			return []lattice.Record{{Of: attemptOf(c.Call), Lost: f.Detail}}
		}
	case lattice.ActionDone:
		if c, ok := before.pending(f.CommandID); ok && f.OK {
			return resumedWith(after, c.Path, c.Action.Name)
		}
	case lattice.Answered:
		w, ok := before.wait(f.WaitID)
		if ok && w.ByHand() && f.Decision != lattice.Reject {
			return resumedWith(after, w.Path, w.Action.Name)
		}
	case lattice.ActionNoted:
		if f.Of != nil {
			return []lattice.Record{{Of: *f.Of, Noted: &f}}
		}
	case lattice.PowerLost:
		return f.Records
	}
	return nil
}

// findNoted returns the record of a request that an attempt made without waiting, before the power was lost.
func findNoted(records []lattice.Record, call lattice.Call, req protocol.ActionRequest) (lattice.ActionNoted, bool) {
	want, err := actionKey(lattice.Action{Name: req.Action, Parameters: req.Parameters})
	if err != nil {
		return lattice.ActionNoted{}, false
	}
	for _, r := range records {
		if r.Noted == nil || r.Of != attemptOf(&call) {
			continue
		}
		if key, err := actionKey(lattice.Action{Name: r.Noted.Action.Name, Parameters: r.Noted.Action.Parameters}); err == nil && key == want {
			return *r.Noted, true
		}
	}
	return lattice.ActionNoted{}, false
}

// resumedWith is the record of an action that the call of a thread goes on with.
func resumedWith(s State, path, action string) []lattice.Record {
	l := s.findLane(path)
	if l == nil || l.Visit == nil || l.Visit.Call == nil || l.Visit.Call.Resume == nil {
		return nil
	}
	resume := *l.Visit.Call.Resume
	return []lattice.Record{{Of: attemptOf(l.Visit.Call), Action: action, Resume: &resume}}
}

// cutOff are the calls and actions that were changing the world when the power was lost.
func cutOff(s State) []lattice.Record {
	var out []lattice.Record
	for _, c := range s.Pending {
		if l := s.findLane(c.Path); c.Kind == lattice.DoAction && l != nil && l.Visit != nil && l.Visit.Call != nil {
			out = append(out, lattice.Record{Of: attemptOf(l.Visit.Call), Action: c.Action.Name, Do: c.Action})
		}
		if onWorld(c) && c.Call.Resume == nil {
			out = append(out, lattice.Record{Of: attemptOf(c.Call), Lost: "the machine went down while it was made"})
		}
	}
	return out
}

func attemptOf(c *lattice.Call) lattice.Attempt {
	return lattice.Attempt{Node: c.Node, Path: c.Path, Visit: c.Visit, Number: c.Attempt}
}

// powerLost takes the run back, once the files are there.
func (m *machine) powerLost(f lattice.PowerLost) error {
	if f.Disk == m.s.Disk {
		return fmt.Errorf("%w: the run is on disk %q already", ErrStale, f.Disk)
	}
	if f.Pair.Sprite == "" || f.Pair.Sprite != m.s.Sprite {
		return fmt.Errorf("a loss of power in sprite %q for a run in %q", f.Pair.Sprite, m.s.Sprite)
	}
	if len(f.State) > 0 {
		then, err := DecodeState(f.State)
		if err != nil {
			return fmt.Errorf("state before the loss of power: %w", err)
		}
		if then.RunID != m.s.RunID || then.Program != m.p.Digest {
			return fmt.Errorf("the state before the loss of power is of run %s and program %s", then.RunID, then.Program)
		}
		then.Epoch, then.Losses = m.s.Epoch+1, m.s.Losses+1
		then.Models, then.ModelsBy = m.s.Models, m.s.ModelsBy
		then.Records = slices.Concat(then.Records, f.Records)
		then.Started, then.Emitted = nil, nil
		m.s = then
		for _, t := range m.threads() {
			t.renewCall()
		}
	}
	pair := f.Pair
	m.flow().issue(lattice.Command{Kind: lattice.DoRestore, Sprite: pair.Sprite, Pair: &pair})
	m.s.Disk = f.Disk
	m.s.Recovering = &Recovering{Command: m.s.Pending[len(m.s.Pending)-1].ID, Type: f.FactKind, Fact: f.Fact}
	return nil
}

// renewCall gives the call of a thread to the present epoch. One that is to be resumed keeps its id, which its journal knows.
func (t *thread) renewCall() {
	if t.Visit == nil || t.Visit.Call == nil || t.Visit.Call.Resume != nil || t.Visit.Suspended != nil {
		return
	}
	call := *t.Visit.Call
	call.Epoch = t.m.s.Epoch
	t.Visit.Call = &call
}

// resumeRecovered goes on when the files are back.
func (m *machine) resumeRecovered(pair lattice.Pair) error {
	again := m.s.Recovering
	m.s.Recovering = nil
	if pair.CheckpointID != "" {
		m.setPair(pair, pair.Sprite)
	}
	m.invalidateCache(pair.Sprite)
	if again.Type == "" {
		return nil
	}
	fact, err := lattice.DecodeFact(again.Type, again.Fact)
	if err != nil {
		return err
	}
	return m.applyFact(fact)
}

// takeRecord takes the record of the current attempt out of the state, if there is one: of its call, or with action of the
// next action that it asked for.
func (t callOp) takeRecord(action string) (lattice.Record, bool) {
	m := t.m
	of := attemptOf(t.Visit.Call)
	i := slices.IndexFunc(m.s.Records, func(r lattice.Record) bool { return r.Of == of && r.Action == action && r.Noted == nil })
	if i < 0 {
		return lattice.Record{}, false
	}
	found := m.s.Records[i]
	m.s.Records = slices.Delete(slices.Clone(m.s.Records), i, i+1)
	return found, true
}

// finishFromRecord ends the current call, one of class world, as it ended before the power was lost. It reports whether
// that is known.
func (t callOp) finishFromRecord() bool {
	call := t.Visit.Call
	if call.Class != manifests.ClassWorld || call.Resume != nil {
		return false
	}
	r, found := t.takeRecord("")
	if !found {
		return false
	}
	t.leaveSettling()
	if r.Finished == nil {
		if pair, ok := t.m.s.Pairs[call.Sprite]; ok {
			t.Visit.Before = &pair
		}
		t.askOutcome(r.Lost)
		return true
	}
	if err := t.finishCall(*r.Finished); err != nil {
		t.m.err = err
	}
	return true
}

// resumeFromRecord resumes the current call with what became of its action before the power was lost.
func (t callOp) resumeFromRecord(action string) bool {
	r, found := t.takeRecord(action)
	if !found {
		return false
	}
	if r.Do != nil {
		t.issue(lattice.Command{Kind: lattice.DoAction, Sprite: t.Visit.Call.Sprite, Action: r.Do})
		return true
	}
	inputs, err := decodeObject(r.Resume.Inputs)
	if err != nil {
		t.m.err = fmt.Errorf("record of %s: %w", action, err)
		return true
	}
	t.resumeCall(inputs, r.Resume.Context.AnsweredBy, r.Resume.Context.AnsweredAt)
	return true
}

// Recover takes the run back after a loss of power, and returns when its files are there. With nil it goes on where it was
// cut off in that. It waits for whoever drives the run.
func (r *Runner) Recover(ctx context.Context, lost *lattice.PowerLost) error {
	select {
	case r.own <- struct{}{}:
		defer func() { <-r.own }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost != nil {
		if err := r.apply(ctx, nil, *lost); err != nil {
			return err
		}
	}
	if r.state.Recovering == nil {
		return nil
	}
	c, ok := r.state.pending(r.state.Recovering.Command)
	if !ok {
		return fmt.Errorf("run %s recovers without a command", r.state.RunID)
	}
	facts, err := effect{r: r, command: c}.do(ctx)
	var refusal *lattice.Refusal
	if errors.As(err, &refusal) {
		facts, err = []lattice.Fact{lattice.CommandFailed{CommandID: c.ID, Fault: refusal.Fault}}, nil
	}
	if err != nil {
		return fmt.Errorf("restore run %s after a loss of power: %w", r.state.RunID, err)
	}
	return r.apply(ctx, nil, facts...)
}

// Torn is the fault of a run whose files may be torn, with no durable checkpoint to go back to.
func Torn(sprite string) *lattice.Refusal {
	return &lattice.Refusal{Fault: protocol.Fault{
		Code:    "files_torn",
		Message: "the machine or its disk was restarted before sprite " + sprite + " had a durable checkpoint, and its files may be torn",
		Hint:    "look at them with lattice sprite console " + sprite + ", restore a checkpoint, and start the run again",
	}}
}
