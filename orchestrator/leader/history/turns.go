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
	known := rs.turns.findTurns(run)
	events, last, err := rs.Store.Events(run, string(protocol.TypeInfo), protocol.KindAgentTurn, known.last)
	if err != nil {
		return nil, fmt.Errorf("read the turns of run %s: %w", run, err)
	}
	for _, e := range events {
		if said, ok := readTurn(e); ok {
			known.all = append(known.all, Turn{Said: said, Event: e, since: e.Seq})
		}
	}
	rs.turns.keepTurns(run, knownTurns{slices.Clip(known.all), last})
	return known.all, nil
}

// Bounds of a turnCache, which forgets everything when it reaches one.
const (
	maxCachedRuns  = 1_000
	maxCachedTurns = 20_000
)

func (c *turnCache) findTurns(run string) knownTurns {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[run]
}

func (c *turnCache) keepTurns(run string, k knownTurns) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, kept := c.runs[run]
	if kept && old.last >= k.last {
		return
	}
	if c.size += len(k.all) - len(old.all); c.runs == nil || c.size > maxCachedTurns || !kept && len(c.runs) >= maxCachedRuns {
		c.runs, c.size = map[string]knownTurns{}, len(k.all)
	}
	c.runs[run] = k
}

// KeptTurns returns the checkpoints of the turns of all courses of a run.
func (rs *Records) KeptTurns(run string) (kept []replay.Turn, err error) {
	all, err := rs.allTurns(run)
	for _, t := range all {
		if t.Said.CheckpointID != "" {
			kept = append(kept, replay.Turn{Seq: t.Event.Seq, Call: t.Event.CallID, Pair: t.pair(), Said: t.Said})
		}
	}
	return kept, err
}

// readTurn reads the event of a turn. A sprite can only name checkpoints of its own.
func readTurn(e lattice.Entry) (said protocol.AgentTurn, ok bool) {
	ev, _, decoded := protocol.Decode(e.Body)
	payload, err := ev.Open()
	info, isInfo := payload.(protocol.Info)
	ok = decoded && err == nil && isInfo && info.Kind == protocol.KindAgentTurn && len(e.Problems)+len(e.Flags) == 0
	return said, ok && json.Unmarshal(info.Metadata, &said) == nil && (said.CheckpointID != "" || said.Reason != "")
}

// sayMissed says why a turn was not kept.
func sayMissed(reason string) string {
	const no = "the turn has no boundary: "
	switch reason {
	case protocol.TurnWentOn:
		return no + "the agent went on before it was stopped"
	case protocol.TurnEnded:
		return no + "the agent ended before it was stopped"
	case protocol.TurnUnwritten:
		return no + "the agent did not write the results of its tools to its session"
	case protocol.TurnUnnamed:
		return no + "the agent has not named its session"
	}
	return no + "its checkpoint could not be taken"
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
			last := -1
			if len(f.State) > 0 && len(f.Sprites) == 0 { // of an older version
				last = indexOf(now, f.Pair)
			}
			now = slices.Concat(now[:last+1], slices.DeleteFunc(slices.Clone(now[last+1:]), func(t Turn) bool { return f.Supersedes(t.Event.Sprite, t.since) }))
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
	return slices.IndexFunc(turns, func(t Turn) bool { return t.pair() == files && files.CheckpointID != "" })
}

// placeTurns finds the moments of the steps to which the turns belong, and drops turns without one.
func (p *Past) placeTurns() {
	p.Turns = slices.DeleteFunc(p.Turns, func(t Turn) bool { return p.momentOf(t) == nil })
	for i, t := range p.Turns {
		pt := *p.momentOf(t)
		pt.Files, pt.Pair, pt.Lost = replay.FilesAt, &lattice.Pair{Sprite: p.Sprite, CheckpointID: t.Said.CheckpointID}, ""
		switch {
		case t.Said.CheckpointID == "":
			pt.Files, pt.Pair, pt.Lost = replay.FilesLost, nil, sayMissed(t.Said.Reason)
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
	return replay.Point{}, fault.NotFound("moment_not_found", "%s has no turn %s; its agents had %d turns", p.ID, number, len(p.Turns)).
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

// Refuse is the error for a moment that cannot be gone to. For a turn it names the nearest ones that can.
func (p Past) Refuse(spec string, pt replay.Point, why string, ids map[string]bool, found bool) error {
	number, ok := isTurn(spec)
	if !ok {
		return fault.NotFound("moment_unavailable", "%s cannot go back to %s#%d: %s", p.ID, pt.Name(), pt.Visit, why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
	}
	err := fault.NotFound("moment_unavailable", "%s cannot go back to turn %s of %s#%d: %s", p.ID, number, pt.Name(), pt.Visit, why)
	if near := p.nearTurns(number, ids, found); near != "" {
		return err.WithHint("the nearest turns to which it can go back: %s", near)
	}
	return err.WithHint("it can go back to no turn; lattice rewind %s lists its moments", p.ID)
}

// nearTurns names the last turn before a turn and the first one behind it to which the run can go back, "" if there are none.
func (p Past) nearTurns(number string, ids map[string]bool, found bool) string {
	var before, behind []string
	of, _ := strconv.Atoi(number) // findTurn found it
	for _, t := range p.JudgedTurns(ids, found) {
		switch {
		case !t.Available || t.Turn == of:
		case t.Turn < of:
			before = []string{strconv.Itoa(t.Turn)}
		case behind == nil:
			behind = []string{strconv.Itoa(t.Turn)}
		}
	}
	return strings.Join(append(before, behind...), ", ")
}

// isTurn reports whether spec names a turn.
func isTurn(spec string) (number string, ok bool) { return strings.CutPrefix(spec, turnPrefix) }
