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
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// mapped is a document with one MAP over the given items, its results in $vars.r.
func mapped(items, more, body string) string {
	return fmt.Sprintf(`{"execir_version":"1.0","entry_node":"each","nodes":[
		{"id":"each","op":"MAP","items":%s,"max_items":9,"outputs":{"result":"$vars.r"}%s,"body":%s}],"edges":[]}`, items, more, body)
}

// calls is a body of one call.
func calls(tool, more string) string {
	return fmt.Sprintf(`{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":%q,"args":{"i":"$item"},"outputs":{"result":"$tmp.out"}%s}],"edges":[]}`, tool, more)
}

const packs = `{"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"i":"$index","v":"$item"}}]}`

func TestMap(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"without items": func(t *testing.T) {
			begin(t, mapped(`[]`, ``, packs)).is(lattice.Succeeded, "", `{"r":[]}`)
		},
		"the result is by default what the last node put out": func(t *testing.T) {
			begin(t, mapped(`["a","b"]`, ``, packs)).is(lattice.Succeeded, "", `{"r":[{"i":0,"v":"a"},{"i":1,"v":"b"}]}`)
		},
		"a result of its own": func(t *testing.T) {
			begin(t, mapped(`["a","b"]`, `,"result":{"concat":["$item","$index"]}`, packs)).is(lattice.Succeeded, "", `{"r":["a0","b1"]}`)
		},
		"too many items": func(t *testing.T) {
			c := begin(t, mapped(`[0,1,2,3,4,5,6,7,8,9]`, ``, packs))
			c.is(lattice.Failed, ir.FailLimit, `{}`)
			if c.s.Steps != 1 {
				t.Errorf("%d steps, want 1: no item is begun", c.s.Steps)
			}
		},
		"items that are no list": func(t *testing.T) {
			begin(t, mapped(`"$in"`, ``, packs)).is(lattice.Failed, ir.FailStateType, `{}`)
		},
		"body steps count": func(t *testing.T) {
			begin(t, strings.Replace(mapped(`[1,2,3]`, ``, packs), `"entry_node"`, `"limits":{"max_steps":3},"entry_node"`, 1)).is(lattice.Failed, ir.FailLimit, `{}`)
		},
		"results count against max_state_bytes, and collect does not hide that": func(t *testing.T) {
			doc := mapped(`[1,2,3]`, `,"on_error":"collect"`, calls("m.read", ""))
			c := begin(t, strings.Replace(doc, `"entry_node"`, `"limits":{"max_state_bytes":100},"entry_node"`, 1))
			c.prepare()
			c.finish(`"` + strings.Repeat("x", 45) + `"`)
			c.finish(`"` + strings.Repeat("x", 60) + `"`)
			c.is(lattice.Failed, ir.FailLimit, `{}`)
		},
		"a nested MAP": func(t *testing.T) {
			begin(t, mapped(`[[1,2],[],[3]]`, ``, `{"entry_node":"in","nodes":[{"id":"in","op":"MAP","items":"$item","max_items":2,"body":`+packs+`,
				"result":{"concat":["$item",".","$index"]},"outputs":{"result":"$tmp.x"}}]}`)+"").
				is(lattice.Succeeded, "", `{"r":[{"failures":[],"result":["1.0","2.1"]},{"failures":[],"result":[]},{"failures":[],"result":["3.0"]}]}`)
		},
		"$tmp belongs to the iteration": func(t *testing.T) {
			begin(t, mapped(`[1,2]`, `,"result":"$tmp.seen"`, `{"entry_node":"p","nodes":[
				{"id":"p","op":"PACK","inputs":{"was":{"ref":"$tmp.x","default":"empty"}},"outputs":{"was":"$tmp.seen"}},
				{"id":"q","op":"PACK","inputs":{"x":"$item"},"outputs":{"x":"$tmp.x"}}],"edges":[{"from":"p","to":"q"}]}`)).
				is(lattice.Succeeded, "", `{"r":["empty","empty"]}`)
		},
		"calls of iterations are told apart": func(t *testing.T) {
			c := begin(t, mapped(`["x","y"]`, ``, calls("m.write", "")))
			c.prepare()
			ids, keys := map[string]bool{}, map[string]bool{}
			for i, want := range []string{"each[0]", "each[1]"} {
				c.boundary(fmt.Sprint("v", i))
				cmd := c.command(lattice.DoCall)
				if cmd.Path != want || cmd.Call.Path != want || !strings.HasSuffix(cmd.ID, "@"+want) {
					t.Errorf("command %s on path %s, call on %s; want %s", cmd.ID, cmd.Path, cmd.Call.Path, want)
				}
				ids[lattice.CallID([]byte("s"), *cmd.Call)], keys[cmd.Call.IdempotencyKey] = true, true
				c.finish(fmt.Sprint(i))
			}
			if len(ids) != 2 || len(keys) != 2 {
				t.Errorf("call ids %v, keys %v; want two each", ids, keys)
			}
			c.is(lattice.Succeeded, "", `{"r":[0,1]}`)
		},
		"an item's failure is the MAP's, and caught there": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"each","nodes":[
				{"id":"each","op":"MAP","items":[1,2,3],"max_items":3,"catch":[{"on":["ALL"],"to":"c"}],"body":`+calls("m.read", "")+`},
				{"id":"c","op":"PACK","inputs":{"k":"$err.kind","m":"$err.message","n":"$err.node","c":"$err.data.code"},"outputs":{"result":"$vars.e"}}]}`)
			c.prepare()
			c.finish(`{}`)
			c.fail("timeout")
			c.is(lattice.Succeeded, "", `{"e":{"c":"x","k":"timeout","m":"item 1 failed at b: m.read: no","n":"each"}}`)
		},
		"a catch inside of the body": func(t *testing.T) {
			c := begin(t, mapped(`[1,2]`, ``, `{"entry_node":"b","nodes":[
				{"id":"b","op":"TOOL_CALL","tool":"m.read","catch":[{"on":["timeout"],"to":"c","bind":"$tmp.e"}]},
				{"id":"c","op":"PACK","inputs":{"k":"$tmp.e.kind"}}]}`))
			c.prepare()
			c.fail("timeout")
			c.finish(`"fine"`)
			c.is(lattice.Succeeded, "", `{"r":[{"k":"timeout"},"fine"]}`)
		},
		"collected failures": func(t *testing.T) {
			doc := mapped(`[1,2]`, `,"on_error":"collect"`, calls("m.read", ""))
			c := begin(t, strings.Replace(doc, `{"result":"$vars.r"}`, `{"failures":"$vars.f"}`, 1))
			c.prepare()
			c.fail("timeout")
			c.finish(`{}`)
			c.is(lattice.Succeeded, "", `{"f":[{"attempt":1,"data":{"code":"x","message":"no","retryable":false},"index":0,"kind":"timeout","message":"m.read: no","node":"b"}]}`)
		},
		"more failures than are tolerated": func(t *testing.T) {
			c := begin(t, mapped(`[1,2,3,4]`, `,"on_error":"collect","tolerated_failures":1`, calls("m.read", "")))
			c.prepare()
			c.fail("timeout")
			c.finish(`{}`)
			c.fail("tool_error")
			c.is(lattice.Failed, ir.FailTool, `{}`)
			if want := "1 failed before; item 2 failed at b: m.read: no"; c.s.Failure.Message != want {
				t.Errorf("message %q, want %q", c.s.Failure.Message, want)
			}
		},
		"a person is asked in each iteration": func(t *testing.T) {
			c := begin(t, mapped(`["a","b"]`, ``, `{"entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":{"concat":["take ","$item","?"]},"outputs":{"approved":"$tmp.x"}}]}`))
			for i, want := range []string{"take a?", "take b?"} {
				if len(c.s.Waits) != 1 || c.s.Waits[0].Prompt != want || c.s.Waits[0].Path != fmt.Sprintf("each[%d]", i) {
					t.Fatalf("waits %+v, want %q", c.s.Waits, want)
				}
				c.answer(lattice.Approve, ``)
			}
			c.is(lattice.Succeeded, "", "")
		},
		"a rejected item": func(t *testing.T) {
			c := begin(t, mapped(`["a","b"]`, `,"on_error":"collect"`, `{"entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"?"}]}`))
			c.answer(lattice.Reject, ``)
			c.answer(lattice.Approve, ``)
			c.is(lattice.Succeeded, "", `{"r":[null,{"approved":true,"by":"ada","comments":"hm"}]}`)
		},
		"nobody answers in an iteration": func(t *testing.T) {
			c := begin(t, mapped(`["a","b"]`, `,"on_error":"collect"`, `{"entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"?","timeout_s":9}]}`))
			first := c.command(lattice.DoTimer)
			c.feed(lattice.TimerFired{CommandID: first.ID})
			if second := c.command(lattice.DoTimer); second.Path != "each[1]" || len(c.s.Pending) != 1 {
				t.Errorf("pending %+v, want the timer of each[1]", c.s.Pending)
			}
			c.answer(lattice.Approve, ``)
			c.is(lattice.Succeeded, "", `{"r":[null,{"approved":true,"by":"ada","comments":"hm"}]}`)
		},
		"a call that is cut off in an iteration goes back": func(t *testing.T) {
			c := begin(t, mapped(`["a","b"]`, ``, calls("m.write", "")))
			c.prepare()
			c.boundary("v1")
			c.finish(`1`)
			c.boundary("v2")
			c.lose()
			c.restored("v2")
			c.finish(`2`)
			c.is(lattice.Succeeded, "", `{"r":[1,2]}`)
		},
		"a person settles a call of an iteration": func(t *testing.T) {
			c := begin(t, mapped(`["a"]`, ``, calls("m.world", "")))
			c.prepare()
			c.boundary("v1")
			c.lose()
			if got := c.s.Waits[0].Path; got != "each[0]" {
				t.Errorf("the wait is of %q, want each[0]", got)
			}
			c.answer(lattice.Answer, `{"outcome":"done","result":{"id":7}}`)
			c.is(lattice.Succeeded, "", `{"r":[{"id":7}]}`)
		},
		"cancel ends all iterations": func(t *testing.T) {
			c := begin(t, mapped(`[0,1,2]`, `,"concurrency":3`, calls("m.read", "")))
			c.prepare()
			c.feed(lattice.CallSuspended{CommandID: c.command(lattice.DoCall).ID, CallID: "c", Reason: "why", CheckpointID: "own"})
			c.feed(lattice.CancelRequested{By: "ada"})
			c.is(lattice.Canceled, ir.FailCancelled, `{}`)
			if s := c.s; len(s.Pending)+len(s.Held)+len(s.Settling)+len(s.Waits) > 0 || s.Failure.Node != "each" {
				t.Errorf("left at %s: %s", s.Failure.Node, encode(t, s))
			}
		},
		"a run's timeout ends all iterations": func(t *testing.T) {
			c := begin(t, strings.Replace(mapped(`[0,1]`, `,"concurrency":2`, calls("m.read", "")), `"entry_node"`, `"limits":{"timeout_s":5},"entry_node"`, 1))
			c.prepare()
			c.feed(lattice.TimerFired{CommandID: engine.RunTimer})
			c.is(lattice.Failed, ir.FailTimeout, `{}`)
		},
		"a MERGE that fails is caught": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"m","nodes":[
				{"id":"m","op":"MERGE","strategy":"deep","from":["$in",{"a":[1]},{"ref":"$in.x","default":null}],"outputs":{"a":"$vars.a"},"catch":[{"on":["state_type_error"],"to":"c","bind":"$vars.e"}]},
				{"id":"c","op":"PACK","inputs":{"m":"$vars.e.message"},"outputs":{"m":"$vars.e"}}]}`)
			c.is(lattice.Succeeded, "", `{"e":"deep wants an object from input 2 and found null"}`)
		},
		"the ports of a MERGE": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"m","nodes":[{"id":"m","op":"MERGE","strategy":"shallow","from":[{"a":1},{"b":2}],"outputs":{"b":"$vars.b"}}]}`)
			c.is(lattice.Succeeded, "", `{"b":2}`)
		},
		"a second visit has other ids": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"each","nodes":[{"id":"each","op":"MAP","items":[1],"max_items":1,"body":`+calls("m.read", "")+`}],
				"edges":[{"from":"each","to":"each","max_traversals":1}]}`)
			c.prepare()
			first := *c.command(lattice.DoCall).Call
			c.finish(`{}`)
			second := *c.command(lattice.DoCall).Call
			if second.Path != "each#2[0]" || second.IdempotencyKey == first.IdempotencyKey {
				t.Errorf("path %s, key %s; want each#2[0] and another key than %s", second.Path, second.IdempotencyKey, first.IdempotencyKey)
			}
		},
		"an iteration of another program": func(t *testing.T) {
			c := begin(t, mapped(`[1]`, ``, calls("m.read", "")))
			c.prepare()
			id := c.command(lattice.DoCall).ID
			c.s.Visit.Map.Open = nil
			if _, _, err := engine.Step(c.p, c.s, lattice.CallFinished{CommandID: id, OK: true}); err == nil || errors.Is(err, engine.ErrStale) {
				t.Errorf("Step = %v, want a refusal", err)
			}
		},
	} {
		t.Run(name, test)
	}
}

// A MAP over as many items as there may be, of values that together are near max_state_bytes, is one step of seconds at
// most: nothing in it is done again for every item that could be done once.
func TestMapOfManyItems(t *testing.T) {
	const n = 10_000
	items := make([]string, n)
	for i := range items {
		items[i] = strings.Repeat("x", 40)
	}
	input, err := json.Marshal(map[string]any{"l": items})
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"keep","limits":{"max_steps":20000},"nodes":[
		{"id":"keep","op":"PACK","inputs":{"l":"$in.l"},"outputs":{"l":"$vars.l"}},
		{"id":"each","op":"MAP","items":{"concat":["$vars.l[*]"]},"max_items":10000,"result":"$index","outputs":{"result":"$vars.r"},
			"body":{"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"i":"$item"},"outputs":{"i":"$tmp.i"}}]}}],
		"edges":[{"from":"keep","to":"each"}]}`))
	s, _, err := engine.Step(p, engine.New("run_1"), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Vars["r"].([]any); s.Status != lattice.Succeeded || len(r) != n {
		t.Errorf("run is %s: %v, with %d results; want succeeded with %d", s.Status, s.Failure, len(r), n)
	}
}

// fate is what becomes of an item's call.
type fate struct {
	fails    bool
	retries  int // attempts that fail first
	losses   int // times that it is cut off
	suspends int // times that it waits
}

// reorder runs a program whose facts arrive in an order that pick chooses, and holds what must be so all along.
func reorder(t *rapid.T, p *ir.Program, fates []fate, pick func(n int) int) engine.State {
	s := engine.New("run_1")
	feed := func(f lattice.Fact) {
		next, _, err := engine.Step(p, s, f)
		if err != nil {
			t.Fatalf("Step(%s): %v\n%s", f.FactType(), err, encode(t, s))
		}
		decoded, err := engine.DecodeState(encode(t, s))
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
func alone(t *rapid.T, p *ir.Program, s engine.State) {
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
		for _, s := range []*engine.State{&want, &got} {
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
		return lattice.Outcome{Kind: lattice.Finished, Exit: 1, Failure: ir.FailTool, Result: protocol.Result{Error: &protocol.Fault{Message: "no"}}}, nil
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
	r, err := engine.Load(deps, p, "run_1", nil, engine.History{})
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
