package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// fate is what becomes of an item's call.
type fate struct {
	fails    bool
	retries  int // attempts that fail first
	losses   int // times that it is cut off
	suspends int // times that it waits
}

// reorder runs a program whose facts arrive in an order that pick chooses, and holds what must be so all along.
func reorder(t *rapid.T, p *ir.Program, fates []fate, pick func(n int) int) runstate.State {
	s := runstate.New("run_1")
	feed := func(f lattice.Fact) {
		next, _, err := engine.Step(p, s, f)
		if err != nil {
			t.Fatalf("Step(%s): %v\n%s", f.FactType(), err, encode(t, s))
		}
		decoded, err := runstate.Decode(encode(t, s))
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := engine.Step(p, decoded, f)
		if err != nil || string(encode(t, again)) != string(encode(t, next)) {
			t.Fatalf("Step(decode(encode(s)), %s): %v\n%s", f.FactType(), err, cmp.Diff(string(encode(t, next)), string(encode(t, again))))
		}
		if _, _, err := engine.Step(p, next, f); !errors.Is(err, engine.ErrStale) {
			t.Fatalf("second %s: %v, want ErrStale", f.FactType(), err)
		}
		s = next
	}
	feed(lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1", Grants: []string{"*"}})
	lost, waited := map[string]int{}, map[string]int{}
	for range 1000 {
		if s.Status.Ended() {
			return s
		}
		alone(t, p, s)
		n := pick(len(s.Pending) + len(s.Waits))
		if n >= len(s.Pending) {
			feed(lattice.Answered{WaitID: s.Waits[n-len(s.Pending)].ID, Decision: lattice.Approve, By: "ada"})
			continue
		}
		c := s.Pending[n]
		switch c.Kind {
		case lattice.DoPrepare:
			feed(lattice.Prepared{CommandID: c.ID})
		case lattice.DoCheckpoint:
			feed(lattice.BoundaryTaken{CommandID: c.ID, Pair: lattice.Pair{CheckpointID: "v1"}})
		case lattice.DoRestore:
			feed(lattice.Restored{CommandID: c.ID, Pair: *c.Pair})
		case lattice.DoTimer:
			feed(lattice.TimerFired{CommandID: c.ID})
		case lattice.DoAction:
			t.Fatalf("nobody asked for %v", c.Action)
		case lattice.DoCall:
			var i int
			if _, err := fmt.Sscanf(c.Path, "each[%d]", &i); err != nil {
				t.Fatalf("path %q: %v", c.Path, err)
			}
			switch f := fates[i]; {
			case lost[c.Path] < f.losses:
				lost[c.Path]++
				feed(lattice.CallLost{CommandID: c.ID})
			case waited[c.Path] < f.suspends:
				waited[c.Path]++
				feed(lattice.CallSuspended{CommandID: c.ID, CallID: "c", Reason: "why", CheckpointID: "own"})
			case f.fails || c.Call.Attempt <= f.retries:
				feed(lattice.CallFinished{CommandID: c.ID, Exit: 1, Fault: &protocol.Fault{Code: "x", Message: fmt.Sprint("no ", i)}})
			default:
				feed(lattice.CallFinished{CommandID: c.ID, OK: true, Data: json.RawMessage(fmt.Sprint(i * 10))})
			}
		}
	}
	t.Fatalf("the run does not end: %s", encode(t, s))
	return s
}

// alone holds that files are saved and restored, and people asked, only while no call is under way.
func alone(t *rapid.T, p *ir.Program, s runstate.State) {
	count := map[lattice.CommandKind]int{}
	for _, c := range s.Pending {
		count[c.Kind]++
	}
	files := count[lattice.DoCheckpoint] + count[lattice.DoRestore]
	switch {
	case count[lattice.DoCall] > p.MaxParallel():
		t.Fatalf("%d calls at once, max_parallel is %d", count[lattice.DoCall], p.MaxParallel())
	case files+len(s.Waits) > 0 && count[lattice.DoCall] > 0, files > 1, len(s.Waits) > 1:
		t.Fatalf("%v pending beside %d waits", count, len(s.Waits))
	case (s.Status == lattice.Waiting) != (len(s.Waits) > 0):
		t.Fatalf("the run is %s with %d waits", s.Status, len(s.Waits))
	case len(s.Pending)+len(s.Waits) == 0:
		t.Fatalf("nothing to do, yet the run is %s: %s", s.Status, encode(t, s))
	}
}

// TestMapInAnyOrder is the promise of MAP: whatever becomes of its calls and whatever order that is told in, the run
// ends as if the items had been done one by one.
func TestMapInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fate {
			return fate{
				fails: rapid.IntRange(0, 3).Draw(t, "fails") == 0, retries: max(0, rapid.IntRange(-2, 2).Draw(t, "retries")),
				losses: max(0, rapid.IntRange(-2, 2).Draw(t, "losses")), suspends: max(0, rapid.IntRange(-3, 2).Draw(t, "suspends")),
			}
		}), 0, 7).Draw(t, "fates")
		more := rapid.SampledFrom([]string{``, `,"on_error":"collect"`, `,"on_error":"collect","tolerated_failures":1`}).Draw(t, "on error")
		items := make([]int, len(fates))
		for i := range items {
			items[i] = i
		}
		list, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		program := func(concurrency int) *ir.Program {
			body := calls("m.read", `,"retry":[{"on":["tool_error"],"max_attempts":3}]`)
			doc := mapped(string(list), more+fmt.Sprintf(`,"concurrency":%d`, concurrency), body)
			doc = strings.Replace(doc, `{"result":"$vars.r"}`, `{"result":"$vars.r","failures":"$vars.f"}`, 1)
			return parse(t, []byte(strings.Replace(doc, `"entry_node"`, `"limits":{"max_parallel":3},"entry_node"`, 1)))
		}
		want := reorder(t, program(1), fates, func(int) int { return 0 })
		got := reorder(t, program(rapid.IntRange(2, 3).Draw(t, "concurrency")), fates, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") })
		for _, s := range []*runstate.State{&want, &got} {
			if len(s.Held)+len(s.Settling)+len(s.Pending) > 0 {
				t.Fatalf("something is left at the end: %s", encode(t, *s))
			}
		}
		if diff := cmp.Diff([]any{want.Status, want.Failure, want.Vars}, []any{got.Status, got.Failure, got.Vars}); diff != "" {
			t.Fatalf("end (-one by one +at once):\n%s", diff)
		}
	})
}

// max_parallel bounds the calls of the whole run: those that find no room go out when others end.
func TestMapHoldsCalls(t *testing.T) {
	inner := `{"entry_node":"in","nodes":[{"id":"in","op":"MAP","items":"$item","max_items":9,"concurrency":2,"result":null,"body":` + calls("m.read", "") + `}]}`
	doc := mapped(`[[0,1],[2]]`, `,"concurrency":2,"result":"$index"`, inner)
	c := begin(t, strings.Replace(doc, `"entry_node"`, `"limits":{"max_parallel":2},"entry_node"`, 1))
	c.prepare()
	for _, want := range [][]string{{"each[0]/in[0]", "each[0]/in[1]"}, {"each[0]/in[0]", "each[1]/in[0]"}, {"each[0]/in[0]"}} {
		var got []string
		for _, cmd := range c.s.Pending {
			got = append(got, cmd.Path)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pending %v, want %v", got, want)
		}
		c.finish(`{}`)
	}
	c.is(lattice.Succeeded, "", `{"r":[0,1]}`)
}

// giving is a world whose calls read one item: the first is refused, the second goes on until it is given up, and then
// takes a moment to end.
type giving struct {
	*world
	begun, tried chan struct{}
}

func (g giving) Call(ctx context.Context, c lattice.Call, _ func(lattice.Event)) (lattice.Outcome, error) {
	if c.Path == "each[0]" {
		<-g.begun
		return lattice.Outcome{Kind: lattice.Finished, Exit: 1, Failure: expr.FailTool, Result: protocol.Result{Error: &protocol.Fault{Message: "no"}}}, nil
	}
	close(g.begun)
	<-ctx.Done()
	select {
	case g.tried <- struct{}{}:
	case <-time.After(50 * time.Millisecond):
	}
	return lattice.Outcome{}, ctx.Err()
}

func (g giving) Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error) {
	select {
	case <-g.tried:
		return lattice.Pair{}, errors.New("a checkpoint while a call was at work")
	case <-time.After(time.Millisecond):
	}
	return g.world.Checkpoint(ctx, sprite)
}

// A checkpoint that follows a failed MAP waits for the calls that it gave up.
func TestMapEndsCallsBeforeCheckpoints(t *testing.T) {
	p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"each","nodes":[
		{"id":"each","op":"MAP","items":[0,1],"max_items":2,"concurrency":2,"catch":[{"on":["ALL"],"to":"h"}],"body":`+calls("m.read", "")+`},
		{"id":"h","op":"HUMAN","prompt":"?"}],"edges":[]}`))
	g := giving{newWorld(-1), make(chan struct{}), make(chan struct{})}
	deps := g.deps()
	deps.Caller, deps.Boundary = g, g
	r, err := driver.Load(deps, p, "run_1", nil, replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
		t.Fatal(err)
	}
	if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Waiting {
		t.Errorf("Run = %+v, %v; want waiting", stop, err)
	}
}
