package temporal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
)

// Options of Open.
type Options struct {
	Address   string // host:port of the server's frontend
	Namespace string
	Queue     string // task queue; each store needs one of its own
	Blobs     Blobs  // payloads above MaxPayload
	Client    client.Options
	Log       zerolog.Logger
	// Watch is the time between two looks whether runs and workflows agree; 0 means 10 s.
	Watch time.Duration
}

// Engine connects a leader to a Temporal server. It implements drive.Engine.
type Engine struct {
	o      Options
	client client.Client

	store  string       // its id; set when the queue is claimed
	drives atomic.Int64 // the number of the last drive

	wake chan struct{} // holds a token when there is something to send

	mu    sync.Mutex
	moved map[string]driver.Moved // guarded by mu, as all below: what is to be sent, by run
	order []string                // of its runs, the oldest first
	stop  bool                    // no more is taken
}

// Open connects to the server, and declares the search attributes of workflows there.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{o: o, wake: make(chan struct{}, 1), moved: map[string]driver.Moved{}}
	co := o.Client
	co.HostPort, co.Namespace, co.DataConverter, co.Logger = o.Address, o.Namespace, newConverter(o.Blobs), logger{o.Log}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if e.client, err = client.DialContext(ctx, co); err != nil {
		return nil, drive.Unreachable(o.Address, err)
	}
	if err := e.declareAttributes(ctx); err != nil {
		e.client.Close()
		return nil, drive.Unreachable(o.Address, err)
	}
	return e, nil
}

// declareAttributes declares the search attributes that the namespace does not have.
func (e *Engine) declareAttributes(ctx context.Context) error {
	have, err := e.client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: e.o.Namespace})
	if err != nil {
		return fmt.Errorf("list its search attributes: %w", err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, key := range []temporal.SearchAttributeKeyKeyword{StatusAttribute, RepositoryAttribute, IntentAttribute} {
		if _, known := have.CustomAttributes[key.GetName()]; !known {
			missing[key.GetName()] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := e.client.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: e.o.Namespace, SearchAttributes: missing}); err != nil {
		return fmt.Errorf("add its search attributes: %w", err)
	}
	return nil
}

// register names the workflow and the activities.
func register(w interface {
	RegisterWorkflowWithOptions(any, workflow.RegisterOptions)
	RegisterActivityWithOptions(any, activity.RegisterOptions)
}, runs Runs) {
	a := activities{runs}
	registerWorkflow(w)
	for name, f := range map[string]any{activityLoad: a.load, activityRead: a.read, activityPerform: a.perform, activityCancel: a.cancel} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func registerWorkflow(w interface {
	RegisterWorkflowWithOptions(any, workflow.RegisterOptions)
}) {
	w.RegisterWorkflowWithOptions(Execute, workflow.RegisterOptions{Name: WorkflowName})
	w.RegisterWorkflowWithOptions(holdQueue, workflow.RegisterOptions{Name: holderName})
}

// leaderRuns are the runs of a leader.
type leaderRuns struct{ *drive.Scheduled }

func (l leaderRuns) Program(run string) (Program, error) {
	p, err := l.Scheduled.Program(run)
	return Program{Document: p.Document, Skills: sortSkills(p.Skills), Repository: p.Repo, Intent: p.Intent}, err
}

// lastSignals is how long a leader that ends waits until the server knows of its last facts. What it does not know then, it is told
// when the next drive begins.
const lastSignals = 5 * time.Second

// ServeInBackground is part of drive.Engine.
func (e *Engine) ServeInBackground(runs *drive.Scheduled) (stop func(), err error) {
	if err := e.claimQueue(runs.Records.Store); err != nil {
		e.client.Close()
		return nil, err
	}
	w := worker.New(e.client, e.o.Queue, worker.Options{WorkerStopTimeout: lastSignals, MaxConcurrentActivityExecutionSize: 10000, DeadlockDetectionTimeout: 30 * time.Second})
	register(w, leaderRuns{runs})
	if err := w.Start(); err != nil {
		e.client.Close()
		return nil, drive.Unreachable(e.o.Address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		e.sendMoved(ctx)
	}()
	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.watchWorkflows(watching, leaderRuns{runs})
	}()
	return func() {
		unwatch()
		<-watched
		e.mu.Lock()
		e.stop = true
		e.mu.Unlock()
		e.wakeSender()
		w.Stop()
		late := time.AfterFunc(lastSignals, cancel)
		<-sent
		late.Stop()
		cancel()
		e.client.Close()
	}, nil
}

// Moved is part of driver.Scheduler.
func (e *Engine) Moved(m driver.Moved) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, waits := e.moved[m.Run]
	if !waits {
		e.order = append(e.order, m.Run)
	}
	e.moved[m.Run] = mergeMoved(before, m, waits)
	e.wakeSender()
}

// NextDrive is part of driver.Scheduler.
func (e *Engine) NextDrive() int64 { return e.drives.Add(1) }

func (e *Engine) wakeSender() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// mergeMoved makes one signal of two. Facts between them that no signal carries are left to be read.
func mergeMoved(a, b driver.Moved, both bool) driver.Moved {
	switch {
	case !both:
		return b
	case a.From+len(a.Facts) == b.From:
		b.From, b.Facts = a.From, append(a.Facts, b.Facts...)
	default:
		b.From, b.Facts = max(a.From+len(a.Facts), b.From+len(b.Facts)), nil
	}
	b.Begins = max(a.Begins, b.Begins)
	return b
}

// next takes the oldest signal. more is false when there is none and no more come.
func (e *Engine) next() (m driver.Moved, found, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.order) == 0 {
		return m, false, !e.stop
	}
	run := e.order[0]
	e.order = e.order[1:]
	m = e.moved[run]
	delete(e.moved, run)
	return m, true, true
}

// sendMoved sends signals, each until the server has it.
func (e *Engine) sendMoved(ctx context.Context) {
	for ctx.Err() == nil {
		m, found, more := e.next()
		switch {
		case !more:
			return
		case !found:
			select {
			case <-e.wake:
			case <-ctx.Done():
			}
			continue
		}
		for ctx.Err() == nil {
			err := e.send(ctx, m)
			if err == nil {
				break
			}
			e.o.Log.Warn().Err(err).Str("run_id", m.Run).Msg("tell Temporal of a run")
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// send signals the workflow of a run, and begins it if there is none and the run goes on.
func (e *Engine) send(ctx context.Context, m driver.Moved) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if m.Begins != 0 {
		if err := e.endForeign(ctx, m.Run); err != nil {
			return err
		}
	}
	size := 0
	for _, f := range m.Facts {
		size += len(f.Type) + len(f.Body)
	}
	if size > MaxPayload/2 { // a signal that the workflow could not decode, since its blob cannot be read, would be lost
		m.From, m.Facts = m.From+len(m.Facts), nil
	}
	if m.Ended {
		err := e.client.SignalWorkflow(ctx, m.Run, "", SignalMoved, m)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return nil
		}
		return err
	}
	_, err := e.client.SignalWithStartWorkflow(ctx, m.Run, SignalMoved, m, client.StartWorkflowOptions{
		ID: m.Run, TaskQueue: e.o.Queue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Memo: map[string]any{memoOrigin: e.origin()},
	}, WorkflowName, Input{Interpreter: Version, Run: m.Run})
	return err
}

// memoOrigin is the memo of workflows that names their origin.
const memoOrigin = "origin"

// origin says who began a workflow.
type origin struct {
	Interpreter int    `json:"interpreter"` // the Version
	Store       string `json:"store"`       // its id
}

func (e *Engine) origin() origin { return origin{Version, e.store} }

// endForeign ends a workflow that this worker cannot go on with. It is begun again from the journal.
func (e *Engine) endForeign(ctx context.Context, run string) error {
	d, err := e.client.DescribeWorkflow(ctx, run, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	if err != nil || d.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || !e.isForeign(d.Memo, d.TaskQueueName) {
		return err
	}
	return e.terminate(ctx, run, "it is begun again from the journal: it belongs to another store, queue, or version of the interpreter")
}

// isForeign reports whether this worker cannot go on with a workflow: one of another version of the interpreter, of another queue, of another
// store, or of this store before it went back.
func (e *Engine) isForeign(memo *commonpb.Memo, queue string) bool {
	var of origin
	p := memo.GetFields()[memoOrigin]
	return p == nil || converter.GetDefaultDataConverter().FromPayload(p, &of) != nil || of != e.origin() || queue != e.o.Queue
}

// terminate ends a workflow, if it is there.
func (e *Engine) terminate(ctx context.Context, run, reason string) error {
	err := e.client.TerminateWorkflow(ctx, run, "", reason)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return err
}

// logger writes the messages of the SDK to the log of the leader.
type logger struct{ log zerolog.Logger }

func (l logger) Debug(msg string, pairs ...any) { l.log.Debug().Fields(pairs).Msg("temporal: " + msg) }
func (l logger) Info(msg string, pairs ...any)  { l.log.Debug().Fields(pairs).Msg("temporal: " + msg) }
func (l logger) Warn(msg string, pairs ...any)  { l.log.Warn().Fields(pairs).Msg("temporal: " + msg) }
func (l logger) Error(msg string, pairs ...any) { l.log.Warn().Fields(pairs).Msg("temporal: " + msg) }
