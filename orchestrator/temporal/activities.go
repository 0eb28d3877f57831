package temporal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Runs are the runs of the leader in whose process the activities are.
type Runs interface {
	// Drive has a run driven that is to go on, and returns its runner; it does nothing to a run that is driven.
	Drive(ctx context.Context, run string) (*driver.Runner, error)
	// Find returns the runner of a run, which may be at rest.
	Find(ctx context.Context, run string) (*driver.Runner, error)
	Program(run string) (Program, error)
	// ReadFacts returns the facts of a run in the journal, from the given one on.
	ReadFacts(run string, from int) ([]driver.Fact, error)
	// Leaves reports whether this leader ends while another is to go on with its runs.
	Leaves() bool
}

// beat is the time between two heartbeats of an activity.
const beat = 3 * time.Second

// activities are performed in the process of the leader.
type activities struct{ runs Runs }

// load returns the standing of a run in the journal.
func (a activities) load(ctx context.Context, run string) (Standing, error) {
	r, err := a.runs.Find(ctx, run)
	if err != nil {
		return Standing{}, markPermanent(err)
	}
	at := r.Standing()
	out := Standing{Facts: at.Facts, Due: maps.Clone(at.Due)}
	if out.State, err = at.State.Encode(); err != nil {
		return Standing{}, err
	}
	for _, c := range at.State.Pending {
		out.Parked = append(out.Parked, c.ID)
	}
	out.Program, err = a.runs.Program(run)
	return out, markPermanent(err)
}

// read returns facts that the workflow missed.
func (a activities) read(_ context.Context, q ReadRequest) (driver.Moved, error) {
	facts, err := a.runs.ReadFacts(q.Run, q.From)
	return driver.Moved{Run: q.Run, From: q.From, Facts: facts}, markPermanent(err)
}

// cancel ends a run whose workflow was canceled at the server.
func (a activities) cancel(ctx context.Context, run string) error {
	r, err := a.runs.Find(ctx, run)
	if err != nil || r.State().Status.Ended() {
		return markPermanent(err)
	}
	return r.Cancel(ctx, "temporal")
}

// perform has one command performed. Each heartbeat carries the id of the call, and has a drive begun if there is none.
func (a activities) perform(ctx context.Context, q PerformRequest) (driver.Moved, error) {
	for {
		r, err := a.runs.Drive(ctx, q.Run)
		var m driver.Moved
		if err == nil {
			activity.RecordHeartbeat(ctx, Progress{Command: q.Command, CallID: r.CallID(q.Command)})
			m, err = performUntil(ctx, r, q.Command)
		}
		put, isPut := errors.AsType[*driver.PutDown](err)
		switch {
		case err == nil:
			return m, nil
		case errors.Is(err, driver.ErrAnswered):
			return a.read(ctx, ReadRequest{q.Run, q.Facts})
		case isPut && a.runs.Leaves():
			return m, err // the next leader goes on
		case isPut:
			return m, temporal.NewNonRetryableApplicationError(err.Error(), putDown, err, put.Drive)
		case ctx.Err() != nil:
			return m, ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return m, markPermanent(err)
		}
	}
}

// permanent is the type of errors that come again with each try.
const permanent = "permanent"

// markPermanent has the server not repeat an activity whose error does not pass by itself: the workflow fails, and the next drive of
// the run begins another one. An error of which nothing is known may pass.
func markPermanent(err error) error {
	lasts := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer)
	if f := fault.As(err); f != nil {
		lasts = !f.Retryable
	}
	if !lasts {
		return err
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), permanent, err)
}

// performUntil waits for the outcome of a command until the next heartbeat.
func performUntil(ctx context.Context, r *driver.Runner, command string) (driver.Moved, error) {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return r.Perform(ctx, command)
}

// Progress is the content of heartbeats.
type Progress struct {
	Command string `json:"command"`
	CallID  string `json:"call_id,omitempty"`
}

// sortSkills returns the manifests in the order of their names.
func sortSkills[S any](skills map[string]S) []S {
	var out []S
	for _, name := range slices.Sorted(maps.Keys(skills)) {
		out = append(out, skills[name])
	}
	return out
}
