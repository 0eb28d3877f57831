package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SoundPoint folds a run's facts to the PowerLost that takes it back, for a machine or disk that is now known as disk: to the
// newest state for which durable files of all sprites in use are known. A pair has no checkpoint when there is none to go
// back to: the sprite is to be made again. turns are those of the run's agents, in order: a call that is at work in that state
// begins again on the files of its last turn, whatever other calls have done since.
func SoundPoint(p *ir.Program, run string, facts []lattice.Entry, disk string, turns []Turn, durable func(lattice.Pair) bool) (lattice.PowerLost, error) {
	var (
		back    = lattice.PowerLost{Disk: disk}
		then    runstate.State // of back
		files   []spriteFiles  // of back
		crossed []crossing     // since back
		before  = runstate.New(run)
		track   = fileTracker{durable: durable, writers: map[string]*writer{}, rests: map[string]lattice.Pair{}}
	)
	track.turns = slices.DeleteFunc(slices.Clone(turns), func(t Turn) bool { return !durable(t.Pair) })
	facts = slices.DeleteFunc(slices.Clone(facts), func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact })
	for i, e := range facts {
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		after, _, err := engine.Step(p, before, fact)
		if err != nil {
			return back, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		track.follow(before, after, fact, e.Seq)
		if lost, ok := fact.(lattice.PowerLost); ok && len(lost.State) > 0 { // it has the records behind its own place
			crossed = slices.DeleteFunc(crossed, func(c crossing) bool { return c.seq > lost.Seq })
		}
		for _, r := range recordsOf(before, after, fact) {
			crossed = append(crossed, crossing{e.Seq, r})
		}
		until := lattice.Seq(math.MaxInt64)
		if i+1 < len(facts) {
			until = facts[i+1].Seq
		}
		found, sound := track.findFiles(after, e.Seq, until)
		if i == 0 { // nothing but to prepare the sprite again
			found, sound = []spriteFiles{{pair: lattice.Pair{Sprite: after.Sprite}, seq: e.Seq}}, true
		}
		if sound {
			then, files, back.Seq = after, found, e.Seq
			crossed = slices.DeleteFunc(crossed, func(c crossing) bool { return c.Noted == nil || !isCalling(after, c.Of) })
		}
		before = after
	}
	if keepsFiles(before, durable) {
		return lattice.PowerLost{Disk: disk, Seq: back.Seq, Pair: before.Pairs[before.Sprite]}, nil
	}
	if len(files) == 0 {
		return back, fmt.Errorf("run %s has no facts", run)
	}
	for _, f := range files {
		back.Sprites = append(back.Sprites, track.newest(f, math.MaxInt64))
	}
	for _, c := range crossed {
		back.Records = append(back.Records, c.Record)
	}
	if before.Recovering == nil { // else they are among the records of that PowerLost
		back.Records = append(back.Records, cutOff(before)...)
	}
	body, err := then.Encode()
	if err != nil {
		return back, fmt.Errorf("encode run state: %w", err)
	}
	back.Pair, back.State = back.Sprites[0].Pair, body
	return back, nil
}

// Turn is a checkpoint of the turn of an agent. Seq is that of its event, and Call the id of the call that told it.
type Turn struct {
	Seq  lattice.Seq
	Call string
	Pair lattice.Pair
	Said protocol.AgentTurn
}

// crossing is a record of an effect, and the place of the fact that tells it.
type crossing struct {
	seq lattice.Seq
	lattice.Record
}

// spriteFiles says where the files of a sprite are: at the last turn of the writer, or at the pair if there is none.
type spriteFiles struct {
	pair   lattice.Pair
	seq    lattice.Seq // the sprite's events up to it are true of the pair
	writer *writer
}

// writer is a call that alone has written in a sprite since the sprite was at a checkpoint.
type writer struct {
	of       lattice.Attempt
	from, to lattice.Seq // the facts between which it was at work; to is 0 while it is
}

// fileTracker follows where the files of the sprites of a run are, as far as the state does not tell.
type fileTracker struct {
	durable func(lattice.Pair) bool
	turns   []Turn                  // durable ones
	writers map[string]*writer      // of dirty sprites
	rests   map[string]lattice.Pair // the checkpoints of dirty sprites whose writer suspended itself
}

// follow takes a fact.
func (t *fileTracker) follow(before, after runstate.State, fact lattice.Fact, seq lattice.Seq) {
	cleaned, suspended := "", lattice.Pair{}
	switch f := fact.(type) {
	case lattice.BoundaryTaken:
		c, _ := before.FindCommand(f.CommandID)
		cleaned = c.Sprite
	case lattice.Restored:
		c, _ := before.FindCommand(f.CommandID)
		cleaned = c.Sprite
	case lattice.CallSuspended:
		c, _ := before.FindCommand(f.CommandID)
		suspended = lattice.Pair{Sprite: c.Sprite, CheckpointID: f.CheckpointID}
	case lattice.Rewound, lattice.PowerLost: // the state is another one
		for sprite := range t.writers {
			t.forget(sprite, seq)
		}
		clear(t.rests)
		return
	}
	for sprite := range before.Dirty {
		if sprite == cleaned || !after.Dirty[sprite] {
			t.forget(sprite, seq)
		}
	}
	for sprite, dirty := range after.Dirty {
		calls, w := writersIn(after, sprite), t.writers[sprite]
		switch {
		case !dirty:
		case len(calls) == 1 && (sprite == cleaned || !before.Dirty[sprite]):
			t.writers[sprite] = &writer{of: calls[0], from: seq}
		case len(calls) == 1 && w != nil && calls[0] == w.of: // it goes on
		case len(calls) == 0 && w != nil && suspended.Sprite == sprite:
			t.forget(sprite, seq)
			t.rests[sprite] = suspended
		case len(calls) > 0 || w != nil:
			t.forget(sprite, seq)
		}
	}
}

// forget forgets where the files of a sprite are: they are clean, or written in again.
func (t *fileTracker) forget(sprite string, seq lattice.Seq) {
	if w := t.writers[sprite]; w != nil {
		w.to = seq
	}
	delete(t.writers, sprite)
	delete(t.rests, sprite)
}

// findFiles returns where the files of all sprites in use are, if durable ones are known of each. Turns count up to an entry.
func (t *fileTracker) findFiles(s runstate.State, seq, until lattice.Seq) (all []spriteFiles, ok bool) {
	if s.Recovering != nil || s.Status.Ended() || slices.ContainsFunc(s.Pending, func(c lattice.Command) bool {
		return c.Kind == lattice.DoFork && !t.durable(*c.Pair)
	}) {
		return nil, false
	}
	sprites := s.SpritesInUse()
	if len(sprites) > 1 { // a fork that is kept is a result of what is at work
		sprites = append(sprites, s.Kept...)
	}
	for _, sprite := range sprites {
		f := spriteFiles{pair: s.Pairs[sprite], seq: seq, writer: t.writers[sprite]}
		rest, rests := t.rests[sprite]
		command := slices.IndexFunc(s.Pending, func(c lattice.Command) bool {
			return c.Sprite == sprite && slices.Contains([]lattice.CommandKind{lattice.DoPrepare, lattice.DoFork, lattice.DoRestore}, c.Kind)
		})
		switch {
		case command >= 0 && s.Pending[command].Kind == lattice.DoRestore:
			f.pair = *s.Pending[command].Pair
		case command >= 0: // it is made again
			all = append(all, spriteFiles{pair: lattice.Pair{Sprite: sprite}, seq: seq})
			continue
		case f.writer != nil:
			f.seq = f.writer.from
		case rests:
			f.pair = rest
		case s.Dirty[sprite]:
			return nil, false
		case f.pair.CheckpointID == "" && sprite != s.Sprite && !slices.Contains(s.Kept, sprite): // it is not there yet
			continue
		}
		if !t.durable(t.newest(f, until).Pair) {
			return nil, false
		}
		all = append(all, f)
	}
	return all, true
}

// newest returns the newest files of a sprite, up to the turns before an entry.
func (t *fileTracker) newest(f spriteFiles, until lattice.Seq) lattice.SpriteBack {
	back := lattice.SpriteBack{Pair: f.pair, EventsTo: f.seq}
	for _, turn := range t.turns {
		if w := f.writer; w != nil && turn.Pair.Sprite == f.pair.Sprite && w.from < turn.Seq && turn.Seq < until && (w.to == 0 || turn.Seq < w.to) {
			back.Pair, back.EventsTo = turn.Pair, turn.Seq
			back.Pair.Seq = turn.Seq - 1 // its event tells of the checkpoint
		}
	}
	return back
}

// writersIn returns the calls at work in a sprite that may write there.
func writersIn(s runstate.State, sprite string) (of []lattice.Attempt) {
	for _, c := range s.Pending {
		if c.Kind == lattice.DoCall && c.Sprite == sprite && c.Call.Class != manifests.ClassRead {
			of = append(of, runstate.AttemptOf(c.Call))
		}
	}
	return of
}

// isCalling reports whether an attempt at a call is at work.
func isCalling(s runstate.State, of lattice.Attempt) bool {
	return slices.ContainsFunc(s.Pending, func(c lattice.Command) bool { return c.Kind == lattice.DoCall && runstate.AttemptOf(c.Call) == of })
}

// keepsFiles reports whether nothing of a run is lost: all that it needs is the files of its pair.
func keepsFiles(s runstate.State, durable func(lattice.Pair) bool) bool {
	pair, paired := s.Pairs[s.Sprite]
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer && c.Kind != lattice.DoModel }
	return paired && !s.Dirty[s.Sprite] && s.Recovering == nil && len(s.SpritesInUse()) == 1 && !slices.ContainsFunc(s.Pending, busy) && durable(pair)
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
