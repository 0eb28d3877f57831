package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Time travel (DESIGN 23, 26). A moment is where a node of the flow itself is about to begin: the only places where a run
// can be taken back to, or forked. The state there is folded from the journal; the files are those of a checkpoint that
// was taken near enough, with nothing written in between. Iterations have no moments of their own.

// Point is a moment of a run, with what its journal knows about going there.
type Point struct {
	lattice.Moment
	fact int // index of the fact whose step begins the node

	// Files says where the main sprite's files of that moment are.
	Files Files
	Pair  *lattice.Pair // with FilesAt
	Lost  string        // with FilesLost, where it is not the run itself that wrote to them: who did, and how
	// Effects are what was done to the world behind the moment; going back does not undo them.
	Effects []WorldEffect
}

// Files says where the files of a moment are.
type Files string

// Where files of a moment are.
const (
	FilesNone      Files = "none"      // the run has no sprite, or it did not exist yet
	FilesAt        Files = "at"        // at a checkpoint
	FilesUnchanged Files = "unchanged" // in the sprite: nothing has written since
	FilesLost      Files = "lost"      // nowhere: they were written to before a checkpoint was taken
)

// Points finds the moments of a run's present course, oldest first: what a rewind took back has none. A state and the
// files of each are those that the run had.
func Points(p *ir.Program, run string, facts []lattice.Entry) ([]Point, error) {
	var (
		points    []Point
		unsettled = unsettledActions{}
		state     = New(run)
	)
	for i, e := range facts {
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		next, commands, err := Step(p, state, fact)
		if err != nil {
			return nil, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		if back, ok := fact.(lattice.Rewound); ok {
			points = pointsTo(points, back.Moment)
		}
		if lost, ok := fact.(lattice.PowerLost); ok && len(lost.State) > 0 {
			points = slices.DeleteFunc(points, func(pt Point) bool { return pt.Seq >= lost.Seq && pt.fact > 0 })
		}
		begun := pointsOf(p, i, e.Seq, next)
		for n := range begun {
			files, pair := begun[n].filesNow(p, state, fact)
			begun[n].Files, begun[n].Pair = files, pair
		}
		if last := len(points) - 1; last >= 0 && len(begun) > 0 && points[last].Node == begun[0].Node && points[last].Visit == begun[0].Visit {
			points = points[:last] // went back there
		}
		points = append(points, begun...)
		trackFiles(points, next, fact, commands)
		unsettled.follow(e.Seq, fact)
		if effects := worldEffects(state, next, fact); len(effects) > 0 {
			for n := range points[:len(points)-len(begun)] {
				points[n].Effects = append(points[n].Effects, effects...)
			}
		}
		state = next
	}
	for n := range points {
		points[n].Effects = append(points[n].Effects, pendingEffects(state)...)
		points[n].Effects = append(points[n].Effects, unsettled.after(points[n].Seq)...)
	}
	return points, nil
}

// pointsTo drops the moments behind m. m itself is there until it begins again, when the files are: a run that is cut off
// in between can be taken back to it once more.
func pointsTo(points []Point, m lattice.Moment) []Point {
	for i, p := range points {
		if p.Moment == m {
			return points[:i+1]
		}
	}
	return points
}

// pointsOf names the visits of the flow itself that one step began. They are counted from their end: the step may have
// begun with going back, so that the state before it knows of visits that never were.
func pointsOf(p *ir.Program, index int, seq lattice.Seq, after State) []Point {
	visits := maps.Clone(after.Visits)
	var out []Point
	for _, id := range slices.Backward(after.Started) {
		if p.Node(id) == nil {
			continue // of an iteration
		}
		out = append(out, Point{Moment: lattice.Moment{Seq: seq, Node: id, Visit: visits[id]}, fact: index})
		visits[id]--
	}
	slices.Reverse(out)
	return out
}

// filesNow says where the files are at the moment itself; unsettled ones are marked unchanged.
func (pt Point) filesNow(p *ir.Program, before State, fact lattice.Fact) (Files, *lattice.Pair) {
	at, found, err := StepBefore(p, before, fact, pt.Node, pt.Visit)
	switch {
	case err != nil || !found:
		return FilesLost, nil
	case at.Sprite == "":
		return FilesNone, nil
	}
	if pair, ok := at.Pairs[at.Sprite]; ok && !at.Dirty[at.Sprite] {
		return FilesAt, &pair
	}
	return FilesUnchanged, nil
}

// trackFiles follows what happens to the sprite's files behind the moments that have no checkpoint yet: the next one that is
// taken holds them, too, unless they are written to before.
func trackFiles(points []Point, s State, fact lattice.Fact, commands []lattice.Command) {
	taken := false
	if boundary, ok := fact.(lattice.BoundaryTaken); ok {
		taken = boundary.Pair.Sprite == s.Sprite || boundary.Pair.Sprite == ""
	}
	written := false
	for _, c := range commands {
		switch c.Kind {
		case lattice.DoCall:
			written = written || c.Sprite == s.Sprite && c.Call.Class != manifests.ClassRead
		case lattice.DoRestore, lattice.DoPrepare, lattice.DoFork:
			written = written || c.Sprite == s.Sprite
		}
	}
	for i := len(points) - 1; i >= 0 && points[i].Files != FilesAt; i-- {
		switch {
		case points[i].Files != FilesUnchanged:
		case taken:
			pair := s.Pairs[s.Sprite]
			points[i].Files, points[i].Pair = FilesAt, &pair
		case written:
			points[i].Files = FilesLost
		}
	}
}

// StateAt folds a run's facts to a moment: the state in which the node is about to begin, with nothing pending.
func StateAt(p *ir.Program, run string, facts []lattice.Entry, at Point) (State, error) {
	folded, err := Fold(p, run, facts[:at.fact])
	if err != nil {
		return State{}, err
	}
	fact, err := lattice.DecodeFact(facts[at.fact].Type, facts[at.fact].Body)
	if err != nil {
		return State{}, err
	}
	state, found, err := StepBefore(p, folded.State, fact, at.Node, at.Visit)
	if err == nil && !found {
		err = fmt.Errorf("entry %d of run %s does not begin visit %d of %s", at.Seq, run, at.Visit, at.Node)
	}
	return state, err
}

// stepUntil is engine.StepBefore with the ops of a table.
func stepUntil(ops operations, p *ir.Program, s State, f lattice.Fact, node string, visit int) (State, bool, error) {
	m := &machine{p: p, s: s.clone(), operations: ops}
	if err := m.applyFact(f); err != nil {
		return s, false, err
	}
	for m.err == nil {
		if len(m.ready) > 0 {
			next := m.ready[0]
			if next.thread.up == nil && next.node == node && m.s.Visits[node]+1 == visit {
				return m.s, true, nil
			}
		}
		if !m.runNext() {
			return s, false, m.err
		}
	}
	return s, false, m.err
}

// rewindRun goes on from the moment that f names, under a new epoch, once the files are there.
func (m *machine) rewindRun(f lattice.Rewound) error {
	if m.s.Status == lattice.Pending {
		return fmt.Errorf("a rewind before RunStarted")
	}
	then, err := decodeMoment(m.p, f.State, f.Moment)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	if then.RunID != m.s.RunID {
		return fmt.Errorf("rewind of run %s to a state of run %s", m.s.RunID, then.RunID)
	}
	then.Epoch = m.s.Epoch + 1
	then.Models, then.ModelsBy = m.s.Models, m.s.ModelsBy                                                  // no way back takes money back
	then.Disk, then.Losses, then.Records, then.Recovering = cmp.Or(f.Disk, m.s.Disk), m.s.Losses, nil, nil // it was asked for, with the effects behind it
	m.moveTo(then, f.Moment)
	if f.Pair != nil {
		m.flow().restoreFiles(*f.Pair)
		return nil
	}
	m.flow().schedule(f.Moment.Node)
	return nil
}

// startFork begins a run at a moment of another one.
func (m *machine) startFork(f lattice.RunForked) error {
	switch {
	case m.s.Status != lattice.Pending:
		return fmt.Errorf("%w: run %s has started before", ErrStale, m.s.RunID)
	case f.RunID != m.s.RunID:
		return fmt.Errorf("RunForked of run %q in the journal of %q", f.RunID, m.s.RunID)
	case f.Program != m.p.Digest:
		return fmt.Errorf("run %s was forked with program %s, not %s", f.RunID, f.Program, m.p.Digest)
	}
	own, err := decodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("context of the fork: %w", err)
	}
	then, err := decodeMoment(m.p, f.State, f.Moment)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	then.RunID, then.WorkItem, then.Sprite, then.Epoch = f.RunID, f.WorkItem, f.Sprite, 0
	then.Pairs, then.Dirty = map[string]lattice.Pair{}, map[string]bool{}
	then.Cache, then.Kept = nil, nil                                            // what was kept was the other run's
	then.Disk, then.Losses, then.Records, then.Recovering = f.Disk, 0, nil, nil // so is what it lost
	then.Ctx = mergeMaps(then.Ctx, own)
	for _, set := range f.Set {
		value, err := ir.Decode(set.Value)
		if err != nil {
			return fmt.Errorf("%w: value of %s: %v", ErrAnswer, set.Path, err)
		}
		if bad := ir.Assign(set.Path, then.Vars, then.Tmp, value); bad != nil {
			return fmt.Errorf("%w: %s", ErrAnswer, bad.Message)
		}
	}
	m.moveTo(then, f.Moment)
	if f.Pair != nil {
		m.flow().issue(lattice.Command{Kind: lattice.DoFork, Sprite: f.Sprite, Pair: f.Pair})
		return nil
	}
	if m.p.CallsSkills() { // the other run had no files yet
		m.flow().issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
		return nil
	}
	m.flow().schedule(f.Moment.Node)
	return nil
}

// decodeMoment reads the state of a moment, whose program must be this one.
func decodeMoment(p *ir.Program, raw json.RawMessage, at lattice.Moment) (State, error) {
	then, err := DecodeState(raw)
	switch {
	case err != nil:
		return State{}, err
	case then.Program != p.Digest:
		return State{}, fmt.Errorf("the state is of program %s, not %s", then.Program, p.Digest)
	case p.Node(at.Node) == nil:
		return State{}, fmt.Errorf("the program has no node %q", at.Node)
	case then.Status != lattice.Running || len(then.Pending)+len(then.Waits) > 0:
		return State{}, fmt.Errorf("the state is not of a moment: it is %s, with %d commands pending", then.Status, len(then.Pending))
	}
	return then, nil
}

// moveTo makes then the state of the run, with the node as what comes next.
func (m *machine) moveTo(then State, at lattice.Moment) {
	m.s = then.clone()
	m.s.Node, m.s.Visit = at.Node, nil
}
