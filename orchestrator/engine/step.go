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

// applyStep is engine.Step with the ops of a table.
//
// One visit of a node:
//
//	applyFact ──▶ answered ──▶ operation.answered ◀──────────────┐
//	    │                          │                            fact
//	    ▼                          │                             │
//	 schedule ─▶ ready             │                          driver
//	    ▲          │ runNext       │                             ▲
//	    │          ▼               │                          command
//	    │      enterNode           │                             │
//	    │          │ when_skip, max_steps                        │
//	    │          ▼               ▼                             │
//	    │     startAttempt ─▶ operation.begin ──▶ issue ─▶ State.Pending
//	    │          ▲               │       └────▶ openWait ─▶ State.Waits
//	    │   timer  │               │
//	    │          │        ┌──────┴─────────┐
//	    │    failAttempt ◀──┤ attempt failed │ ended ─▶ completeNode
//	    │          │        └────────────────┘              │ outputs
//	    │          ▼ no retry rule                          ▼
//	    ├──── failVisit (catch)                        followEdge
//	    │          │                                        │
//	    └──────────┼────────────────────────────────────────┤
//	               ▼ not caught                             ▼ no edge
//	           failThread                             completeThread
//	     (iteration, compensation, end)             (iteration, end of the run)
func applyStep(ops operations, p *ir.Program, s State, f lattice.Fact) (State, []lattice.Command, error) {
	m := &machine{p: p, s: s.clone(), operations: ops}
	if err := m.applyFact(f); err != nil {
		return s, nil, err
	}
	for m.err == nil && m.runNext() {
	}
	m.settleStatus()
	if m.err != nil {
		return s, nil, m.err
	}
	return m.s, m.commands, nil
}

// machine is the working state of one Step.
type machine struct {
	p          *ir.Program
	s          State
	operations operations
	commands   []lattice.Command
	ready      []entry // nodes to begin, in this order
	err        error   // a broken invariant; the step is refused
}

// entry is a node that a thread goes to.
type entry struct {
	thread *thread
	node   string
}

// settleStatus sets a run to waiting if one of several waits was closed and nothing else is pending.
func (m *machine) settleStatus() {
	busy := func(c lattice.Command) bool { return c.Kind != lattice.DoTimer }
	if m.err == nil && m.s.Status == lattice.Running && len(m.s.Waits) > 0 && !slices.ContainsFunc(m.s.Pending, busy) {
		m.setStatus(lattice.Waiting)
	}
}

// runNext makes the next move that follows from the fact. It reports whether there was one.
func (m *machine) runNext() bool {
	if len(m.s.Overdue) > 0 && m.giveUpOverdue() {
		return true
	}
	if len(m.ready) == 0 {
		return m.releaseHeld()
	}
	next := m.ready[0]
	m.ready = m.ready[1:]
	next.thread.enterNode(next.node)
	return true
}

// schedule puts a node into the ready queue for t to enter.
func (t *thread) schedule(node string) {
	t.Visit = nil
	t.m.ready = append(t.m.ready, entry{t, node})
}

func (m *machine) applyFact(f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.RunStarted:
		return m.startRun(f)
	case lattice.RunForked:
		return m.startFork(f)
	case lattice.Rewound:
		return m.rewindRun(f)
	}
	switch f.(type) {
	case lattice.ActionNoted, lattice.ActionDecided, lattice.ActionSettled:
		return nil // recorded only; they never change the state
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
	case lattice.Answered:
		return m.waitAnswered(f)
	case lattice.CommandFailed:
		return m.commandFailed(f)
	case lattice.ModelAskedAgain:
		return m.modelAskedAgain(f)
	case lattice.TimerFired:
		if f.CommandID == RunTimer {
			return m.runTimedOut()
		}
	case lattice.CancelRequested:
		m.endRun(lattice.Canceled, &ir.Failure{Kind: ir.FailCancelled, Message: "canceled by " + f.By, Node: m.s.Node})
		return nil
	}
	id, kinds := answers(f)
	if kinds == nil {
		return fmt.Errorf("unknown fact type %s", f.FactType())
	}
	c, t, err := m.takeCommand(id, kinds...)
	if err != nil {
		return err
	}
	return m.answered(t, c, f)
}

// answers returns the id of the command that f answers and the kinds that it may be of, no kinds for other facts.
func answers(f lattice.Fact) (id string, kinds []lattice.CommandKind) {
	switch f := f.(type) {
	case lattice.Prepared:
		return f.CommandID, []lattice.CommandKind{lattice.DoPrepare, lattice.DoFork}
	case lattice.CallFinished:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallBlocked:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallSuspended:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.CallLost:
		return f.CommandID, []lattice.CommandKind{lattice.DoCall}
	case lattice.BoundaryTaken:
		return f.CommandID, []lattice.CommandKind{lattice.DoCheckpoint}
	case lattice.Restored:
		return f.CommandID, []lattice.CommandKind{lattice.DoRestore}
	case lattice.ActionDone:
		return f.CommandID, []lattice.CommandKind{lattice.DoAction}
	case lattice.TimerFired:
		return f.CommandID, []lattice.CommandKind{lattice.DoTimer}
	case lattice.ModelAnswered:
		return f.CommandID, []lattice.CommandKind{lattice.DoModel}
	}
	return "", nil
}

// answered goes on in t with the fact that answers c. Facts about the files of the whole run are taken here, all others
// by the op of the node that t visits.
func (m *machine) answered(t *thread, c lattice.Command, f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.Prepared:
		return m.spritePrepared(t, c, f)
	case lattice.Restored:
		if r := m.s.Recovering; r != nil && r.Command == c.ID {
			return m.resumeRecovered(*c.Pair)
		}
		m.setPair(*c.Pair, c.Sprite)
		m.invalidateCache(c.Sprite)
		if t.Visit == nil { // of a rewind, which begins the node again
			t.schedule(t.Node)
			return nil
		}
	case lattice.BoundaryTaken:
		if f.Pair.CheckpointID == "" {
			return errors.New("BoundaryTaken without a checkpoint id")
		}
		f.Pair.Sprite = c.Sprite
		m.setPair(f.Pair, c.Sprite)
	case lattice.TimerFired:
		if t.Visit.Map == nil && !m.timesVisit(t) {
			t.Visit.Attempt++
			t.Visit.Losses = 0
			t.startAttempt()
			return nil
		}
	}
	node := m.p.Node(t.Node)
	return t.operation().answered(node, c, f)
}

// setPair notes that the files of a sprite are those of pair.
func (m *machine) setPair(pair lattice.Pair, sprite string) {
	m.s.Pairs[sprite] = pair
	m.s.Dirty[sprite] = false
}

// timesVisit reports whether the timer of t limits or makes up its visit; any other is the delay before the next attempt.
func (m *machine) timesVisit(t *thread) bool {
	return m.p.Node(t.Node).Op == ir.OpWait || slices.ContainsFunc(m.s.Waits, func(w lattice.Wait) bool { return w.Path == t.path })
}

func (m *machine) startRun(f lattice.RunStarted) error {
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
	in, err := decodeObject(f.Input)
	if err != nil {
		return fmt.Errorf("run input: %w", err)
	}
	ctx, err := decodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("run context: %w", err)
	}
	m.s.WorkItem, m.s.Program, m.s.Sprite = f.WorkItem, f.Program, f.Sprite
	m.s.Grants = slices.Sorted(slices.Values(f.Grants))
	m.s.In, m.s.Ctx, m.s.Disk = in, ctx, f.Disk
	m.s.AskWorld, m.s.ApproveWorld = f.AskWorld, slices.Clone(f.ApproveWorld)
	m.setStatus(lattice.Running)
	switch {
	case len(f.Input) > m.maxStateBytes():
		m.endRun(lattice.Failed, newFailure(ir.FailLimit, "the input has %d bytes; max_state_bytes is %d", len(f.Input), m.maxStateBytes()))
	case m.p.CallsSkills():
		m.flow().issue(lattice.Command{Kind: lattice.DoPrepare, Sprite: f.Sprite})
	default:
		m.flow().schedule(m.p.Doc.EntryNode)
	}
	return nil
}

// spritePrepared begins the flow, the iteration or the call whose sprite is ready.
func (m *machine) spritePrepared(t *thread, c lattice.Command, f lattice.Prepared) error {
	extra, err := decodeObject(f.Ctx)
	if err != nil {
		return fmt.Errorf("prepared context: %w", err)
	}
	m.s.Dirty[c.Sprite] = true
	if t.Visit != nil { // the call's own fork
		return t.operation().answered(m.p.Node(t.Node), c, f)
	}
	if t.up != nil { // the iteration's own fork
		t.schedule(m.p.Inner(m.p.Node(t.up.Node), t.iteration.Index).EntryNode)
		return nil
	}
	m.s.Ctx = mergeMaps(m.s.Ctx, extra)
	t.schedule(cmp.Or(m.s.Node, m.p.Doc.EntryNode)) // a fork begins where the other run was
	return nil
}

// mergeMaps returns a new map with the members of both; those of over win.
func mergeMaps(under, over map[string]any) map[string]any {
	both := make(map[string]any, len(under)+len(over))
	maps.Copy(both, under)
	maps.Copy(both, over)
	return both
}

// runTimedOut ends the run at its limits.timeout_s.
func (m *machine) runTimedOut() error {
	if m.p.Doc.Limits == nil || m.p.Doc.Limits.TimeoutS <= 0 || m.s.Status != lattice.Running {
		return fmt.Errorf("the run's timeout fired for a run that is %s and may take any time then", m.s.Status)
	}
	m.endRun(lattice.Failed, newFailure(ir.FailTimeout, "the run took longer than its %g seconds", m.p.Doc.Limits.TimeoutS))
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
	m.endRun(lattice.Failed, &ir.Failure{
		Kind: ir.FailToolUnavailable, Message: fmt.Sprintf("%s: %s", c.Kind, f.Fault.Message), Node: c.Node, Data: data,
	})
	return nil
}

// takeCommand removes the pending command id, which must be of one of the given kinds, and returns it with its thread.
func (m *machine) takeCommand(id string, kinds ...lattice.CommandKind) (lattice.Command, *thread, error) {
	c, ok := m.s.pending(id)
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
	m.s.Pending = slices.DeleteFunc(m.s.Pending, func(p lattice.Command) bool { return p.ID == id })
	return c, t, nil
}

// issue adds c to the pending commands under a new derived id.
func (t *thread) issue(c lattice.Command) {
	m := t.m
	m.s.Serial++
	c.ID = fmt.Sprintf("e%d.%d.%s", m.s.Epoch, m.s.Serial, c.Kind)
	c.Node, c.Path = t.Node, t.path
	if c.Path != "" {
		c.ID += "@" + c.Path
	}
	m.s.Pending = append(m.s.Pending, c)
	m.commands = append(m.commands, c)
}

func (m *machine) setStatus(next lattice.RunStatus) {
	if err := m.s.Status.To(next); err != nil {
		m.err = err
		return
	}
	m.s.Status = next
}

// endRun ends the run and drops all pending commands and waits.
func (m *machine) endRun(status lattice.RunStatus, f *ir.Failure) {
	m.stopRun(status)
	m.s.Failure, m.s.Waits = f, nil
}

// stopRun drops all pending work.
func (m *machine) stopRun(status lattice.RunStatus) {
	m.setStatus(status)
	m.s.Pending, m.s.Held, m.s.Settling, m.s.Overdue = nil, nil, nil, nil
	m.commands, m.ready = nil, nil
	m.s.Visit = nil
	if u := m.s.Undoing; u != nil && u.Now.Node != "" { // its outcome is unknown
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

// decodeObject decodes raw, which must be a JSON object, null or empty.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
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

func newFailure(kind, format string, args ...any) *ir.Failure {
	return &ir.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
