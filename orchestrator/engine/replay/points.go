package replay

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Time travel (DESIGN 23, 26). A moment is where a node is about to begin and nothing else is at work: the only places where
// a run can be rewound to, or forked. The state there is folded from the journal; the files are those of a checkpoint that
// was taken near enough, with nothing written in between. Iterations have moments if they run one after the other in the
// sprite of the run.

// Point is a moment of a run, with the place of its files and the effects after it.
type Point struct {
	lattice.Moment
	fact int // index of the fact whose step begins the node

	// Files says where the main sprite's files of that moment are.
	Files Files
	Pair  *lattice.Pair // with FilesAt
	Lost  string        // with FilesLost, where it is not the run itself that wrote to them: who did, and how
	// Effects are the effects on the world after the moment; a rewind does not undo them.
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

// Points finds the moments of a run's present course, oldest first; visits that a rewind removed have none. A state and the
// files of each are those that the run had.
func Points(p *ir.Program, run string, facts []lattice.Entry) ([]Point, error) {
	var (
		points    []Point
		unsettled = unsettledActions{}
		state     = runstate.New(run)
	)
	for i, e := range facts {
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, fmt.Errorf("replay run %s at entry %d: %w", run, e.Seq, err)
		}
		next, commands, err := engine.Step(p, state, fact)
		if err != nil {
			return nil, fmt.Errorf("replay run %s at entry %d (%s): %w", run, e.Seq, e.Type, err)
		}
		if back, ok := fact.(lattice.Rewound); ok {
			points = pointsTo(points, back.Moment)
		}
		if lost, ok := fact.(lattice.PowerLost); ok && len(lost.State) > 0 {
			points = slices.DeleteFunc(points, func(pt Point) bool {
				return pt.Seq > lost.Seq || pt.Seq == lost.Seq && lost.FactKind != "" && pt.fact > 0
			})
		}
		begun := slices.DeleteFunc(pointsOf(p, i, e.Seq, next), func(pt Point) bool { return pt.isShared(p, state, fact) })
		for n := range begun {
			files, pair := begun[n].filesNow(p, state, fact)
			begun[n].Files, begun[n].Pair = files, pair
		}
		if last := len(points) - 1; last >= 0 && len(begun) > 0 && points[last].Place() == begun[0].Place() {
			if before := points[last]; before.Files == FilesAt { // went back there, perhaps with the files of a turn
				begun[0].Files, begun[0].Pair = FilesAt, before.Pair
			}
			points = points[:last]
		}
		points = append(points, begun...)
		trackFiles(points, next, fact, commands)
		unsettled.applyFact(e.Seq, fact)
		if effects := worldEffects(state, next, fact); len(effects) > 0 {
			for n := range points[:len(points)-len(begun)] {
				points[n].Effects = append(points[n].Effects, effects...)
			}
		}
		state = next
	}
	for n := range points {
		points[n].Effects = append(points[n].Effects, pendingEffects(state)...)
		points[n].Effects = append(points[n].Effects, unsettled.listAfter(points[n].Seq)...)
	}
	return points, nil
}

// pointsTo drops the moments behind m. m itself is there until it begins again, when the files are: a run that is cut off
// in between can be rewound to it again.
func pointsTo(points []Point, m lattice.Moment) []Point {
	for i, p := range points {
		if p.Moment == m {
			return points[:i+1]
		}
	}
	return points
}

// pointsOf names the visits that one step began, of the flow itself and of iterations that run alone. They are counted from
// their end: the step may have begun with going back, so that the state before it knows of visits that never were.
func pointsOf(p *ir.Program, index int, seq lattice.Seq, after runstate.State) []Point {
	later := map[string]int{} // visits of the step behind the one that is named
	var out []Point
	for _, started := range slices.Backward(after.Started) {
		in, id := path.Split(started)
		in = strings.TrimSuffix(in, "/")
		lane := after.FindLane(in)
		if p.Node(id) == nil || lane == nil || !after.IsSingle(in) {
			continue // the end of an iteration, or of one that has ended or does not run alone
		}
		out = append(out, Point{Moment: lattice.Moment{Seq: seq, Node: id, Visit: lane.Visits[id] - later[started], Path: in}, fact: index})
		later[started]++
	}
	slices.Reverse(out)
	return out
}

// isShared reports whether something else is at work when a node of an iteration begins.
func (pt Point) isShared(p *ir.Program, before runstate.State, fact lattice.Fact) bool {
	if pt.Path == "" {
		return false
	}
	_, found, err := engine.StepBefore(p, before, fact, pt.Moment)
	return err != nil || !found
}

// filesNow says where the files are at the moment itself; unsettled ones are marked unchanged.
func (pt Point) filesNow(p *ir.Program, before runstate.State, fact lattice.Fact) (Files, *lattice.Pair) {
	at, found, err := engine.StepBefore(p, before, fact, pt.Moment)
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

// trackFiles updates the moments that have no checkpoint yet: the next checkpoint that is
// taken holds them, too, unless they are written to before.
func trackFiles(points []Point, s runstate.State, fact lattice.Fact, commands []lattice.Command) {
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
func StateAt(p *ir.Program, run string, facts []lattice.Entry, at Point) (runstate.State, error) {
	folded, err := Fold(p, run, facts[:at.fact])
	if err != nil {
		return runstate.State{}, err
	}
	fact, err := lattice.DecodeFact(facts[at.fact].Type, facts[at.fact].Body)
	if err != nil {
		return runstate.State{}, err
	}
	state, found, err := engine.StepBefore(p, folded.State, fact, at.Moment)
	if err == nil && !found {
		err = fmt.Errorf("entry %d of run %s does not begin visit %d of %s", at.Seq, run, at.Visit, at.Node)
	}
	return state, err
}
