package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// stuck is a world whose calls run until they are told to end.
type stuck struct {
	*world
	began chan struct{}
}

func (s stuck) Call(ctx context.Context, _ lattice.Call, _ func(lattice.Event)) (lattice.Outcome, error) {
	s.began <- struct{}{}
	<-ctx.Done()
	return lattice.Outcome{}, ctx.Err()
}

// driven begins a run whose call is stuck and waits until that is in flight.
func driven(t *testing.T, ctx context.Context, p *ir.Program, after func(time.Duration) <-chan time.Time) (*driver.Runner, *world, chan error) {
	t.Helper()
	w := newWorld(-1)
	s := stuck{w, make(chan struct{}, 1)}
	deps := w.deps()
	deps.Caller = s
	if after != nil {
		deps.After = after
	}
	r, err := driver.Load(deps, p, "run_1", []byte("secret"), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(ctx, lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx)
		ended <- err
	}()
	<-s.began
	return r, w, ended
}

func TestCancelStopsTheCall(t *testing.T) {
	r, _, ended := driven(t, t.Context(), flowOf(t, []string{"read"}), nil)
	if _, err := r.Run(t.Context()); !errors.Is(err, driver.ErrDriven) {
		t.Errorf("second Run = %v, want ErrDriven", err)
	}
	if err := r.Cancel(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || r.State().Status != lattice.Canceled {
		t.Errorf("Run = %v, the run is %s; want canceled", err, r.State().Status)
	}
	if err := r.Cancel(t.Context(), "ada"); !errors.Is(err, engine.ErrStale) {
		t.Errorf("second Cancel = %v, want ErrStale", err)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

// slowLog is a log whose appends take until they are let go.
type slowLog struct {
	driver.Log
	began, let chan struct{}
}

func (l slowLog) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	select {
	case l.began <- struct{}{}:
	default:
	}
	<-l.let
	return l.Log.Append(ctx, run, after, entries)
}

// waitedFor is a context that tells when its end is waited for.
type waitedFor struct {
	context.Context
	asked chan struct{}
}

func (c waitedFor) Done() <-chan struct{} {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return c.Context.Done()
}

// A drive that begins while a fact is being appended without one waits for that, and then drives the run.
func TestRunWaitsForFacts(t *testing.T) {
	p, w := flowOf(t, []string{"read"}), newWorld(-1)
	deps := w.deps()
	log := slowLog{deps.Log, make(chan struct{}, 1), make(chan struct{})}
	deps.Log = log
	r, err := driver.Load(deps, p, "run_1", []byte("secret"), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		begun <- r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"})
	}()
	<-log.began
	waits := waitedFor{t.Context(), make(chan struct{}, 1)}
	go func() {
		_, err := r.Run(waits)
		ended <- err
	}()
	select {
	case <-waits.asked:
	case err := <-ended:
		t.Fatalf("Run = %v while a fact was being appended", err)
	}
	close(log.let)
	if err := errors.Join(<-begun, <-ended); err != nil || r.State().Status != lattice.Succeeded {
		t.Errorf("Run = %v, the run is %s; want succeeded", err, r.State().Status)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

// Ctrl-C stops driving; the run goes on from there later.
func TestInterruptedRunIsResumable(t *testing.T) {
	p := flowOf(t, []string{"read"})
	ctx, cancel := context.WithCancel(t.Context())
	r, w, ended := driven(t, ctx, p, nil)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || r.State().Status != lattice.Running {
		t.Errorf("Run = %v, the run is %s; want context.Canceled and running", err, r.State().Status)
	}
	if s, err := play(p, w); err != nil || s.Status != lattice.Succeeded {
		t.Errorf("resumed: %s, %v", s.Status, err)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

// held is a world whose calls end when they are let go.
type held struct {
	*world
	began, let chan struct{}
}

func (h held) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	h.began <- struct{}{}
	<-h.let
	return h.world.Call(ctx, c, event)
}

// A drive that is asked to yield finishes what it began, begins nothing more, and loses nothing.
func TestYield(t *testing.T) {
	p, w := flowOf(t, []string{"read", "read"}), newWorld(-1)
	h := held{w, make(chan struct{}), make(chan struct{})}
	deps := w.deps()
	deps.Caller = h
	r, err := driver.Load(deps, p, "run_1", []byte("secret"), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	run := func() {
		_, err := r.Run(t.Context())
		ended <- err
	}
	go run()
	<-h.began
	r.Yield()
	r.Yield()
	h.let <- struct{}{}
	if err := <-ended; !errors.Is(err, driver.ErrYielded) || r.State().Status != lattice.Running || len(r.State().Pending) != 1 {
		t.Fatalf("Run = %v, the run is %s with %d commands pending; want ErrYielded, running, one", err, r.State().Status, len(r.State().Pending))
	}
	go run()
	<-h.began
	h.let <- struct{}{}
	if err := <-ended; err != nil || r.State().Status != lattice.Succeeded {
		t.Errorf("Run after yielding = %v, the run is %s; want succeeded", err, r.State().Status)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

func TestRunTimeout(t *testing.T) {
	p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"n","limits":{"timeout_s":5},"nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{}}],"edges":[]}`))
	fire := make(chan time.Time)
	r, _, ended := driven(t, t.Context(), p, func(time.Duration) <-chan time.Time { return fire })
	fire <- time.Time{}
	if err := <-ended; err != nil || r.State().Status != lattice.Failed || r.State().Failure.Kind != expr.FailTimeout {
		t.Errorf("Run = %v, the run is %s: %v; want failed by timeout", err, r.State().Status, r.State().Failure)
	}
}

// A waiting run needs no goroutine for its timer: Run says when to come back, and fires what is due.
func TestHumanTimerOverRestarts(t *testing.T) {
	p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"go?","timeout_s":60}],"edges":[]}`))
	w := newWorld(-1)
	load := func() *driver.Runner {
		r, err := driver.Load(w.deps(), p, "run_1", nil, replay.History{Facts: w.log, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq, Last: w.last})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := load()
	if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest}); err != nil {
		t.Fatal(err)
	}
	begun := w.clock
	for range 2 {
		stop, err := r.Run(t.Context())
		if err != nil || stop.Status != lattice.Waiting || stop.Due.Sub(begun.Add(time.Minute)).Abs() > time.Second {
			t.Fatalf("Run = %+v, %v; want waiting until a minute after the start", stop, err)
		}
		w.clock = w.clock.Add(20 * time.Second)
		r = load()
	}
	w.clock = w.clock.Add(time.Minute)
	stop, err := r.Run(t.Context())
	if err != nil || stop.Status != lattice.Failed || r.State().Failure.Kind != expr.FailHumanTimeout {
		t.Errorf("Run when due = %+v, %v: %v", stop, err, r.State().Failure)
	}
}

// The end of a run is an event of its work item, in the same commit; a snapshot that the facts do not lead to is refused.
func TestConclusionAndDivergence(t *testing.T) {
	p, w := flowOf(t, []string{"read"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	if last := w.log[len(w.log)-1]; last.Type != "COMPLETED" {
		t.Errorf("the last entry is %s, want COMPLETED", last.Type)
	}
	s, err := runstate.Decode(w.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	s.Vars["n0"] = "something else"
	forged := json.RawMessage(encode(t, s))
	if _, err := driver.Load(w.deps(), p, "run_1", nil, replay.History{Facts: w.log, Snapshot: forged, Last: w.last}); err == nil {
		t.Error("Load took a snapshot that the facts do not lead to")
	}
}
