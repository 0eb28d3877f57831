package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Turn is a turn of an agent that was kept: a run goes back to it by beginning the agent's step again on the files of the turn,
// which hold the agent's session (skills/agent/turn.go).
type Turn struct {
	Said  protocol.AgentTurn
	Event lattice.Entry
	Point replay.Point // where the step began, with the checkpoint of the turn as its files

	since  lattice.Seq // the turn belongs to the step that began last before
	rewind *lattice.Moment
}

// turnPrefix begins the name of a turn as a moment: @2 is the second turn of a run. No node has such a name.
const turnPrefix = "@"

// ReadTurns adds the turns of the run's present course to its past.
func (rs *Records) ReadTurns(p *Past) error {
	all, err := rs.allTurns(p.ID)
	if err != nil {
		return err
	}
	p.Turns, err = foldTurns(p.Facts, all)
	p.placeTurns()
	return err
}

// allTurns returns the turns of all courses of a run, without their moments.
func (rs *Records) allTurns(run string) (all []Turn, err error) {
	events, err := rs.Store.Events(run, string(protocol.TypeInfo))
	if err != nil {
		return nil, fmt.Errorf("read the turns of run %s: %w", run, err)
	}
	for _, e := range events {
		if said, ok := readTurn(e); ok {
			all = append(all, Turn{Said: said, Event: e, since: e.Seq})
		}
	}
	return all, nil
}

// KeptTurns returns the checkpoints of the turns of all courses of a run.
func (rs *Records) KeptTurns(run string) (kept []replay.Turn, err error) {
	all, err := rs.allTurns(run)
	for _, t := range all {
		kept = append(kept, replay.Turn{Seq: t.Event.Seq, Pair: t.pair()})
	}
	return kept, err
}

// readTurn reads the event of a turn. A sprite can only name checkpoints of its own.
func readTurn(e lattice.Entry) (said protocol.AgentTurn, ok bool) {
	ev, _, decoded := protocol.Decode(e.Body)
	payload, err := ev.Open()
	info, isInfo := payload.(protocol.Info)
	ok = decoded && err == nil && isInfo && info.Kind == protocol.KindAgentTurn && len(e.Problems)+len(e.Flags) == 0
	return said, ok && json.Unmarshal(info.Metadata, &said) == nil && said.CheckpointID != ""
}

// foldTurns returns the turns of the present course. A rewind to a turn, also after a loss of power, keeps that turn and those before it.
func foldTurns(facts []lattice.Entry, all []Turn) (now []Turn, err error) {
	for _, e := range facts {
		for len(all) > 0 && all[0].since < e.Seq {
			now, all = append(now, all[0]), all[1:]
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, err
		}
		switch f := fact.(type) {
		case lattice.Rewound:
			last := -1
			if f.Pair != nil {
				last = indexOf(now, *f.Pair)
			}
			rest := now[:0]
			for i, t := range now {
				of := t.since > f.Moment.Seq || t.rewind != nil && t.rewind.Place() == f.Moment.Place()
				if of && i <= last {
					t.since, t.rewind = e.Seq, &f.Moment
				}
				if !of || i <= last {
					rest = append(rest, t)
				}
			}
			now = rest
		case lattice.PowerLost:
			if len(f.State) > 0 {
				last := indexOf(now, f.Pair)
				now = slices.Concat(now[:last+1], slices.DeleteFunc(slices.Clone(now[last+1:]), func(t Turn) bool { return t.since > f.Seq }))
			}
		}
	}
	return append(now, all...), nil
}

// pair returns the files of a turn.
func (t Turn) pair() lattice.Pair {
	return lattice.Pair{Sprite: t.Event.Sprite, CheckpointID: t.Said.CheckpointID}
}

// indexOf returns the index of the turn with some files, -1 if there is none.
func indexOf(turns []Turn, files lattice.Pair) int {
	return slices.IndexFunc(turns, func(t Turn) bool { return t.Event.Sprite == files.Sprite && t.Said.CheckpointID == files.CheckpointID })
}

// placeTurns finds the moments of the steps to which the turns belong, and drops turns without one.
func (p *Past) placeTurns() {
	p.Turns = slices.DeleteFunc(p.Turns, func(t Turn) bool { return p.momentOf(t) == nil })
	for i, t := range p.Turns {
		pt := *p.momentOf(t)
		pt.Files, pt.Pair, pt.Lost = replay.FilesAt, &lattice.Pair{Sprite: p.Sprite, CheckpointID: t.Said.CheckpointID}, ""
		switch {
		case t.Event.Sprite != p.Sprite:
			pt.Files, pt.Lost = replay.FilesLost, "the agent worked in a copy of the sprite, and a run goes back in its own sprite only"
		case p.Parsed.Node(pt.Node).Op != ir.OpToolCall:
			pt.Files, pt.Lost = replay.FilesLost, "the agent worked inside of "+pt.Name()+" while other nodes were at work, which a turn does not hold"
		}
		p.Turns[i].Point = pt
	}
}

func (p *Past) momentOf(t Turn) *replay.Point {
	for i := range slices.Backward(p.Points) {
		pt := &p.Points[i]
		if t.rewind == nil && pt.Seq <= t.since || t.rewind != nil && pt.Place() == t.rewind.Place() {
			return pt
		}
	}
	return nil
}

// findTurn finds the turn with a number of the run.
func (p Past) findTurn(number string) (replay.Point, error) {
	n, err := strconv.Atoi(number)
	if err == nil && n >= 1 && n <= len(p.Turns) {
		return p.Turns[n-1].Point, nil
	}
	return replay.Point{}, fault.NotFound("moment_not_found", "%s has no turn %s; %d turns of its agents were kept", p.ID, number, len(p.Turns)).
		WithHint("lattice turns %s", p.ID)
}

// findTurn returns the files of the turn that spec names, nil if it names none.
func (rs *Records) findTurn(id, spec string) (*lattice.Pair, error) {
	number, ok := isTurn(spec)
	if !ok {
		return nil, nil
	}
	p, _, err := rs.ReadHistory(id)
	if err == nil {
		p.Points, err = replay.Points(p.Parsed, id, p.Facts)
	}
	if err == nil {
		err = rs.ReadTurns(&p)
	}
	if err != nil {
		return nil, err
	}
	pt, err := p.findTurn(number)
	return pt.Pair, err
}

// JudgedTurns returns the turns for clients, by the checkpoints that the sprite has.
func (p Past) JudgedTurns(ids map[string]bool, found bool) []api.Turn {
	out := make([]api.Turn, len(p.Turns))
	for i, t := range p.Turns {
		out[i] = api.Turn{
			Turn: i + 1, Moment: p.Judged(t.Point, ids, found), Agent: t.Said.Agent, Tool: t.Said.Tool, Milliseconds: t.Said.Milliseconds,
		}
		out[i].At = t.Event.At
	}
	return out
}

// isTurn reports whether spec names a turn.
func isTurn(spec string) (number string, ok bool) { return strings.CutPrefix(spec, turnPrefix) }
