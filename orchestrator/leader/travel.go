package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// past is a run as its journal tells it.
type past struct {
	record
	program *ir.Program
	facts   []lattice.Entry
	points  []engine.Point
}

// past reads a run's past, and asks the host what has become of the files.
func (l *Leader) past(ctx context.Context, id string) (past, error) {
	p, err := l.journaled(id)
	if err != nil {
		return p, err
	}
	return p, errors.Join(l.loseRestored(ctx, p), l.loseTorn(p))
}

// journaled is past by the journals alone.
func (l *Leader) journaled(id string) (past, error) {
	rec, err := l.record(id)
	if err != nil {
		return past{}, err
	}
	p := past{record: rec}
	var findings []ir.Finding
	if p.program, findings = ir.Parse(rec.Program, rec.kept.lookup); p.program == nil {
		return past{}, fmt.Errorf("load run %s: its program is not valid any more: %s", id, findings[0].Message)
	}
	h, err := l.store.Load(id)
	if err != nil {
		return past{}, fmt.Errorf("load run %s: %w", id, err)
	}
	p.facts = h.Facts
	if p.points, err = engine.Points(p.program, id, p.facts); err != nil || rec.Sprite == "" || rec.kept.OwnSprite {
		return p, err
	}
	return p, l.loseShared(p)
}

// lose marks the moments before some time whose files would be those in the sprite.
func (p past) lose(until time.Time, why string) {
	for i, pt := range p.points {
		if pt.Files == engine.FilesUnchanged && p.at(pt).Before(until) {
			p.points[i].Files, p.points[i].Lost = engine.FilesLost, why
		}
	}
}

// loseRestored marks moments whose files would be those in the sprite, if somebody has put the sprite back since: the host
// keeps the state before in a checkpoint of its own.
func (l *Leader) loseRestored(ctx context.Context, p past) error {
	if len(p.facts) == 0 || !slices.ContainsFunc(p.points, func(pt engine.Point) bool { return pt.Files == engine.FilesUnchanged }) {
		return nil
	}
	if v, err := l.view(p.ID); err != nil || v.Status == lattice.Running {
		return err // its own way back may have been cut off
	}
	all, err := l.client.AllCheckpoints(ctx, p.Sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the checkpoints of sprite %s: %w", p.Sprite, err)
	}
	last := p.facts[len(p.facts)-1].At
	for _, c := range all {
		if c.IsAuto && c.CreateTime.After(last) {
			p.lose(c.CreateTime, fmt.Sprintf("sprite %s was restored by hand since; what it held then is its checkpoint %s", p.Sprite, c.ID))
		}
	}
	return nil
}

// loseShared marks moments whose files would be those in the sprite, if another run has had the sprite since.
func (l *Leader) loseShared(p past) error {
	all, err := l.store.Runs()
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for _, r := range all {
		if r.Sprite != p.Sprite || r.ID == p.ID {
			continue
		}
		other, err := l.view(r.ID)
		if err != nil {
			return err
		}
		p.lose(other.UpdatedAt, r.ID+" has had sprite "+p.Sprite+" since")
	}
	return nil
}

// find looks a moment up by NODE or NODE#VISIT.
func (p past) find(spec string) (engine.Point, error) {
	node, number, numbered := strings.Cut(spec, "#")
	visit, err := strconv.Atoi(number)
	if spec == "" || numbered && (err != nil || visit < 1) {
		return engine.Point{}, fault.BadInput("bad_moment", "%q names no moment: write NODE, or NODE#2 for the second time that it began", spec).WithHint("lattice rewind %s", p.ID)
	}
	var found *engine.Point
	for i, pt := range p.points {
		if pt.Node == node && (!numbered || pt.Visit == visit) {
			found = &p.points[i]
		}
	}
	switch {
	case found != nil:
		return *found, nil
	case p.program.Node(node) == nil:
		return engine.Point{}, fault.NotFound("node_not_found", "the flow has no node %s", node).WithHint("lattice rewind %s lists where the run can go back to", p.ID)
	}
	why := fmt.Sprintf("%s never began %s", p.ID, spec)
	switch {
	case !p.inFlow(node):
		why = fmt.Sprintf("%s is inside of another node, and iterations and branches have no moments of their own: go back to the node around it", node)
	case p.kept.Fork != nil:
		why += " itself; what lies before " + p.kept.Fork.Moment.Node + " is " + p.kept.Fork.From + "'s"
	}
	return engine.Point{}, fault.NotFound("moment_not_found", "%s", why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
}

// inFlow reports whether a node is one of the flow itself.
func (p past) inFlow(node string) bool {
	return slices.ContainsFunc(p.program.Doc.Nodes, func(n ir.Node) bool { return n.ID == node })
}

// held says which checkpoints a run's sprite has; found is false when the sprite is gone.
func (l *Leader) held(ctx context.Context, sprite string) (ids map[string]bool, found bool, err error) {
	if sprite == "" {
		return nil, false, nil
	}
	all, err := l.client.Checkpoints(ctx, sprite)
	switch {
	case errors.Is(err, sprites.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("look for the checkpoints of sprite %s: %w", sprite, err)
	}
	ids = make(map[string]bool, len(all))
	for _, c := range all {
		ids[c.ID] = true
	}
	return ids, true, nil
}

// missing says why a moment cannot be gone to, "" when it can.
func missing(pt engine.Point, sprite string, ids map[string]bool, found bool) string {
	switch {
	case pt.Files == engine.FilesNone:
		return ""
	case pt.Lost != "":
		return pt.Lost
	case pt.Files == engine.FilesLost:
		return "its files were written to before a checkpoint was taken"
	case !found:
		return "sprite " + sprite + " is gone"
	case pt.Files == engine.FilesAt && !ids[pt.Pair.CheckpointID]:
		return "checkpoint " + pt.Pair.CheckpointID + " is gone"
	}
	return ""
}

// Moments lists where a run's nodes began (api.Travel).
func (l *Leader) Moments(ctx context.Context, id string) ([]api.Moment, error) {
	id, err := l.resolve(id)
	if err != nil {
		return nil, err
	}
	p, err := l.past(ctx, id)
	if err != nil {
		return nil, err
	}
	ids, found, err := l.held(ctx, p.Sprite)
	if err != nil {
		return nil, err
	}
	out := make([]api.Moment, len(p.points))
	for i, pt := range p.points {
		out[i] = p.judged(pt, ids, found)
	}
	return out, nil
}

// at is when a moment was.
func (p past) at(pt engine.Point) time.Time {
	i := slices.IndexFunc(p.facts, func(e lattice.Entry) bool { return e.Seq == pt.Seq })
	return p.facts[i].At
}

// judged is view that also says whether the run can go back there, by the checkpoints that its sprite has (held).
func (p past) judged(pt engine.Point, ids map[string]bool, found bool) api.Moment {
	m := p.view(pt)
	m.Why = missing(pt, p.Sprite, ids, found)
	m.Available = m.Why == ""
	return m
}

// view is a moment for people.
func (p past) view(pt engine.Point) api.Moment {
	m := api.Moment{Node: pt.Node, Visit: pt.Visit, Seq: pt.Seq, At: p.at(pt), Files: string(pt.Files), Effects: effectTexts(pt.Effects)}
	if pt.Pair != nil {
		m.Checkpoint = pt.Pair.CheckpointID
	}
	return m
}

func effectTexts(effects []engine.WorldEffect) []string {
	var texts []string
	for _, e := range effects {
		texts = append(texts, e.String())
	}
	return texts
}

// reach finds a moment that can be gone to.
func (l *Leader) reach(ctx context.Context, p past, spec string) (engine.Point, error) {
	pt, err := p.find(spec)
	if err != nil {
		return pt, err
	}
	ids, found, err := l.held(ctx, p.Sprite)
	if err != nil {
		return pt, err
	}
	if why := missing(pt, p.Sprite, ids, found); why != "" {
		return pt, fault.NotFound("moment_unavailable", "%s cannot go back to %s#%d: %s", p.ID, pt.Node, pt.Visit, why).WithHint("lattice rewind %s lists where it can go back to", p.ID)
	}
	return pt, nil
}

// idle refuses a run that somebody drives. One that has just ended is let come to rest.
func (l *Leader) idle(ctx context.Context, id string) error {
	l.mu.Lock()
	r := l.runs[id]
	var ending chan struct{}
	busy := r != nil && (r.done != nil || r.yielded)
	if busy && r.runner.State().Status.Ended() {
		ending = r.done
	}
	l.mu.Unlock()
	switch {
	case !busy:
		return nil
	case ending == nil:
		return fault.Busy("run_driven", "%s is under way", id).WithHint("Ctrl-C where it is followed puts it down, and it stays resumable; lattice cancel %s ends it, and it can be gone back with then", id)
	}
	select {
	case <-ending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Replay tells a run again by its journal (api.Travel).
func (l *Leader) Replay(_ context.Context, id string, journal []lattice.Entry) (api.Replay, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.Replay{}, err
	}
	rec, err := l.record(id)
	if err != nil {
		return api.Replay{}, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return api.Replay{RunID: id, Diverged: &api.Divergence{What: "program", Message: "the recorded program is not valid: " + findings[0].Message}}, nil
	}
	kept, err := l.store.Load(id)
	if err != nil {
		return api.Replay{}, fmt.Errorf("load run %s: %w", id, err)
	}
	recorded, replayed := kept.Facts, history(kept)
	if journal != nil {
		replayed.Facts = journal
	}
	told, err := engine.Replay(program, id, rec.Secret, replayed)
	if err != nil {
		return api.Replay{}, err
	}
	if d := engine.Differs(recorded, replayed.Facts); d != nil && (told.Diverged == nil || told.Diverged.Seq == 0 || d.Seq <= told.Diverged.Seq) {
		told.Diverged = d
	}
	out := api.Replay{RunID: id, OK: told.Diverged == nil, Facts: told.Facts, StateSum: told.StateSum}
	if told.Diverged != nil {
		d := api.Divergence(*told.Diverged)
		out.Diverged = &d
	}
	return out, nil
}

// cannotFork reports whether a host's refusal says that it forks nothing.
func cannotFork(err error) bool {
	var refused *sprites.APIError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		return refused.Code == "" // no such path, rather than no such sprite
	}
	return false
}
