package leader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// past is a run as its journal tells it.
type past struct {
	record
	program *ir.Program
	facts   []lattice.Entry
	points  []replay.Point
}

// lose marks the moments before some time whose files would be those in the sprite.
func (p past) lose(until time.Time, why string) {
	for i, pt := range p.points {
		if pt.Files == replay.FilesUnchanged && p.at(pt).Before(until) {
			p.points[i].Files, p.points[i].Lost = replay.FilesLost, why
		}
	}
}

// at is when a moment was.
func (p past) at(pt replay.Point) time.Time {
	i := slices.IndexFunc(p.facts, func(e lattice.Entry) bool { return e.Seq == pt.Seq })
	return p.facts[i].At
}

// find looks a moment up by NODE or NODE#VISIT.
func (p past) find(spec string) (replay.Point, error) {
	node, number, numbered := strings.Cut(spec, "#")
	visit, err := strconv.Atoi(number)
	if spec == "" || numbered && (err != nil || visit < 1) {
		return replay.Point{}, fault.BadInput("bad_moment", "%q names no moment: write NODE, or NODE#2 for the second time that it began", spec).WithHint("lattice rewind %s", p.ID)
	}
	var found *replay.Point
	for i, pt := range p.points {
		if pt.Node == node && (!numbered || pt.Visit == visit) {
			found = &p.points[i]
		}
	}
	switch {
	case found != nil:
		return *found, nil
	case p.program.Node(node) == nil:
		return replay.Point{}, fault.NotFound("node_not_found", "the flow has no node %s", node).WithHint("lattice rewind %s lists where the run can go back to", p.ID)
	}
	why := fmt.Sprintf("%s never began %s", p.ID, spec)
	switch {
	case !p.inFlow(node):
		why = fmt.Sprintf("%s is inside of another node, and iterations and branches have no moments of their own: go back to the node around it", node)
	case p.kept.Fork != nil:
		why += " itself; what lies before " + p.kept.Fork.Moment.Node + " is " + p.kept.Fork.From + "'s"
	}
	return replay.Point{}, fault.NotFound("moment_not_found", "%s", why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
}

// inFlow reports whether a node is one of the flow itself.
func (p past) inFlow(node string) bool {
	return slices.ContainsFunc(p.program.Doc.Nodes, func(n ir.Node) bool { return n.ID == node })
}

// missing says why a moment cannot be gone to, "" when it can.
func missing(pt replay.Point, sprite string, ids map[string]bool, found bool) string {
	switch {
	case pt.Files == replay.FilesNone:
		return ""
	case pt.Lost != "":
		return pt.Lost
	case pt.Files == replay.FilesLost:
		return "its files were written to before a checkpoint was taken"
	case !found:
		return "sprite " + sprite + " is gone"
	case pt.Files == replay.FilesAt && !ids[pt.Pair.CheckpointID]:
		return "checkpoint " + pt.Pair.CheckpointID + " is gone"
	}
	return ""
}

// judged is view that also says whether the run can go back there, by the checkpoints that its sprite has (held).
func (p past) judged(pt replay.Point, ids map[string]bool, found bool) api.Moment {
	m := p.view(pt)
	m.Why = missing(pt, p.Sprite, ids, found)
	m.Available = m.Why == ""
	return m
}

// view is a moment for people.
func (p past) view(pt replay.Point) api.Moment {
	m := api.Moment{Node: pt.Node, Visit: pt.Visit, Seq: pt.Seq, At: p.at(pt), Files: string(pt.Files), Effects: effectTexts(pt.Effects)}
	if pt.Pair != nil {
		m.Checkpoint = pt.Pair.CheckpointID
	}
	return m
}

func effectTexts(effects []replay.WorldEffect) []string {
	var texts []string
	for _, e := range effects {
		texts = append(texts, e.String())
	}
	return texts
}

// moments finds two moments by name: "" is the beginning, then the present, for which b is nil.
func (p past) moments(from, to string) (a replay.Point, b *replay.Point, err error) {
	if len(p.points) == 0 {
		return a, nil, fault.NotFound("moment_not_found", "%s has begun no node yet", p.ID)
	}
	a = p.points[0]
	if from != "" {
		if a, err = p.find(from); err != nil {
			return a, nil, err
		}
	}
	if to == "" {
		return a, nil, nil
	}
	found, err := p.find(to)
	return a, &found, err
}
