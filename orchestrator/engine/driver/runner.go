// Package driver drives runs. A [Runner] is the one owner of a run: it appends facts to the log before it believes them,
// performs pending commands through small interfaces (Log, Caller, Boundary, Preparer, Forker, Actor, Model, Attester), and feeds their
// outcomes back as facts. It never decides which commands follow: engine.Step does.
//
// Entries carry the wall clock. The timeout of a run counts the time that it is driven while the machine is awake; timers
// count sleep, and setting the clock does not change them. See clock.go.
package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Model sends one request to a model and does not judge the answer. It retries when a server is busy, but not because of an
// answer. A repeated request costs money and does no other harm. A reply with a failure kind is an outcome; an error means
// "could not find out" and leaves the command pending.
type Model interface {
	Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error)
}

// Attester judges a verification and signs a statement about it. Equal verifications give equal facts, so a repetition after a
// crash changes nothing.
type Attester interface {
	Attest(ctx context.Context, v lattice.Verification) (lattice.Attested, error)
}

// Log is the run's log. Append is atomic and durable: when it returns nil, all entries are on disk. It fails with
// lattice.ErrConflict when after is not the run's last sequence number, so that two drivers can never both win. It sets Seq of
// the entries that it stored, in place; an entry whose Dedupe the run already has keeps 0. After any other error the
// caller does not know whether the entries are stored and has to load the run again.
type Log interface {
	Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error)
}

// Caller runs one attempt at a skill and reports each event before it returns. It does not retry. An error means
// "could not find out" and leaves the command pending; a lost stream is Outcome Lost; a *lattice.Refusal ends the run.
// Events are reported one at a time; the function may block while the log is busy.
type Caller interface {
	Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error)
}

// Boundary takes and restores checkpoints of a sprite. All are safe to repeat. The runner sets Seq of the pair. To restore
// a pair without a checkpoint id is to have the sprite made again by the next Prepare or Fork.
type Boundary interface {
	Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error)
	// CheckpointDurable returns when the checkpoint survives a loss of power, where the host can tell.
	CheckpointDurable(ctx context.Context, sprite string) (lattice.Pair, error)
	Restore(ctx context.Context, sprite string, to lattice.Pair) error
}

// Preparer makes the main sprite of a run ready: created, /skills there, repository bundle and task.json written. It is
// idempotent. The members that it returns are merged into $ctx. A *lattice.Refusal is final, any other error is "could not find out".
type Preparer interface {
	Prepare(ctx context.Context, run, sprite string) (ctxMembers map[string]any, err error)
}

// Forker makes the main sprite of a forked run: a copy of the files of a checkpoint of another sprite, made ready as
// Preparer does. It is idempotent, and returns members of $ctx and errors as Preparer does.
type Forker interface {
	Fork(ctx context.Context, run string, from lattice.Pair, to string) (ctxMembers map[string]any, err error)
}

// Actor fulfils actions outside of sprites, idempotently by Action.Key. A *lattice.Refusal is the action's failure.
type Actor interface {
	// Inspect determines the effect of the action and returns the policy's verdict; the action comes back with Binding,
	// and with a better Key where the action has one.
	Inspect(ctx context.Context, c lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error)
	Do(ctx context.Context, a lattice.Action) (result []byte, err error)
}

// Deps are the dependencies of a Runner. Now and After are time.Now and time.After outside of tests; clock.go explains the
// clocks.
type Deps struct {
	Log      Log
	Caller   Caller
	Boundary Boundary
	Preparer Preparer
	Forker   Forker // nil: no run is forked
	Actor    Actor
	Model    Model    // nil: no model is asked
	Attester Attester // nil: no flow verifies commits
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	// Awake and Boot say how much time has passed since some fixed moment, without and with the machine's sleep; Sleep
	// waits by Boot and returns ctx's error when that ends first. Any may be nil: it is then made from Now and After.
	Awake, Boot func() time.Duration
	Sleep       func(ctx context.Context, d time.Duration) error
	// MaxEventBytes bounds the bodies of the events of sprites that a run records; 0 is DefaultMaxEventBytes.
	MaxEventBytes uint64
	// Scheduler decides when commands are performed; nil: the drive does.
	Scheduler Scheduler
	// OnEntry is called after each commit with the entries that were stored and the new state entry, in order, from the
	// goroutine that appended. It must not block and not call the Runner. May be nil.
	OnEntry func([]lattice.Entry)
}

// Runner drives one run. It is the only one that appends to the run: through Run while that is active, else through
// Begin, Decide and Cancel themselves. All methods are safe for concurrent use. Load makes one.
type Runner struct {
	deps    Deps
	program *ir.Program
	secret  []byte
	own     chan struct{} // holds one token while a goroutine owns the fields below

	state runstate.State
	seq   lattice.Seq
	at    time.Time // of the last fact
	chain string    // of the last fact
	sums  runstate.Digester
	// snapshots decides when the state is written down.
	snapshots  snapshots
	eventBytes uint64 // of the bodies of the events so far
	facts      int    // so far
	outcomeOf  string // the command whose outcome is being committed, "" if it is another fact
	gate       *gate

	issued map[string]issue // of each pending command
	active time.Duration    // driven so far, waits excluded
	driven bool             // active counts on
	mark   time.Duration    // until when active has counted, on Awake
	broken error            // a failed append: the state on disk is unknown, load again

	running   atomic.Bool  // Run is active
	drive     atomic.Int64 // number of the drive that began last, for the scheduler
	last      atomic.Pointer[Standing]
	failed    atomic.Bool // broken is set
	decisions chan decision
	yield     chan struct{} // holds a token while the drive is asked to end
}

// decision is a fact from outside on its way to the goroutine that drives the run.
type decision struct {
	fact  lattice.Fact
	reply chan error
}

// Errors of driving, in addition to those of Step.
var (
	ErrDriven  = errors.New("the run is already being driven")
	ErrYielded = errors.New("the run was put down for another driver")
	ErrBroken  = errors.New("an append failed and the run has to be loaded again")
)

// Stop says why Run came to rest. Due is set when a timer will go off while the run waits: drive it again when Left has
// passed on Deps.Boot. Due is the same for people, who have only the wall clock.
type Stop struct {
	Status lattice.RunStatus
	Waits  []lattice.Wait
	Due    time.Time
	Left   time.Duration
}

// Load makes the Runner of a run from its history; an empty one belongs to a run that has yet to Begin. It fails when
// the facts do not fold to the snapshot. Pending commands may have been performed in part: calls among them are
// marked Uncertain.
func Load(deps Deps, p *ir.Program, run string, secret []byte, h replay.History) (*Runner, error) {
	folded, err := h.Fold(p, run)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		deps: deps.withClocks(), program: p, secret: secret, own: make(chan struct{}, 1),
		state: folded.State, seq: h.Last, issued: map[string]issue{}, active: folded.Active,
		decisions: make(chan decision), yield: make(chan struct{}, 1),
	}
	r.chain, r.at, r.snapshots = folded.Chain, folded.At, countSince(h)
	r.eventBytes, r.facts, r.gate = h.EventBytes, len(h.Facts), newGate()
	now, boot := r.deps.Now(), r.deps.Boot()
	for _, c := range r.state.Pending {
		r.issued[c.ID] = issueEarlier(folded.Since[c.ID], now, boot)
	}
	r.publishState()
	return r, nil
}

// Standing is a state with the last entry behind which it stands and the time of the last fact, zero before the first.
type Standing struct {
	State runstate.State
	Seq   lattice.Seq
	At    time.Time
	// Facts is the number of facts that led to State, and Due tells when its timers go off; both are for a Scheduler.
	Facts int
	Due   map[string]time.Time
}

// State is the last committed state. It must not be changed.
func (r *Runner) State() runstate.State { return r.last.Load().State }

// Standing is State with where that is. It must not be changed.
func (r *Runner) Standing() Standing { return *r.last.Load() }

// Broken reports whether an append failed: nothing more can be done with r, and its run has to be loaded again.
func (r *Runner) Broken() bool { return r.failed.Load() }

func (r *Runner) publishState() {
	r.last.Store(&Standing{r.state, r.seq, r.at, r.facts, r.findDue()})
}

// Begin appends the run's first fact. Run then drives it.
func (r *Runner) Begin(ctx context.Context, f lattice.RunStarted) error { return r.feedFact(ctx, f) }

// BeginFork appends the first fact of a run that goes on from another one. Run then drives it.
func (r *Runner) BeginFork(ctx context.Context, f lattice.RunForked) error { return r.feedFact(ctx, f) }

// Rewind takes the run back to a moment that Moments found. If the run is not driven, call Run to continue it.
func (r *Runner) Rewind(ctx context.Context, f lattice.Rewound) error { return r.feedFact(ctx, f) }

// Decide appends a person's answer; when it returns nil, the answer is on disk. A duplicate gets ErrStale, an answer
// that does not fit ErrAnswer. If the run is not driven, call Run to continue it.
func (r *Runner) Decide(ctx context.Context, a lattice.Answered) error {
	if a.At == "" {
		a.At = formatTime(r.deps.Now())
	}
	return r.feedFact(ctx, a)
}

// DecideAction appends a person's decision on an action that the run noted; when it returns nil, the decision is on disk.
// The course of the run does not change, whether it has ended or not.
func (r *Runner) DecideAction(ctx context.Context, f lattice.ActionDecided) error {
	return r.feedFact(ctx, f)
}

// SettleAction appends the outcome of an action that DecideAction approved.
func (r *Runner) SettleAction(ctx context.Context, f lattice.ActionSettled) error {
	return r.feedFact(ctx, f)
}

// Cancel ends the run as canceled and stops its effects.
func (r *Runner) Cancel(ctx context.Context, by string) error {
	return r.feedFact(ctx, lattice.CancelRequested{By: by})
}

// Yield asks the drive to begin nothing more and to end, with ErrYielded, when the effects that are under way have ended and are on disk.
// Unlike a cut-off this loses no work. It does not wait. Without a drive it may end the next one.
func (r *Runner) Yield() {
	select {
	case r.yield <- struct{}{}:
	default:
	}
}

// feedFact gives f to the goroutine that drives the run, or appends it itself if there is none.
func (r *Runner) feedFact(ctx context.Context, f lattice.Fact) error {
	d := decision{fact: f, reply: make(chan error, 1)}
	select {
	case r.own <- struct{}{}:
		defer func() { <-r.own }()
		return r.appendFacts(ctx, nil, f)
	case r.decisions <- d:
		return <-d.reply
	case <-ctx.Done():
		return ctx.Err()
	}
}

// appendFacts is the one way to the log: it steps through the facts and commits events, facts and, when it is due, the state
// together. Only when that is on disk does the runner believe it.
func (r *Runner) appendFacts(ctx context.Context, events []lattice.Entry, facts ...lattice.Fact) error {
	if r.broken != nil {
		return r.broken
	}
	now, awake := r.deps.Now(), r.deps.Awake()
	active := r.active
	if r.state.Status == lattice.Running && r.driven {
		active += max(0, awake-r.mark)
	}
	entries, state, chain := events, r.state, r.chain
	var issued []lattice.Command
	var written []Fact
	last := 0 // the last fact of entries
	for _, f := range facts {
		next, commands, err := engine.Step(r.program, state, f)
		if err != nil {
			return err
		}
		body, err := expr.Marshal(f)
		if err != nil {
			return fmt.Errorf("encode %s: %w", f.FactType(), err)
		}
		if r.deps.Scheduler != nil {
			written = append(written, Fact{f.FactType(), body})
		}
		last = len(entries)
		entries = append(entries, lattice.Entry{
			Run: next.RunID, At: now, Kind: lattice.EntryFact, Type: f.FactType(), Body: body,
			Started: next.Started, Active: active,
		})
		chain = lattice.Chain(chain, entries[last])
		entries[last].Chain = chain
		said, err := emittedEntries(next, now)
		if err != nil {
			return err
		}
		entries = append(entries, said...)
		if next.Status.Ended() && !state.Status.Ended() && next.Next == nil { // else the work item goes on
			end, err := conclusionEntry(next, now)
			if err != nil {
				return err
			}
			entries = append(entries, end)
		}
		issued = append(issued, commands...)
		state = next
	}
	at, kept := r.at, r.snapshots
	if len(facts) > 0 {
		at = now
		sum, err := r.sums.Sum(state)
		if err != nil {
			return err
		}
		entries[last].StateSum = sum
		if kept = kept.addEntries(entries[len(events):]); kept.isDue(r.state, state) {
			body, err := state.Encode()
			if err != nil {
				return fmt.Errorf("encode run state: %w", err)
			}
			snapshot := lattice.Entry{Run: state.RunID, At: now, Kind: lattice.EntryState, Type: "State", Body: body}
			if state.Status.Ended() {
				snapshot.Flags = []string{lattice.FlagEnded}
			}
			entries = append(entries, snapshot)
			kept = snapshots{size: len(body)}
		}
	}
	// A commit is not abandoned half-way: its outcome decides the state of the run.
	seq, err := r.deps.Log.Append(context.WithoutCancel(ctx), r.state.RunID, r.seq, entries)
	if err != nil {
		r.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		r.failed.Store(true)
		return r.broken
	}
	r.state, r.seq, r.at, r.chain, r.active, r.mark, r.snapshots = state, seq, at, chain, active, awake, kept
	r.facts += len(facts)
	r.noteIssued(issued, issue{at: now, boot: r.deps.Boot()})
	r.publishState()
	r.notifyObserver(entries)
	r.reportFacts(written)
	return nil
}

// noteIssued remembers the commands that were just issued, and forgets those that are not pending any more.
func (r *Runner) noteIssued(commands []lattice.Command, i issue) {
	for _, c := range commands {
		r.issued[c.ID] = i
	}
	for _, c := range r.state.Pending { // from before a loss of power: it is as old as it is now known to be
		if _, known := r.issued[c.ID]; !known {
			r.issued[c.ID] = issue{at: i.at, boot: i.boot, sent: true}
		}
	}
	maps.DeleteFunc(r.issued, func(id string, _ issue) bool {
		_, pending := r.state.FindCommand(id)
		return !pending
	})
}

func (r *Runner) notifyObserver(entries []lattice.Entry) {
	if r.deps.OnEntry == nil {
		return
	}
	stored := make([]lattice.Entry, 0, len(entries))
	for _, e := range entries {
		if e.Seq > 0 || e.Kind == lattice.EntryState {
			stored = append(stored, e)
		}
	}
	if len(stored) > 0 {
		r.deps.OnEntry(stored)
	}
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
