// Package engine runs ExecIR programs. It has two halves:
//
//   - Step, the pure core: (program, state, fact) → (state, commands). No clock, no randomness, no I/O, no map order.
//     Commands stay in State.Pending until a fact answers them, so recovery is performing what is pending.
//   - Runner, the thin edge: one owner per run that appends facts before it believes them, performs commands through
//     small interfaces (Log, Caller, Boundary, Preparer, Actor) and feeds their outcomes back as facts.
//
// Start with Step, then State; call.go, suspend.go, blocked.go, human.go, simpleops.go and llm.go hold the rules of one
// node, mapop.go and innerops.go those of nodes that run others inside, overdue.go how long those may take, copies.go and
// cache.go those of calls with a sprite of their own and of calls that are not made twice, flow.go those between nodes,
// vars.go what nodes write, undo.go how what was done is taken back, and drain.go what calls that run at once have to wait
// for.
// Time: entries bear the wall clock, a run's timeout counts the hours that it was driven awake, timers count sleep and no
// setting of the clock hurries or holds them; clock.go has the rules.
//
// Invariants: a fact is on disk before an effect that follows from it; a call is dispatched again only under the same
// id and only when its class allows it (DESIGN 14); a run's state equals the fold of its journal.
package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// ErrStale marks a fact whose question is closed: an answer to a wait that is no longer open, the outcome of a command
// that was answered before, anything but observation after the run's end. Drivers treat duplicates as no-ops by it.
var ErrStale = errors.New("stale fact")

// ErrAnswer marks a decision that does not fit the wait it answers; the wait stays open.
var ErrAnswer = errors.New("unfit answer")

// RunTimer is the command id under which the driver reports, by lattice.TimerFired, that the run's limits.timeout_s is
// used up. It is never pending: only the driver knows how long a run was active.
const RunTimer = "run.timeout"

// Defaults of the document's limits.
const (
	DefaultMaxSteps      = 1000
	DefaultMaxStateBytes = 1 << 20
)

// Step applies one fact. It returns the next state and the commands that the fact gave rise to (which are in
// State.Pending, too) and never changes s. It fails, with s as it was, on facts that are illegal in this state; see
// ErrStale and ErrAnswer. Failures of the flow itself are no errors: they are part of the state.
func Step(p *ir.Program, s State, f lattice.Fact) (State, []lattice.Command, error) {
	m := &machine{p: p, s: s.clone()}
	m.at = m.flow()
	if err := m.apply(f); err != nil {
		return s, nil, err
	}
	for m.err == nil && m.proceed() {
	}
	m.waitOn()
	if m.err != nil {
		return s, nil, m.err
	}
	return m.s, m.commands, nil
}

// machine is one Step at work.
type machine struct {
	p        *ir.Program
	s        State
	commands []lattice.Command
	at       *thread // whose rules apply; that of the command or wait that the fact answers
	ready    []entry // nodes to begin, in this order
	err      error   // a broken invariant; the step is refused

	extra map[string]any // ports of the node that is being finished, beside the members of its output
}

// entry is a node that a thread goes to.
type entry struct {
	thread *thread
	node   string
}

// waitOn has a run wait in which one of several waits has closed, and nothing else is to be done.
func (m *machine) waitOn() {
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer }
	if m.err == nil && m.s.Status == lattice.Running && len(m.s.Waits) > 0 && !slices.ContainsFunc(m.s.Pending, busy) {
		m.become(lattice.Waiting)
	}
}

// proceed does the next thing that the fact gave rise to; it reports whether there was one.
func (m *machine) proceed() bool {
	if len(m.s.Overdue) > 0 && m.giveUpOverdue() {
		return true
	}
	if len(m.ready) == 0 {
		return m.release()
	}
	next := m.ready[0]
	m.ready = m.ready[1:]
	m.at = next.thread
	m.begin(next.node)
	return true
}

// goTo has the current thread enter a node when it is its turn.
func (m *machine) goTo(node string) {
	m.at.Visit = nil
	m.ready = append(m.ready, entry{m.at, node})
}

func (m *machine) apply(f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.RunStarted:
		return m.start(f)
	case lattice.RunForked:
		return m.forked(f)
	case lattice.Rewound:
		return m.rewound(f)
	}
	if _, ok := f.(lattice.ActionNoted); ok {
		return nil // kept for the record; it never changes the course of the run
	}
	if m.s.Status.Ended() {
		return fmt.Errorf("%w: the run is %s", ErrStale, m.s.Status)
	}
	if m.s.Recovering != nil {
		switch f.(type) {
		case lattice.Restored, lattice.CommandFailed, lattice.CancelRequested, lattice.PowerLost:
		default:
			return fmt.Errorf("%w: %s", ErrRecovering, f.FactType())
		}
	}
	if m.s.Status == lattice.Pending {
		if _, ok := f.(lattice.CancelRequested); !ok {
			return fmt.Errorf("%s before RunStarted", f.FactType())
		}
	}
	switch f := f.(type) {
	case lattice.PowerLost:
		return m.powerLost(f)
	case lattice.Prepared:
		return m.prepared(f)
	case lattice.CallFinished:
		return m.callFinished(f)
	case lattice.CallBlocked:
		return m.callBlocked(f)
	case lattice.CallSuspended:
		return m.callSuspended(f)
	case lattice.CallLost:
		return m.callLost(f)
	case lattice.BoundaryTaken:
		return m.boundaryTaken(f)
	case lattice.Restored:
		return m.restored(f)
	case lattice.Answered:
		return m.answered(f)
	case lattice.ActionDone:
		return m.actionDone(f)
	case lattice.TimerFired:
		return m.timerFired(f)
	case lattice.CommandFailed:
		return m.commandFailed(f)
	case lattice.ModelAnswered:
		return m.modelAnswered(f)
	case lattice.ModelAskedAgain:
		return m.askedAgain(f)
	case lattice.CancelRequested:
		m.end(lattice.Canceled, &ir.Failure{Kind: ir.FailCancelled, Message: "canceled by " + f.By, Node: m.s.Node})
		return nil
	}
	return fmt.Errorf("unknown fact type %s", f.FactType())
}

func (m *machine) start(f lattice.RunStarted) error {
	switch {
	case m.s.Status != lattice.Pending:
		return fmt.Errorf("%w: run %s has started before", ErrStale, m.s.RunID)
	case f.RunID != m.s.RunID:
		return fmt.Errorf("RunStarted of run %q in the journal of %q", f.RunID, m.s.RunID)
	case f.Program != m.p.Digest:
		return fmt.Errorf("run %s was started with program %s, not %s", f.RunID, f.Program, m.p.Digest)
	case m.p.CallsSkills() && f.Sprite == "":
		return fmt.Errorf("run %s calls skills but has no sprite", f.RunID)
	}
	in, err := object(f.Input)
	if err != nil {
		return fmt.Errorf("run input: %w", err)
	}
	ctx, err := object(f.Ctx)
	if err != nil {
		return fmt.Errorf("run context: %w", err)
	}
	m.s.WorkItem, m.s.Program, m.s.Sprite = f.WorkItem, f.Program, f.Sprite
	m.s.Grants = slices.Sorted(slices.Values(f.Grants))
	m.s.In, m.s.Ctx, m.s.Disk = in, ctx, f.Disk
	m.s.AskWorld, m.s.ApproveWorld = f.AskWorld, slices.Clone(f.ApproveWorld)
	m.become(lattice.Running)
	switch {
	case len(f.Input) > m.maxStateBytes():
		m.end(lattice.Failed, failure(ir.FailLimit, "the input has %d bytes; max_state_bytes is %d", len(f.Input), m.maxStateBytes()))
	case m.p.CallsSkills():
		m.issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
	default:
		m.goTo(m.p.Doc.EntryNode)
	}
	return nil
}

func (m *machine) prepared(f lattice.Prepared) error {
	c, err := m.answer(f.CommandID, lattice.DoPrepare, lattice.DoFork)
	if err != nil {
		return err
	}
	extra, err := object(f.Ctx)
	if err != nil {
		return fmt.Errorf("prepared context: %w", err)
	}
	m.s.Dirty[c.Sprite] = true
	if m.inCopy() && m.at.Visit.Call.Sprite == c.Sprite {
		m.send()
		return nil
	}
	if t := m.at; t.up != nil { // an item's own copy
		m.goTo(m.p.Inner(m.p.Node(t.up.Node), t.iteration.Index).EntryNode)
		return nil
	}
	m.s.Ctx = merged(m.s.Ctx, extra)
	m.goTo(cmp.Or(m.s.Node, m.p.Doc.EntryNode)) // a fork begins where the other run was
	return nil
}

// merged is a new map with the members of both; those of over win.
func merged(under, over map[string]any) map[string]any {
	both := make(map[string]any, len(under)+len(over))
	maps.Copy(both, under)
	maps.Copy(both, over)
	return both
}

func (m *machine) timerFired(f lattice.TimerFired) error {
	if f.CommandID == RunTimer {
		if m.p.Doc.Limits == nil || m.p.Doc.Limits.TimeoutS <= 0 || m.s.Status != lattice.Running {
			return fmt.Errorf("the run's timeout fired for a run that is %s and may take any time then", m.s.Status)
		}
		m.end(lattice.Failed, failure(ir.FailTimeout, "the run took longer than its %g seconds", m.p.Doc.Limits.TimeoutS))
		return nil
	}
	if _, err := m.answer(f.CommandID, lattice.DoTimer); err != nil {
		return err
	}
	if m.at.Visit.Map != nil {
		m.timeUp()
		return nil
	}
	if i := slices.IndexFunc(m.s.Waits, func(w lattice.Wait) bool { return w.Path == m.at.path }); i >= 0 {
		m.humanTimeout(m.s.Waits[i])
		return nil
	}
	if node := m.p.Node(m.at.Node); node.Op == ir.OpWait {
		m.leave(node, nil)
		return nil
	}
	m.at.Visit.Attempt++
	m.at.Visit.Losses = 0
	m.attempt()
	return nil
}

func (m *machine) commandFailed(f lattice.CommandFailed) error {
	c, ok := m.s.pending(f.CommandID)
	if !ok {
		return fmt.Errorf("%w: command %s is not pending", ErrStale, f.CommandID)
	}
	data, err := ir.Marshal(f.Fault)
	if err != nil {
		return fmt.Errorf("encode fault: %w", err)
	}
	m.end(lattice.Failed, &ir.Failure{
		Kind: ir.FailToolUnavailable, Message: fmt.Sprintf("%s: %s", c.Kind, f.Fault.Message), Node: c.Node, Data: data,
	})
	return nil
}

// answer takes the pending command id off the list and goes on in its thread; it must be of one of the given kinds.
func (m *machine) answer(id string, kinds ...lattice.CommandKind) (lattice.Command, error) {
	c, ok := m.s.pending(id)
	switch {
	case !ok:
		return c, fmt.Errorf("%w: command %s is not pending", ErrStale, id)
	case !slices.Contains(kinds, c.Kind):
		return c, fmt.Errorf("command %s is a %s, not a %s", id, c.Kind, kinds[0])
	}
	at := m.thread(c.Path)
	if at == nil {
		return c, fmt.Errorf("command %s belongs to iteration %s, which is not under way", id, c.Path)
	}
	m.at = at
	m.s.Pending = slices.DeleteFunc(m.s.Pending, func(p lattice.Command) bool { return p.ID == id })
	return c, nil
}

// issue makes c pending under a fresh derived id.
func (m *machine) issue(c lattice.Command) {
	m.s.Serial++
	c.ID = fmt.Sprintf("e%d.%d.%s", m.s.Epoch, m.s.Serial, c.Kind)
	c.Node, c.Path = m.at.Node, m.at.path
	if c.Path != "" {
		c.ID += "@" + c.Path
	}
	m.s.Pending = append(m.s.Pending, c)
	m.commands = append(m.commands, c)
}

func (m *machine) become(next lattice.RunStatus) {
	if err := m.s.Status.To(next); err != nil {
		m.err = err
		return
	}
	m.s.Status = next
}

// end closes the run; what was pending is dropped.
func (m *machine) end(status lattice.RunStatus, f *ir.Failure) {
	m.stop(status)
	m.s.Failure, m.s.Waits = f, nil
}

// stop drops whatever the run was doing.
func (m *machine) stop(status lattice.RunStatus) {
	m.become(status)
	m.s.Pending, m.s.Held, m.s.Settling, m.s.Overdue = nil, nil, nil, nil
	m.commands, m.ready = nil, nil
	m.s.Visit = nil
	if u := m.s.Undoing; u != nil && u.Now.Node != "" { // its end did not become known
		m.s.Done, u.Now = append(m.s.Done, u.Now), Undo{}
	}
}

func (m *machine) maxSteps() int {
	if l := m.p.Doc.Limits; l != nil && l.MaxSteps > 0 {
		return l.MaxSteps
	}
	return DefaultMaxSteps
}

func (m *machine) maxStateBytes() int {
	if l := m.p.Doc.Limits; l != nil && l.MaxStateBytes > 0 {
		return l.MaxStateBytes
	}
	return DefaultMaxStateBytes
}

// object decodes raw, which must be a JSON object or empty.
func object(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	v, err := ir.Decode(raw)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return o, nil
}

func failure(kind, format string, args ...any) *ir.Failure {
	return &ir.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
