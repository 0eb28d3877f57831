package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SoundPoint folds a run's facts to the PowerLost that takes it back, for a machine or disk that is now known as disk. Its
// pair has no checkpoint when there is none to go back to: the sprite is to be made again. turns are those of the run's agents, in
// order: a call that was cut off begins again on the files of its last turn.
func SoundPoint(p *ir.Program, run string, facts []lattice.Entry, disk string, turns []Turn, durable func(lattice.Pair) bool) (lattice.PowerLost, error) {
	var (
		back    lattice.PowerLost
		before  = runstate.New(run) // of the fact at hand
		then    runstate.State      // of back
		crossed []lattice.Record
		works   callAlone
	)
	turns = slices.DeleteFunc(slices.Clone(turns), func(t Turn) bool { return !durable(t.Pair) })
	takeTurn := func(until lattice.Seq) {
		if pair, ok := works.lastTurn(turns, until); ok {
			then, back, crossed = works.before, works.back, slices.Clone(works.crossed)
			back.Pair = pair
		}
	}
	facts = slices.DeleteFunc(slices.Clone(facts), func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact })
	for i, e := range facts {
		takeTurn(e.Seq)
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		after, _, err := engine.Step(p, before, fact)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		records := recordsOf(before, after, fact)
		switch pair, sound := soundAfter(before, after, fact, durable); {
		case i == 0: // nothing but to prepare the sprite again
			then, back = after, lattice.PowerLost{Seq: e.Seq, Pair: lattice.Pair{Sprite: after.Sprite}}
		case sound:
			then, back = before, lattice.PowerLost{Seq: e.Seq, Pair: pair, FactKind: e.Type, Fact: e.Body}
			crossed = nil
		default:
			crossed = append(crossed, records...)
		}
		if err := works.follow(before, after, fact, e, records); err != nil {
			return back, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		if i == len(facts)-1 && keepsFiles(after, durable) {
			return lattice.PowerLost{Disk: disk, Seq: e.Seq, Pair: after.Pairs[after.Sprite]}, nil
		}
		before = after
	}
	takeTurn(lattice.Seq(math.MaxInt64))
	crossed = append(crossed, cutOff(before)...)
	body, err := then.Encode()
	if err != nil {
		return back, fmt.Errorf("encode run state: %w", err)
	}
	back.Disk, back.State, back.Records = disk, body, crossed
	return back, nil
}

// Turn is a checkpoint of the turn of an agent. Seq is that of its event.
type Turn struct {
	Seq  lattice.Seq
	Pair lattice.Pair
	Said protocol.AgentTurn
}

// callAlone is a call in the main sprite while nothing else is at work. Its turns hold all files of the run.
type callAlone struct {
	command string            // "" if there is none
	back    lattice.PowerLost // makes the call again, once it has the files of a turn
	before  runstate.State    // of back
	crossed []lattice.Record
	lost    lattice.PowerLost // the last one of the run
}

// follow takes a fact.
func (c *callAlone) follow(before, after runstate.State, fact lattice.Fact, e lattice.Entry, records []lattice.Record) error {
	if f, ok := fact.(lattice.PowerLost); ok {
		c.lost = f
	}
	command := findAlone(after)
	switch {
	case command == "" || command == c.command:
		c.command = command
		c.crossed = append(c.crossed, records...)
	case before.Recovering == nil:
		*c = callAlone{command: command, back: lattice.PowerLost{Seq: e.Seq, FactKind: e.Type, Fact: e.Body}, before: before, lost: c.lost}
	default: // the run goes on behind the fact of a PowerLost
		then, err := runstate.Decode(c.lost.State)
		if err != nil {
			return err
		}
		back := lattice.PowerLost{Seq: c.lost.Seq, FactKind: c.lost.FactKind, Fact: c.lost.Fact}
		*c = callAlone{command: command, back: back, before: then, crossed: slices.Clone(c.lost.Records), lost: c.lost}
	}
	return nil
}

// findAlone returns the command of the call that works alone in the main sprite.
func findAlone(s runstate.State) (command string) {
	if s.Recovering != nil || s.Status.Ended() || s.UsesForks() {
		return ""
	}
	for _, c := range s.Pending {
		switch {
		case c.Kind == lattice.DoTimer:
		case c.Kind != lattice.DoCall || c.Sprite != s.Sprite || runstate.OnWorld(c) || command != "":
			return ""
		default:
			command = c.ID
		}
	}
	return command
}

// lastTurn returns the files of the last turn of the call before the entry until.
func (c *callAlone) lastTurn(turns []Turn, until lattice.Seq) (pair lattice.Pair, ok bool) {
	for _, t := range turns {
		if c.command != "" && c.back.Seq < t.Seq && t.Seq < until && t.Pair.Sprite == c.before.Sprite {
			pair, ok = t.Pair, true
		}
	}
	return pair, ok
}

// soundAfter reports whether the run can go on behind a fact with the files of the pair that it returns.
func soundAfter(before, after runstate.State, fact lattice.Fact, durable func(lattice.Pair) bool) (lattice.Pair, bool) {
	pair, paired := after.Pairs[after.Sprite]
	clean := !after.Dirty[after.Sprite]
	switch f := fact.(type) {
	case lattice.BoundaryTaken:
		c, ok := before.FindCommand(f.CommandID)
		clean = clean || ok && c.Sprite == after.Sprite
	case lattice.Restored:
		c, ok := before.FindCommand(f.CommandID)
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
		!before.UsesForks() && durable(pair)
}

// keepsFiles reports whether nothing of a run is lost: all that it needs is the files of its pair.
func keepsFiles(s runstate.State, durable func(lattice.Pair) bool) bool {
	pair, paired := s.Pairs[s.Sprite]
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer && c.Kind != lattice.DoModel }
	return paired && !s.Dirty[s.Sprite] && s.Recovering == nil && !s.UsesForks() && !slices.ContainsFunc(s.Pending, busy) && durable(pair)
}

// recordsOf are the outcomes of effects on the world that a fact tells.
func recordsOf(before, after runstate.State, fact lattice.Fact) []lattice.Record {
	switch f := fact.(type) {
	case lattice.CallFinished:
		if c, ok := before.FindCommand(f.CommandID); ok && runstate.OnWorld(c) {
			return []lattice.Record{{Of: runstate.AttemptOf(c.Call), Finished: &f}}
		}
	case lattice.CallLost:
		if c, ok := before.FindCommand(f.CommandID); ok && runstate.OnWorld(c) {
			return []lattice.Record{{Of: runstate.AttemptOf(c.Call), Lost: f.Detail}}
		}
	case lattice.ActionDone:
		if c, ok := before.FindCommand(f.CommandID); ok && f.OK {
			return resumedWith(after, c.Path, c.Action.Name)
		}
	case lattice.Answered:
		w, ok := before.FindWait(f.WaitID)
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

// resumedWith is the record of an action that the call of a thread goes on with.
func resumedWith(s runstate.State, path, action string) []lattice.Record {
	l := s.FindLane(path)
	if l == nil || l.Visit == nil || l.Visit.Call == nil || l.Visit.Call.Resume == nil {
		return nil
	}
	resume := *l.Visit.Call.Resume
	return []lattice.Record{{Of: runstate.AttemptOf(l.Visit.Call), Action: action, Resume: &resume}}
}

// cutOff are the calls and actions that were changing the world when the power was lost.
func cutOff(s runstate.State) []lattice.Record {
	var out []lattice.Record
	for _, c := range s.Pending {
		if l := s.FindLane(c.Path); c.Kind == lattice.DoAction && l != nil && l.Visit != nil && l.Visit.Call != nil {
			out = append(out, lattice.Record{Of: runstate.AttemptOf(l.Visit.Call), Action: c.Action.Name, Do: c.Action})
		}
		if runstate.OnWorld(c) && c.Call.Resume == nil {
			out = append(out, lattice.Record{Of: runstate.AttemptOf(c.Call), Lost: "the machine went down while it was made"})
		}
	}
	return out
}
