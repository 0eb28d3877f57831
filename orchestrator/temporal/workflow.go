package temporal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Version is the version of the interpreter: of Step and of this file together. Workflows of another version are ended and begun
// again from the journal. It rises with each change after which TestReplay fails.
const Version = 2

// Names at the server.
const (
	WorkflowName = "lattice.run"
	SignalMoved  = "moved"

	activityLoad    = "load"
	activityRead    = "read"
	activityPerform = "perform"
	activityCancel  = "cancel"

	putDown = "put_down" // the type of errors of commands whose drive ended
)

// HeartbeatTimeout is the time after which a command whose process is silent is given to the next leader.
const HeartbeatTimeout = 10 * time.Second

// maxHistory is the number of events of a workflow after which it is continued in a new one. The server warns at 10,240.
const maxHistory = 4500

// Search attributes of workflows.
var (
	StatusAttribute     = temporal.NewSearchAttributeKeyKeyword("LatticeStatus")
	RepositoryAttribute = temporal.NewSearchAttributeKeyKeyword("LatticeRepository")
	IntentAttribute     = temporal.NewSearchAttributeKeyKeyword("LatticeIntent")
)

// Input begins a workflow.
type Input struct {
	Interpreter int    `json:"interpreter"` // the Version that began it
	Run         string `json:"run"`
	// At is the standing from which a continued workflow goes on; nil: that of the journal.
	At *Standing `json:"at,omitempty"`
}

// Standing is a run at one place of its journal.
type Standing struct {
	Program Program              `json:"program"`
	State   json.RawMessage      `json:"state"`
	Facts   int                  `json:"facts"` // that led to State
	Due     map[string]time.Time `json:"due,omitempty"`
	// Parked are the commands that wait for a drive later than Begun.
	Parked []string `json:"parked,omitempty"`
	Begun  int64    `json:"begun,omitempty"`
}

// Program is the program of a run, with the manifests of its skills, and that for which people look for runs.
type Program struct {
	Document   json.RawMessage   `json:"document"`
	Skills     []manifests.Skill `json:"skills"`
	Repository string            `json:"repository,omitempty"`
	Intent     string            `json:"intent,omitempty"`
}

// PerformRequest asks for one command. Facts is the number of facts that the workflow knows.
type PerformRequest struct {
	Run     string `json:"run"`
	Command string `json:"command"`
	Facts   int    `json:"facts"`
}

// ReadRequest asks for the facts of a run from the given one on.
type ReadRequest struct {
	Run  string `json:"run"`
	From int    `json:"from"`
}

// Execute is the workflow of one run. It ends when the run has ended.
func Execute(outer workflow.Context, in Input) error {
	if in.Interpreter != Version {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("it was begun by version %d of the interpreter, and this is version %d", in.Interpreter, Version), "interpreter", nil)
	}
	ctx, _ := workflow.NewDisconnectedContext(outer) // a cancellation is a fact first
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 365 * 24 * time.Hour, HeartbeatTimeout: HeartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
	if in.At == nil {
		in.At = new(Standing)
		if err := workflow.ExecuteActivity(ctx, activityLoad, in.Run).Get(ctx, in.At); err != nil {
			return err
		}
	}
	it, err := newInterpreted(ctx, in)
	if err != nil {
		return err
	}
	return it.follow(outer)
}

// interpreted is one execution of a workflow. Nothing in it depends on the order of a map.
type interpreted struct {
	ctx     workflow.Context
	run     string
	program *ir.Program
	loaded  Program
	state   runstate.State
	facts   int
	due     map[string]time.Time
	begun   int64 // the number of the last drive
	signals workflow.ReceiveChannel
	working []*working
	shown   lattice.RunStatus
	err     error // of the last fact that was applied
}

// working is a command that is being performed.
type working struct {
	command string
	cancel  workflow.CancelFunc
	timer   workflow.Future // nil when it has gone off, and for other commands
	done    workflow.Future // nil while the timer has not gone off
	parked  bool            // until a drive begins that is later than drive
	drive   int64
}

func newInterpreted(ctx workflow.Context, in Input) (*interpreted, error) {
	skills := in.At.Program.Skills
	program, findings := check.Parse(in.At.Program.Document, func(name string) (manifests.Skill, bool) {
		at := slices.IndexFunc(skills, func(s manifests.Skill) bool { return s.Name == name })
		if at < 0 {
			return manifests.Skill{}, false
		}
		return skills[at], true
	})
	if program == nil {
		return nil, temporal.NewNonRetryableApplicationError("its program is not valid: "+findings[0].Message, "program", nil)
	}
	state, err := runstate.Decode(in.At.State)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), "state", err)
	}
	it := &interpreted{
		ctx: ctx, run: in.Run, program: program, loaded: in.At.Program, state: state, facts: in.At.Facts, due: in.At.Due, begun: in.At.Begun,
		signals: workflow.GetSignalChannel(ctx, SignalMoved),
	}
	it.adjustWork(func(id string) bool { return slices.Contains(in.At.Parked, id) })
	return it, workflow.UpsertTypedSearchAttributes(ctx, RepositoryAttribute.ValueSet(it.loaded.Repository), IntentAttribute.ValueSet(it.loaded.Intent))
}

// follow applies facts until the run has ended.
func (it *interpreted) follow(outer workflow.Context) error {
	canceled := false
	for {
		if err := it.showStatus(); err != nil {
			return err
		}
		if it.state.Status.Ended() || workflow.GetInfo(it.ctx).GetCurrentHistoryLength() >= maxHistory {
			for { // nothing that was signaled is left behind
				var m driver.Moved
				if !it.signals.ReceiveAsync(&m) {
					break
				}
				it.applyMoved(m)
			}
			if it.err != nil {
				return it.err
			}
			return it.end()
		}
		selector := workflow.NewSelector(it.ctx)
		selector.AddReceive(it.signals, func(c workflow.ReceiveChannel, _ bool) {
			var m driver.Moved
			c.Receive(it.ctx, &m)
			it.applyMoved(m)
		})
		if !canceled {
			selector.AddReceive(outer.Done(), func(workflow.ReceiveChannel, bool) {
				canceled = true
				it.err = workflow.ExecuteActivity(it.ctx, activityCancel, it.run).Get(it.ctx, nil)
			})
		}
		for _, w := range it.working {
			switch {
			case w.parked:
			case w.done != nil:
				selector.AddFuture(w.done, func(f workflow.Future) { it.takeResult(w, f) })
			default:
				selector.AddFuture(w.timer, func(workflow.Future) { it.perform(w) })
			}
		}
		selector.Select(it.ctx)
		if it.err != nil {
			return it.err
		}
	}
}

// end ends this execution, and lets another one go on if the run has not ended.
func (it *interpreted) end() error {
	if it.state.Status.Ended() {
		return it.showStatus()
	}
	for _, w := range it.working {
		w.cancel() // the drive goes on with the command, and the next execution asks for its outcome
	}
	raw, err := it.state.Encode()
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	at := Standing{Program: it.loaded, State: raw, Facts: it.facts, Due: it.due, Begun: it.begun}
	for _, w := range it.working {
		if w.parked {
			at.Parked = append(at.Parked, w.command)
		}
	}
	return workflow.NewContinueAsNewError(it.ctx, WorkflowName, Input{Interpreter: Version, Run: it.run, At: &at})
}

func (it *interpreted) showStatus() error {
	if it.shown == it.state.Status {
		return nil
	}
	it.shown = it.state.Status
	return workflow.UpsertTypedSearchAttributes(it.ctx, StatusAttribute.ValueSet(string(it.shown)))
}

// adjustWork begins the work on commands that became pending, in their order, and ends that on commands that were dropped. Those for
// which park returns true wait for a drive; timers do not.
func (it *interpreted) adjustWork(park func(id string) bool) {
	it.working = slices.DeleteFunc(it.working, func(w *working) bool {
		_, pending := it.state.FindCommand(w.command)
		if !pending {
			w.cancel()
			delete(it.due, w.command)
		}
		return !pending
	})
	for _, c := range it.state.Pending {
		if slices.ContainsFunc(it.working, func(w *working) bool { return w.command == c.ID }) {
			continue
		}
		ctx, cancel := workflow.WithCancel(it.ctx)
		w := &working{command: c.ID, cancel: cancel}
		it.working = append(it.working, w)
		switch {
		case c.Kind == lattice.DoTimer:
			w.timer = workflow.NewTimer(ctx, it.timeLeft(c))
		case park(c.ID):
			w.parked, w.drive = true, it.begun
		default:
			it.perform(w)
		}
	}
}

// timeLeft returns the time until a timer goes off. The drive, which has better clocks, waits for the rest if it is too short.
func (it *interpreted) timeLeft(c lattice.Command) time.Duration {
	now := workflow.Now(it.ctx)
	due, known := it.due[c.ID]
	if !known {
		due = now.Add(time.Duration(c.DelayS * float64(time.Second)))
		if at, err := time.Parse(time.RFC3339Nano, c.Until); err == nil {
			due = at
		}
		if it.due == nil {
			it.due = map[string]time.Time{}
		}
		it.due[c.ID] = due
	}
	return max(0, due.Sub(now))
}

// perform begins the activity for a command.
func (it *interpreted) perform(w *working) {
	ctx, cancel := workflow.WithCancel(it.ctx)
	w.cancel, w.timer, w.parked = cancel, nil, false
	w.done = workflow.ExecuteActivity(ctx, activityPerform, PerformRequest{it.run, w.command, it.facts})
}

// takeResult applies the facts that a command led to. Its work stays in it.working, parked, until one of them answers it.
func (it *interpreted) takeResult(w *working, f workflow.Future) {
	w.parked, w.drive = true, it.begun
	var m driver.Moved
	err := f.Get(it.ctx, &m)
	if failed, ok := errors.AsType[*temporal.ApplicationError](err); ok && failed.Type() == putDown && failed.HasDetails() {
		err = failed.Details(&w.drive)
		if err == nil && w.drive < it.begun { // another drive began in the meantime
			it.perform(w)
		}
	} else if err == nil {
		it.applyMoved(m)
	}
	if err != nil {
		it.fail(err)
	}
}

// fail ends the workflow because an activity failed for good. A result that cannot be read now, since the blobs are away, is none: the
// server then has the same step of the workflow done again.
func (it *interpreted) fail(err error) {
	if _, failed := errors.AsType[*temporal.ActivityError](err); !failed && !temporal.IsCanceledError(err) {
		panic(fmt.Sprintf("read the result of an activity: %v", err))
	}
	it.err = err
}

// applyMoved applies facts that were appended. If others stand before them that it does not know, it reads those first.
func (it *interpreted) applyMoved(m driver.Moved) {
	if m.From > it.facts {
		var missed driver.Moved
		if err := workflow.ExecuteActivity(it.ctx, activityRead, ReadRequest{it.run, it.facts}).Get(it.ctx, &missed); err != nil {
			it.fail(err)
			return
		}
		m.From, m.Facts = missed.From, missed.Facts
	}
	for i, f := range m.Facts {
		if m.From+i < it.facts {
			continue // known
		}
		fact, err := lattice.DecodeFact(f.Type, f.Body)
		if err == nil {
			it.state, _, err = engine.Step(it.program, it.state, fact)
		}
		if err != nil {
			it.err = temporal.NewNonRetryableApplicationError(fmt.Sprintf("fact %d of the journal, %s: %v", m.From+i, f.Type, err), "journal", err)
			return
		}
		it.facts++
	}
	it.adjustWork(func(string) bool { return m.Idle })
	it.begun = max(it.begun, m.Begins)
	for _, w := range it.working {
		if w.parked && w.drive < m.Begins {
			it.perform(w)
		}
	}
}
