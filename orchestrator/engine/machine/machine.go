package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Restore returns the command that restores the files of a sprite.
func Restore(to lattice.Pair) lattice.Command {
	return lattice.Command{Kind: lattice.DoRestore, Sprite: to.Sprite, Pair: &to}
}

func Number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// ErrStale marks a fact that comes too late: an answer to a wait that is no longer open, the outcome of a command that was
// answered before, any fact but an observation after the run's end. Drivers ignore duplicates by it.
var ErrStale = errors.New("stale fact")

// ErrAnswer marks a decision that does not fit the wait it answers; the wait stays open.
var ErrAnswer = errors.New("unfit answer")

// RunTimer is the command id of the [lattice.TimerFired] by which the driver reports that limits.timeout_s has passed. It
// is never pending: only the driver knows how long a run was active.
const RunTimer = "run.timeout"

// Defaults of the document's limits.
const (
	DefaultMaxSteps      = 1000
	DefaultMaxStateBytes = 1 << 20
)

// Machine is the working state of one Step.
type Machine struct {
	Program    *ir.Program
	State      runstate.State
	operations Operations
	commands   []lattice.Command
	ready      []entry // nodes to begin, in this order
	Err        error   // a broken invariant; the step is refused
}

// entry is a node that a thread goes to.
type entry struct {
	thread *Thread
	node   string
}

// Schedule puts a node into the ready queue for t to enter.
func (t *Thread) Schedule(node string) {
	t.Visit = nil
	t.Run.ready = append(t.Run.ready, entry{t, node})
}

// setPair notes that the files of a sprite are those of pair.
func (m *Machine) setPair(pair lattice.Pair, sprite string) {
	m.State.Pairs[sprite] = pair
	m.State.Dirty[sprite] = false
}

// mergeMaps returns a new map with the members of both; those of over win.
func mergeMaps(under, over map[string]any) map[string]any {
	both := make(map[string]any, len(under)+len(over))
	maps.Copy(both, under)
	maps.Copy(both, over)
	return both
}

// takeCommand removes the pending command id, which must be of one of the given kinds, and returns it with its thread.
func (m *Machine) takeCommand(id string, kinds ...lattice.CommandKind) (lattice.Command, *Thread, error) {
	c, ok := m.State.FindCommand(id)
	switch {
	case !ok:
		return c, nil, fmt.Errorf("%w: command %s is not pending", ErrStale, id)
	case !slices.Contains(kinds, c.Kind):
		return c, nil, fmt.Errorf("command %s is a %s, not a %s", id, c.Kind, kinds[0])
	}
	t := m.thread(c.Path)
	if t == nil {
		return c, nil, fmt.Errorf("command %s belongs to iteration %s, which is not under way", id, c.Path)
	}
	m.State.Pending = slices.DeleteFunc(m.State.Pending, func(p lattice.Command) bool { return p.ID == id })
	return c, t, nil
}

// Issue adds c to the pending commands under a new derived id.
func (t *Thread) Issue(c lattice.Command) {
	m := t.Run
	m.State.Serial++
	c.ID = fmt.Sprintf("e%d.%d.%s", m.State.Epoch, m.State.Serial, c.Kind)
	c.Node, c.Path = t.Node, t.Path
	if c.Path != "" {
		c.ID += "@" + c.Path
	}
	m.State.Pending = append(m.State.Pending, c)
	m.commands = append(m.commands, c)
}

func (m *Machine) setStatus(next lattice.RunStatus) {
	if err := m.State.Status.To(next); err != nil {
		m.Err = err
		return
	}
	m.State.Status = next
}

// endRun ends the run and drops all pending commands and waits.
func (m *Machine) endRun(status lattice.RunStatus, f *expr.Failure) {
	m.StopRun(status)
	m.State.Failure, m.State.Waits = f, nil
}

// StopRun drops all pending work.
func (m *Machine) StopRun(status lattice.RunStatus) {
	m.setStatus(status)
	m.State.Pending, m.State.Held, m.State.Settling, m.State.Overdue = nil, nil, nil, nil
	m.commands, m.ready = nil, nil
	m.State.Visit = nil
	if u := m.State.Undoing; u != nil && u.Now.Node != "" { // its outcome is unknown
		m.State.Done, u.Now = append(m.State.Done, u.Now), runstate.Undo{}
	}
}

func (m *Machine) maxSteps() int {
	if l := m.Program.Doc.Limits; l != nil && l.MaxSteps > 0 {
		return l.MaxSteps
	}
	return DefaultMaxSteps
}

func (m *Machine) maxStateBytes() int {
	if l := m.Program.Doc.Limits; l != nil && l.MaxStateBytes > 0 {
		return l.MaxStateBytes
	}
	return DefaultMaxStateBytes
}

// DecodeObject decodes raw, which must be a JSON object, null or empty.
func DecodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return o, nil
}

func Failf(kind, format string, args ...any) *expr.Failure {
	return &expr.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
