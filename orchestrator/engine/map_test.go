package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
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
			c.is(lattice.Failed, expr.FailLimit, `{}`)
			if c.s.Steps != 1 {
				t.Errorf("%d steps, want 1: no item is begun", c.s.Steps)
			}
		},
		"items that are no list": func(t *testing.T) {
			begin(t, mapped(`"$in"`, ``, packs)).is(lattice.Failed, expr.FailStateType, `{}`)
		},
		"body steps count": func(t *testing.T) {
			begin(t, strings.Replace(mapped(`[1,2,3]`, ``, packs), `"entry_node"`, `"limits":{"max_steps":3},"entry_node"`, 1)).is(lattice.Failed, expr.FailLimit, `{}`)
		},
		"results count against max_state_bytes, and collect does not hide that": func(t *testing.T) {
			doc := mapped(`[1,2,3]`, `,"on_error":"collect"`, calls("m.read", ""))
			c := begin(t, strings.Replace(doc, `"entry_node"`, `"limits":{"max_state_bytes":100},"entry_node"`, 1))
			c.prepare()
			c.finish(`"` + strings.Repeat("x", 45) + `"`)
			c.finish(`"` + strings.Repeat("x", 60) + `"`)
			c.is(lattice.Failed, expr.FailLimit, `{}`)
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
			c.is(lattice.Failed, expr.FailTool, `{}`)
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
			c.is(lattice.Canceled, expr.FailCancelled, `{}`)
			if s := c.s; len(s.Pending)+len(s.Held)+len(s.Settling)+len(s.Waits) > 0 || s.Failure.Node != "each" {
				t.Errorf("left at %s: %s", s.Failure.Node, encode(t, s))
			}
		},
		"a run's timeout ends all iterations": func(t *testing.T) {
			c := begin(t, strings.Replace(mapped(`[0,1]`, `,"concurrency":2`, calls("m.read", "")), `"entry_node"`, `"limits":{"timeout_s":5},"entry_node"`, 1))
			c.prepare()
			c.feed(lattice.TimerFired{CommandID: machine.RunTimer})
			c.is(lattice.Failed, expr.FailTimeout, `{}`)
		},
		"a MERGE that fails is caught": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"m","nodes":[
				{"id":"m","op":"MERGE","strategy":"deep","from":["$in",{"a":[1]},{"ref":"$in.x","default":null}],"outputs":{"a":"$vars.a"},"catch":[{"on":["state_type_error"],"to":"c","bind":"$vars.e"}]},
				{"id":"c","op":"PACK","inputs":{"m":"$vars.e.message"},"outputs":{"m":"$vars.e"}}]}`)
			c.is(lattice.Succeeded, "", `{"e":"deep needs an object from input 2 but found null"}`)
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

// A MAP over thousands of items is one step of moments: nothing in it is done again for every item that could be done
// once.
func TestMapOfManyItems(t *testing.T) {
	const n = 3000
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
		{"id":"each","op":"MAP","items":{"concat":["$vars.l[*]"]},"max_items":3000,"result":"$index","outputs":{"result":"$vars.r"},
			"body":{"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"i":"$item"},"outputs":{"i":"$tmp.i"}}]}}],
		"edges":[{"from":"keep","to":"each"}]}`))
	s, _, err := engine.Step(p, runstate.New("run_1"), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Vars["r"].([]any); s.Status != lattice.Succeeded || len(r) != n {
		t.Errorf("run is %s: %v, with %d results; want succeeded with %d", s.Status, s.Failure, len(r), n)
	}
}
