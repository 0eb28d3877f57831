package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// clocks are a machine's, for a test to move. Nothing waits for them: After and Sleep note what they were asked.
type clocks struct {
	mu          sync.Mutex // guards everything below
	wall        time.Time
	awake, boot time.Duration
	asked       []time.Duration
}

func (c *clocks) pass(d time.Duration)  { c.move(d, d, d) }
func (c *clocks) sleep(d time.Duration) { c.move(d, 0, d) }
func (c *clocks) set(d time.Duration)   { c.move(d, 0, 0) }

func (c *clocks) move(wall, awake, boot time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.awake, c.boot = c.wall.Add(wall), c.awake+awake, c.boot+boot
}

func (c *clocks) ask(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, d)
}

func (c *clocks) last() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[len(c.asked)-1]
}

// restart is another process on the same machine, after some time in which nobody led.
func (c *clocks) restart(d time.Duration) {
	c.pass(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake, c.boot = 7*time.Second, 7*time.Second
}

func (c *clocks) in(deps driver.Deps) driver.Deps {
	read := func(of *time.Duration) func() time.Duration {
		return func() time.Duration {
			c.mu.Lock()
			defer c.mu.Unlock()
			return *of
		}
	}
	deps.Now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.wall
	}
	deps.Awake, deps.Boot = read(&c.awake), read(&c.boot)
	deps.After = func(d time.Duration) <-chan time.Time { c.ask(d); return nil }
	deps.Sleep = func(_ context.Context, d time.Duration) error { c.ask(d); return nil }
	return deps
}

// loaded is a run of a world as a process finds it.
func loaded(t *testing.T, p *ir.Program, w *world, deps driver.Deps) *driver.Runner {
	t.Helper()
	r, err := driver.Load(deps, p, "run_1", []byte("secret"), replay.History{Facts: w.log, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq, Last: w.last})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A timer of an hour, whatever happens to the clocks meanwhile.
func TestTimersAndClocks(t *testing.T) {
	const h = time.Hour
	for _, tc := range []struct {
		name  string
		while func(*clocks)
		again bool          // a new process drives on
		left  time.Duration // 0: it goes off
	}{
		{"nothing", func(*clocks) {}, false, h},
		{"half of it passes", func(c *clocks) { c.pass(h / 2) }, false, h / 2},
		{"all of it passes", func(c *clocks) { c.pass(h) }, false, 0},
		{"the machine sleeps over half of it", func(c *clocks) { c.sleep(h / 2) }, false, h / 2},
		{"the machine sleeps over its end", func(c *clocks) { c.sleep(9 * h) }, false, 0},
		{"the clock is set forward", func(c *clocks) { c.set(5 * h) }, false, h},
		{"the clock is set back", func(c *clocks) { c.set(-5 * h) }, false, h},
		{"the clock is set back and half of it passes", func(c *clocks) { c.set(-5 * h); c.pass(h / 2) }, false, h / 2},
		{"the clock is set back and all of it passes", func(c *clocks) { c.set(-5 * h); c.pass(h) }, false, 0},
		{"nobody leads for a while", func(c *clocks) { c.restart(h / 4) }, true, 3 * h / 4},
		{"nobody leads at its end", func(c *clocks) { c.restart(3 * h) }, true, 0},
		{"the clock is set back while nobody leads", func(c *clocks) { c.restart(-5 * h) }, true, h},
		{"the clock is set forward while nobody leads", func(c *clocks) { c.restart(h / 2) }, true, h / 2},
		{"the clock is set back and a new process waits all of it", func(c *clocks) { c.set(-5 * h); c.restart(0) }, true, h},
	} {
		t.Run("human "+tc.name, func(t *testing.T) {
			p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"go?","timeout_s":3600}],"edges":[]}`))
			w, c := newWorld(-1), &clocks{wall: time.Unix(1_800_000_000, 0)}
			r := loaded(t, p, w, c.in(w.deps()))
			if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest}); err != nil {
				t.Fatal(err)
			}
			tc.while(c)
			if tc.again {
				r = loaded(t, p, w, c.in(w.deps()))
			}
			stop, err := r.Run(t.Context())
			if err != nil || stop.Left != tc.left || (tc.left == 0) != (stop.Status == lattice.Failed) {
				t.Errorf("Run = %+v, %v; want %v left", stop, err, tc.left)
			}
		})
		if !tc.again {
			continue
		}
		t.Run("retry "+tc.name, func(t *testing.T) {
			p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{},
				"retry":[{"on":["timeout"],"max_attempts":2,"interval_s":3600}]}],"edges":[]}`))
			w, c := newWorld(-1), &clocks{wall: time.Unix(1_800_000_000, 0)}
			deps := c.in(w.deps())
			ctx, cancel := context.WithCancel(t.Context())
			deps.Caller = caller(func() lattice.Outcome {
				return lattice.Outcome{Kind: lattice.Finished, Exit: 124, Failure: expr.FailTimeout}
			})
			deps.Sleep = func(context.Context, time.Duration) error { cancel(); return ctx.Err() } // the process ends in the delay
			r := loaded(t, p, w, deps)
			if err := r.Begin(ctx, lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Run(ctx); err == nil {
				t.Fatal("Run came to an end")
			}
			tc.while(c)
			asked := time.Duration(-1)
			deps.Sleep = func(_ context.Context, d time.Duration) error { asked = max(0, d); return nil }
			deps.Caller = w
			r = loaded(t, p, w, deps)
			if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Succeeded || asked != tc.left {
				t.Errorf("Run = %+v, %v, it slept for %v; want %v", stop, err, asked, tc.left)
			}
		})
	}
}

// caller answers every call.
type caller func() lattice.Outcome

func (c caller) Call(context.Context, lattice.Call, func(lattice.Event)) (lattice.Outcome, error) {
	return c(), nil
}

// A run's timeout counts the time that it was driven awake, and no fact ever bears less than the one before it.
func TestActiveTimeAndClocks(t *testing.T) {
	const h = time.Hour
	for _, tc := range []struct {
		name   string
		during func(*clocks)
		active time.Duration
	}{
		{"time passes", func(c *clocks) { c.pass(20 * time.Second) }, 20 * time.Second},
		{"the machine sleeps", func(c *clocks) { c.sleep(8 * h) }, 0},
		{"the clock is set forward", func(c *clocks) { c.set(8 * h) }, 0},
		{"the clock is set back", func(c *clocks) { c.set(-8 * h) }, 0},
		{"all of it", func(c *clocks) { c.set(-8 * h); c.pass(5 * time.Second); c.sleep(h); c.set(2 * h) }, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"n","limits":{"timeout_s":60},"nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{}},
				{"id":"h","op":"HUMAN","prompt":"go?"},{"id":"m","op":"TOOL_CALL","tool":"m.read","args":{}}],"edges":[{"from":"n","to":"h"},{"from":"h","to":"m"}]}`))
			w, c := newWorld(-1), &clocks{wall: time.Unix(1_800_000_000, 0)}
			deps := c.in(w.deps())
			deps.Caller = caller(func() lattice.Outcome {
				tc.during(c)
				return lattice.Outcome{Kind: lattice.Finished, Result: noResult}
			})
			r := loaded(t, p, w, deps)
			if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
				t.Fatal(err)
			}
			if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Waiting {
				t.Fatalf("Run = %+v, %v; want waiting", stop, err)
			}
			c.pass(3 * h) // a person takes a while, and another process goes on
			c.restart(h)
			r = loaded(t, p, w, deps)
			if err := r.Decide(t.Context(), lattice.Answered{WaitID: r.State().Waits[0].ID, Decision: lattice.Approve, By: "ada"}); err != nil {
				t.Fatal(err)
			}
			if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Succeeded {
				t.Fatalf("Run = %+v, %v; want succeeded", stop, err)
			}
			if want := time.Minute - tc.active; c.last() != want {
				t.Errorf("the run's timeout was armed for %v, want %v", c.last(), want)
			}
			var before time.Duration
			for _, e := range w.log {
				if e.Kind != lattice.EntryFact {
					continue
				}
				if e.Active < before {
					t.Errorf("%s: active for %v after %v", e.Type, e.Active, before)
				}
				before = e.Active
			}
			if before != 2*tc.active {
				t.Errorf("the run was active for %v, want %v", before, 2*tc.active)
			}
		})
	}
}
