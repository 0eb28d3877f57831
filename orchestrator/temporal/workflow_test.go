package temporal

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/enginetest"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/store"
)

// A flow has the same journal when a workflow schedules it as when the drive does, entry by entry. The comparison finds a driver that
// exchanges two facts, wherever they are.
func TestSameJournalWithTemporal(t *testing.T) {
	local := func(ctx context.Context, r *driver.Runner) (driver.Stop, error) { return r.Run(ctx) }
	for name, flow := range enginetest.Flows() {
		t.Run(name, func(t *testing.T) { sameJournal(t, flow, local, 0) })
	}
	t.Run("continued", func(t *testing.T) { sameJournal(t, enginetest.Flows()["linear"], local, 2) })
}

// sameJournal compares the journals of a flow. Its workflow is continued in a new execution as often as told.
func sameJournal(t *testing.T, flow string, local enginetest.Drive, continued int) {
	want := enginetest.ReadJournal(t, enginetest.RunToEnd(t, filepath.Join(t.TempDir(), "store.db"), flow, nil, local))
	w := newTestWorkflow(t, flow)
	w.continues = continued
	s := enginetest.RunToEnd(t, filepath.Join(t.TempDir(), "store.db"), flow, w.deps, w.drive)
	if diff := cmp.Diff(want, enginetest.ReadJournal(t, s)); diff != "" {
		t.Errorf("the journal with Temporal differs (-drive +Temporal):\n%s", diff)
	}
	for at := range len(enginetest.FindFacts(want)) - 1 {
		if cmp.Equal(want, enginetest.ReadJournal(t, enginetest.Reordering{Reader: s, At: at})) {
			t.Errorf("facts %d and %d are exchanged, and the journals are compared as equal", at, at+1)
		}
	}
	w.finish()
	if got := w.count(activityPerform); got == 0 {
		t.Error("no command was performed by an activity")
	}
	if w.continues != 0 {
		t.Errorf("the workflow was to be continued %d times more", w.continues)
	}
}

// testWorkflow has a run scheduled by a workflow in the test environment of the SDK.
type testWorkflow struct {
	t       *testing.T
	flow    string
	env     *testsuite.TestWorkflowEnvironment
	signals chan driver.Moved
	done    chan struct{}
	// continues is the number of executions that still find their history full.
	continues int
	drives    atomic.Int64

	mu        sync.Mutex
	runner    *driver.Runner // guarded by mu, as all below
	store     *store.Store
	performed map[string]int // activities, by name
	parallel  sync.WaitGroup
}

func newTestWorkflow(t *testing.T, flow string) *testWorkflow {
	w := &testWorkflow{t: t, flow: flow, signals: make(chan driver.Moved, 100), done: make(chan struct{}), performed: map[string]int{}}
	w.env = w.newEnvironment()
	return w
}

// newEnvironment returns an environment for one execution of the workflow.
func (w *testWorkflow) newEnvironment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkflowRunTimeout(0) // else the environment skips to it while a person is awaited
	env.SetDataConverter(newConverter(Folder(w.t.TempDir())))
	register(env, w)
	return env
}

// execute runs the workflow, and each execution with which it is continued.
func (w *testWorkflow) execute() {
	defer close(w.done)
	in := Input{Interpreter: Version, Run: enginetest.Run}
	for {
		if w.continues > 0 {
			w.continues--
			w.env.SetCurrentHistoryLength(maxHistory)
		}
		ended := make(chan struct{})
		w.env.RegisterDelayedCallback(func() { w.parallel.Go(func() { w.send(w.env, ended) }) }, 0)
		w.env.ExecuteWorkflow(WorkflowName, in)
		close(ended)
		w.parallel.Wait()
		next, ok := errors.AsType[*workflow.ContinueAsNewError](w.env.GetWorkflowError())
		if !ok {
			return
		}
		in = Input{}
		if err := newConverter(Folder(w.t.TempDir())).FromPayloads(next.Input, &in); err != nil {
			w.t.Error(err)
			return
		}
		w.env = w.newEnvironment()
	}
}

// Moved is part of driver.Scheduler.
func (w *testWorkflow) Moved(m driver.Moved) { w.signals <- m }

// NextDrive is part of driver.Scheduler.
func (w *testWorkflow) NextDrive() int64 { return w.drives.Add(1) }

// deps has runners scheduled by w.
func (w *testWorkflow) deps(s *store.Store, d driver.Deps) driver.Deps {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.runner, d.Scheduler = s, nil, w
	return d
}

// drive drives a run, and begins its workflow with the first drive.
func (w *testWorkflow) drive(ctx context.Context, r *driver.Runner) (driver.Stop, error) {
	w.mu.Lock()
	first := w.performed["drive"] == 0
	w.performed["drive"]++
	w.runner = r
	w.mu.Unlock()
	if first {
		go w.execute() // finish waits for it
	}
	return r.Run(ctx)
}

// send signals an execution of the workflow until it has ended.
func (w *testWorkflow) send(env *testsuite.TestWorkflowEnvironment, ended chan struct{}) {
	for {
		select {
		case m := <-w.signals:
			env.SignalWorkflow(SignalMoved, m)
		case <-ended:
			return
		}
	}
}

// finish waits for the end of the workflow.
func (w *testWorkflow) finish() {
	w.t.Helper()
	<-w.done
	if err := w.env.GetWorkflowError(); err != nil || !w.env.IsWorkflowCompleted() {
		w.t.Errorf("the workflow ended with %v", err)
	}
}

func (w *testWorkflow) count(activity string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.performed[activity]
}

func (w *testWorkflow) current(activity string) (*driver.Runner, *store.Store, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.performed[activity]++
	if w.runner == nil {
		return nil, nil, errors.New("the run is being loaded")
	}
	return w.runner, w.store, nil
}

// Drive is part of Runs, as all below.
func (w *testWorkflow) Drive(context.Context, string) (*driver.Runner, error) {
	r, _, err := w.current(activityPerform)
	return r, err
}

func (w *testWorkflow) Find(context.Context, string) (*driver.Runner, error) {
	r, _, err := w.current(activityLoad)
	return r, err
}

func (w *testWorkflow) Program(string) (Program, error) {
	var skills []manifests.Skill
	for _, name := range []string{"m.read", "m.idem", "m.large", "m.write", "m.flaky", "m.world", "m.act"} {
		s, _ := enginetest.FindSkill(name)
		skills = append(skills, s)
	}
	return Program{Document: []byte(w.flow), Skills: skills}, nil
}

func (w *testWorkflow) ReadFacts(run string, from int) ([]driver.Fact, error) {
	_, s, err := w.current(activityRead)
	if err != nil {
		return nil, err
	}
	h, err := s.Load(run)
	if err != nil {
		return nil, err
	}
	return drive.FactsFrom(h.Facts, from), nil
}

func (w *testWorkflow) Leaves() bool { return false }
