package history

import (
	"fmt"
	"path"
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

// Lose marks the moments before until that have their files in the sprite: the files are lost.
func (p Past) Lose(until time.Time, why string) {
	for i, pt := range p.Points {
		if pt.Files == replay.FilesUnchanged && p.timeOf(pt).Before(until) {
			p.Points[i].Files, p.Points[i].Lost = replay.FilesLost, why
		}
	}
}

// timeOf returns the time of a moment.
func (p Past) timeOf(pt replay.Point) time.Time {
	i := slices.IndexFunc(p.Facts, func(e lattice.Entry) bool { return e.Seq == pt.Seq })
	return p.Facts[i].At
}

// Find looks a moment up by NODE or NODE#VISIT, with the path of its iteration in front, or by @N, which is the end of turn N.
func (p Past) Find(spec string) (replay.Point, error) {
	if number, ok := isTurn(spec); ok {
		return p.findTurn(number)
	}
	name, number, numbered := cutVisit(spec)
	node := path.Base(name)
	visit, err := strconv.Atoi(number)
	if spec == "" || numbered && (err != nil || visit < 1) {
		return replay.Point{}, fault.BadInput("bad_moment", "%q names no moment: write NODE, or NODE#2 for the second time that it began", spec).WithHint("lattice rewind %s", p.ID)
	}
	var found *replay.Point
	for i, pt := range p.Points {
		if pt.Name() == name && (!numbered || pt.Visit == visit) || pt.Node == spec {
			found = &p.Points[i]
		}
	}
	switch {
	case found != nil:
		return *found, nil
	case p.Parsed.Node(node) == nil:
		return replay.Point{}, fault.NotFound("node_not_found", "the flow has no node %s", node).WithHint("lattice rewind %s lists where the run can go back to", p.ID)
	}
	why := fmt.Sprintf("%s never began %s", p.ID, spec)
	switch {
	case !p.inFlow(node):
		why = fmt.Sprintf("%s is inside of another node, and iterations have moments only if they run one after the other in the sprite of the run: go back to the node around it", spec)
	case p.Kept.Fork != nil:
		why += " itself; what lies before " + p.Kept.Fork.Moment.Name() + " is " + p.Kept.Fork.From + "'s"
	}
	return replay.Point{}, fault.NotFound("moment_not_found", "%s", why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
}

// cutVisit splits NODE#VISIT, where the path before NODE may have visits as well.
func cutVisit(spec string) (name, visit string, numbered bool) {
	in, node := path.Split(spec)
	node, visit, numbered = strings.Cut(node, "#")
	return in + node, visit, numbered
}

// inFlow reports whether a node is one of the flow itself.
func (p Past) inFlow(node string) bool {
	return slices.ContainsFunc(p.Parsed.Doc.Nodes, func(n ir.Node) bool { return n.ID == node })
}

// Missing says why a moment cannot be gone to, "" when it can.
func Missing(pt replay.Point, sprite string, ids map[string]bool, found bool) string {
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

// Judged is view that also says whether the run can go back there, by the checkpoints that its sprite has (held).
func (p Past) Judged(pt replay.Point, ids map[string]bool, found bool) api.Moment {
	m := p.View(pt)
	m.Why = Missing(pt, p.Sprite, ids, found)
	m.Available = m.Why == ""
	return m
}

// View returns a moment for clients.
func (p Past) View(pt replay.Point) api.Moment {
	m := api.Moment{Node: pt.Name(), Visit: pt.Visit, Seq: pt.Seq, At: p.timeOf(pt), Files: string(pt.Files), Effects: EffectTexts(pt.Effects)}
	if pt.Pair != nil {
		m.Checkpoint = pt.Pair.CheckpointID
	}
	return m
}

func EffectTexts(effects []replay.WorldEffect) []string {
	var texts []string
	for _, e := range effects {
		texts = append(texts, e.String())
	}
	return texts
}

// Moments finds two moments by name: "" is the beginning, then the present, for which b is nil.
func (p Past) Moments(from, to string) (a replay.Point, b *replay.Point, err error) {
	if len(p.Points) == 0 {
		return a, nil, fault.NotFound("moment_not_found", "%s has begun no node yet", p.ID)
	}
	a = p.Points[0]
	if from != "" {
		if a, err = p.Find(from); err != nil {
			return a, nil, err
		}
	}
	if to == "" {
		return a, nil, nil
	}
	found, err := p.Find(to)
	return a, &found, err
}
