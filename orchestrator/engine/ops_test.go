package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// graphOf is a document of these nodes; edges may be "".
func graphOf(entry, nodes, edges string, more ...string) string {
	doc := fmt.Sprintf(`{"execir_version":"1.0","entry_node":%q,"nodes":[%s],"edges":[%s]`, entry, nodes, edges)
	for _, m := range more {
		doc += "," + m
	}
	return doc + "}"
}

// subgraphed adds the document of a subgraph called s and pins it wherever PIN stands.
func subgraphed(t *testing.T, doc, sub string) string {
	t.Helper()
	canonical, err := jcs.Transform([]byte(sub))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	doc = strings.ReplaceAll(doc, "PIN", "s@"+digest)
	return strings.TrimSuffix(doc, "}") + fmt.Sprintf(`,"subgraphs":{"s":{"digest":%q,"document":%s}}}`, digest, sub)
}

// call is a TOOL_CALL that writes its result to $tmp.<id>.
func call(id, tool, more string) string {
	return fmt.Sprintf(`{"id":%q,"op":"TOOL_CALL","tool":%q,"outputs":{"result":"$tmp.%s"}%s}`, id, tool, id, more)
}

// branch is a branch of one node.
func branch(name, id, node string) string {
	return fmt.Sprintf(`{"name":%q,"body":{"entry_node":%q,"nodes":[%s]}}`, name, id, node)
}

// finishOn ends the call on this path.
func (c *script) finishOn(path, data string) {
	c.t.Helper()
	for _, cmd := range c.s.Pending {
		if cmd.Kind == lattice.DoCall && cmd.Path == path {
			c.feed(lattice.CallFinished{CommandID: cmd.ID, OK: true, Data: json.RawMessage(data)})
			return
		}
	}
	c.t.Fatalf("no call on %q is pending: %+v", path, c.s.Pending)
}

func TestSimpleOps(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"SET exchanges two values": func(t *testing.T) {
			begin(t, graphOf("a", `{"id":"a","op":"SET","set":{"$vars.x":1,"$vars.y":2}},
				{"id":"b","op":"SET","set":{"$vars.x":"$vars.y","$vars.y":"$vars.x"}}`, `{"from":"a","to":"b"}`)).
				is(lattice.Succeeded, "", `{"x":2,"y":1}`)
		},
		"SET writes all or nothing": func(t *testing.T) {
			begin(t, graphOf("a", `{"id":"a","op":"SET","set":{"$vars.x":1,"$vars.y":"$in.missing"}}`, ``)).
				is(lattice.Failed, expr.FailRef, `{}`)
		},
		"FAIL fails with its kind, and is caught": func(t *testing.T) {
			c := begin(t, graphOf("a", `{"id":"a","op":"FAIL","kind":"tool_denied","message":{"concat":["no ","way"]}}`, ``))
			c.is(lattice.Failed, expr.FailToolDenied, `{}`)
			if c.s.Failure.Message != "no way" || c.s.Failure.Node != "a" {
				t.Errorf("failure %+v", c.s.Failure)
			}
			begin(t, graphOf("a", `{"id":"a","op":"FAIL","message":"m","catch":[{"on":["invariant_failure"],"to":"b"}]},
				{"id":"b","op":"SET","set":{"$vars.k":"$err.kind"}}`, ``)).is(lattice.Succeeded, "", `{"k":"invariant_failure"}`)
		},
		"END ends the run with its output": func(t *testing.T) {
			c := begin(t, graphOf("a", `{"id":"a","op":"SET","set":{"$vars.x":7}},{"id":"b","op":"END","output":{"it":"$vars.x"}}`,
				`{"from":"a","to":"b"}`, `"output":"$vars.x"`))
			c.is(lattice.Succeeded, "", `{"x":7}`)
			if diff := cmp.Diff(map[string]any{"it": json.Number("7")}, c.s.Output); diff != "" {
				t.Error(diff)
			}
		},
		"END inside of a body ends the iteration": func(t *testing.T) {
			begin(t, mapped(`[1,2]`, ``, `{"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"v":"$item"}},{"id":"e","op":"END","output":"$item"},{"id":"q","op":"PACK","inputs":{"never":0}}],
				"edges":[{"from":"p","to":"e","when":{"op":"eq","left":"$item","right":1}},{"from":"p","to":"q","when":{"op":"otherwise"}}]}`)).
				is(lattice.Succeeded, "", `{"r":[1,{"never":0}]}`)
		},
		"EMIT records an event": func(t *testing.T) {
			c := begin(t, graphOf("a", `{"id":"a","op":"EMIT","event":{"kind":"progress","message":"half","metadata":{"n":"$ctx"}}}`, ``))
			c.is(lattice.Succeeded, "", `{}`)
			if len(c.s.Emitted) != 1 || c.s.Emitted[0].Node != "a" || c.s.Emitted[0].Key == "" {
				t.Errorf("emitted %+v", c.s.Emitted)
			}
		},
		"EMIT refuses what is no event": func(t *testing.T) {
			begin(t, graphOf("a", `{"id":"a","op":"EMIT","event":{"message":"$ctx"}}`, ``)).is(lattice.Failed, expr.FailStateType, `{}`)
		},
		"WAIT is a timer": func(t *testing.T) {
			c := begin(t, graphOf("a", `{"id":"a","op":"WAIT","seconds":90},{"id":"b","op":"WAIT","at":"2030-01-02T03:04:05+01:00"}`, `{"from":"a","to":"b"}`))
			cmd := c.command(lattice.DoTimer)
			if cmd.DelayS != 90 || cmd.Until != "" {
				t.Errorf("timer %+v, want 90 s", cmd)
			}
			c.feed(lattice.TimerFired{CommandID: cmd.ID})
			if cmd = c.command(lattice.DoTimer); cmd.Until != "2030-01-02T02:04:05Z" {
				t.Errorf("timer until %q", cmd.Until)
			}
			c.feed(lattice.TimerFired{CommandID: cmd.ID})
			c.is(lattice.Succeeded, "", `{}`)
		},
		"WAIT for nonsense": func(t *testing.T) {
			begin(t, graphOf("a", `{"id":"a","op":"WAIT","at":{"json":"$ctx"}}`, ``)).is(lattice.Failed, expr.FailStateType, `{}`)
		},
		"a skipped node does nothing": func(t *testing.T) {
			c := begin(t, graphOf("a", `{"id":"a","op":"SET","set":{"$vars.x":1}},
				{"id":"b","op":"SET","set":{"$vars.x":2},"when_skip":{"op":"exists","ref":"$vars.x"}},
				{"id":"c","op":"SET","set":{"$vars.y":3},"when_skip":{"op":"eq","left":"$vars.x","right":2}}`,
				`{"from":"a","to":"b"},{"from":"b","to":"c"}`))
			c.is(lattice.Succeeded, "", `{"x":1,"y":3}`)
		},
		"max_calls counts attempts": func(t *testing.T) {
			c := begin(t, graphOf("n", call("n", "m.read", `,"retry":[{"on":["timeout"]}],"catch":[{"on":["ALL"],"to":"z"}]`)+`,{"id":"z","op":"SET","set":{"$vars.z":1}}`, ``, `"limits":{"max_calls":2}`))
			c.prepare()
			for range 2 {
				c.fail("timeout")
				c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
			}
			c.is(lattice.Failed, expr.FailLimit, `{}`)
		},
	} {
		t.Run(name, test)
	}
}

// TestAnswerSchema holds answers, and the default of one that does not come, against the schema of a HUMAN node.
func TestAnswerSchema(t *testing.T) {
	doc := func(fallback string) string {
		return graphOf("h", `{"id":"h","op":"HUMAN","prompt":"How many?","expected_inputs":{"n":"integer"},"answer_schema":"Few","timeout_s":9,"on_timeout":"default","default_answer":`+fallback+`,"outputs":{"n":"$vars.n"}}`, ``,
			`"schemas":{"Few":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":3}}}}`)
	}
	c := begin(t, doc(`{"n":1}`))
	if _, _, err := engine.Step(c.p, c.s, lattice.Answered{WaitID: c.s.Waits[0].ID, Decision: lattice.Answer, Inputs: json.RawMessage(`{"n":4}`), By: "ada"}); !errors.Is(err, engine.ErrAnswer) || !strings.Contains(err.Error(), "/n") {
		t.Errorf("4 of at most 3: %v, want ErrAnswer that names /n", err)
	}
	c.answer(lattice.Answer, `{"n":2}`)
	c.is(lattice.Succeeded, "", `{"n":2}`)

	c = begin(t, doc(`{"n":1}`))
	c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
	c.is(lattice.Succeeded, "", `{"n":1}`)

	c = begin(t, doc(`{"n":9}`))
	c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
	c.is(lattice.Failed, expr.FailSchema, `{}`)

	// An input that the schema does not require may be left out, and reads null.
	c = begin(t, graphOf("h", `{"id":"h","op":"HUMAN","prompt":"How many?","expected_inputs":{"n":"integer","why":"string"},"answer_schema":{"required":["n"]},"outputs":{"n":"$vars.n","why":"$vars.why"}}`, ``))
	if diff := cmp.Diff([]string{"why"}, c.s.Waits[0].Optional); diff != "" {
		t.Errorf("optional (-want +got):\n%s", diff)
	}
	c.answer(lattice.Answer, `{"n":2}`)
	c.is(lattice.Succeeded, "", `{"n":2,"why":null}`)
	if c = begin(t, graphOf("h", `{"id":"h","op":"HUMAN","prompt":"How many?","expected_inputs":{"n":"integer"},"answer_schema":{"required":["comments"]}}`, ``)); len(c.s.Waits[0].Optional) > 0 {
		t.Errorf("optional: %v, though the schema requires none of the inputs", c.s.Waits[0].Optional)
	}
}

func TestParallel(t *testing.T) {
	reads := branch("left", "l", call("l", "m.read", "")) + "," + branch("right", "r", call("r", "m.read", ""))
	parallel := func(more, branches string) string {
		return graphOf("p", fmt.Sprintf(`{"id":"p","op":"PARALLEL","outputs":{"result":"$vars.all"%s,"branches":[%s]}`, more, branches), ``)
	}
	for name, test := range map[string]func(t *testing.T){
		"all: results by branch, whoever ends first": func(t *testing.T) {
			c := begin(t, parallel(`,"left":"$vars.l"}`, reads))
			c.prepare()
			c.finishOn("p[1]", `"two"`)
			c.finishOn("p[0]", `"one"`)
			c.is(lattice.Succeeded, "", `{"all":{"left":"one","right":"two"},"l":"one"}`)
		},
		"all: the first branch's failure counts": func(t *testing.T) {
			c := begin(t, parallel(`}`, reads))
			c.prepare()
			c.fail("timeout") // of the newest, which is the right one
			c.fail("tool_error")
			c.is(lattice.Failed, expr.FailTool, `{}`)
			if want := "branch left failed at l: m.read: no"; c.s.Failure.Message != want {
				t.Errorf("message %q, want %q", c.s.Failure.Message, want)
			}
		},
		"any: the first that succeeds, the other is given up": func(t *testing.T) {
			c := begin(t, parallel(`,"branch":"$vars.who"},"join":"any"`, reads))
			c.prepare()
			c.finishOn("p[1]", `"two"`)
			c.is(lattice.Succeeded, "", `{"all":"two","who":"right"}`)
		},
		"any: a failure waits for the others": func(t *testing.T) {
			c := begin(t, parallel(`},"join":"any"`, reads))
			c.prepare()
			c.fail("timeout")
			c.finishOn("p[0]", `1`)
			c.is(lattice.Succeeded, "", `{"all":1}`)
		},
		"any: none succeeds": func(t *testing.T) {
			c := begin(t, parallel(`},"join":"any"`, reads))
			c.prepare()
			c.fail("timeout")
			c.fail("tool_error")
			c.is(lattice.Failed, expr.FailTool, `{}`)
		},
		"settled: each says how it went": func(t *testing.T) {
			c := begin(t, parallel(`},"join":"settled"`, reads))
			c.prepare()
			c.fail("timeout")
			c.finishOn("p[0]", `1`)
			c.is(lattice.Succeeded, "", `{"all":{"left":{"error":null,"ok":true,"result":1},"right":{"error":{"attempt":1,"data":{"code":"x","message":"no","retryable":false},"index":1,"kind":"timeout","message":"m.read: no","node":"r"},"ok":false,"result":null}}}`)
		},
		"branches that write go one at a time": func(t *testing.T) {
			c := begin(t, parallel(`}`, branch("left", "l", call("l", "m.write", ""))+","+branch("right", "r", call("r", "m.write", ""))))
			c.prepare()
			c.boundary("v1")
			if len(c.s.Pending) != 1 {
				t.Fatalf("pending %+v, want one call", c.s.Pending)
			}
			c.finishOn("p[0]", `1`)
			c.boundary("v2")
			c.finishOn("p[1]", `2`)
			c.is(lattice.Succeeded, "", `{"all":{"left":1,"right":2}}`)
		},
		"a branch inside of a MAP knows the item": func(t *testing.T) {
			begin(t, mapped(`[5,6]`, ``, `{"entry_node":"p","nodes":[{"id":"p","op":"PARALLEL","outputs":{"a":"$tmp.a"},"branches":[`+branch("a", "q", `{"id":"q","op":"PACK","inputs":{"i":"$item"}}`)+`]}]}`)).
				is(lattice.Succeeded, "", `{"r":[{"a":{"i":5},"result":{"a":{"i":5}}},{"a":{"i":6},"result":{"a":{"i":6}}}]}`)
		},
		"a retry starts all branches anew, under other ids": func(t *testing.T) {
			c := begin(t, parallel(`},"retry":[{"on":["timeout"],"max_attempts":2}]`, branch("only", "l", call("l", "m.read", ""))))
			c.prepare()
			first := c.command(lattice.DoCall).Call
			c.fail("timeout")
			c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
			second := c.command(lattice.DoCall).Call
			if first.IdempotencyKey == second.IdempotencyKey || lattice.CallID(nil, *first) == lattice.CallID(nil, *second) {
				t.Errorf("both attempts have the key %s, the path %s", first.IdempotencyKey, second.Path)
			}
			c.finish(`1`)
			c.is(lattice.Succeeded, "", `{"all":{"only":1}}`)
		},
	} {
		t.Run(name, test)
	}
}

func TestLoop(t *testing.T) {
	counts := `"body":{"entry_node":"b","nodes":[{"id":"b","op":"SET","set":{"$vars.n":{"len":{"concat":["$vars.text","x"]}},"$vars.text":{"concat":["$vars.text","x"]}}}]}`
	loop := func(more string) string {
		return graphOf("a", `{"id":"a","op":"SET","set":{"$vars.text":"","$vars.n":0}},{"id":"l","op":"LOOP",`+more+`}`, `{"from":"a","to":"l"}`)
	}
	for name, test := range map[string]func(t *testing.T){
		"until": func(t *testing.T) {
			begin(t, loop(`"until":{"op":"ge","left":"$vars.n","right":3},"max_iterations":9,"outputs":{"iterations":"$vars.i"},`+counts)).
				is(lattice.Succeeded, "", `{"i":3,"n":3,"text":"xxx"}`)
		},
		"while, not once": func(t *testing.T) {
			begin(t, loop(`"while":{"op":"lt","left":"$vars.n","right":0},"max_iterations":9,"outputs":{"iterations":"$vars.i","result":"$vars.r"},"init":"none",`+counts)).
				is(lattice.Succeeded, "", `{"i":0,"n":0,"r":"none","text":""}`)
		},
		"max_iterations": func(t *testing.T) {
			begin(t, loop(`"until":{"op":"never"},"max_iterations":4,`+counts)).is(lattice.Failed, expr.FailLimit, `{"n":4,"text":"xxxx"}`)
		},
		"each iteration gets the result of the one before": func(t *testing.T) {
			begin(t, loop(`"while":{"op":"lt","left":"$index","right":3},"max_iterations":3,"init":"","outputs":{"result":"$vars.r"},
				"body":{"entry_node":"b","nodes":[{"id":"b","op":"SET","set":{"$tmp.x":{"concat":["$item","$index"]}}}]},"result":"$tmp.x"`)).
				is(lattice.Succeeded, "", `{"n":0,"r":"012","text":""}`)
		},
		"a failed iteration is the LOOP's, and caught there": func(t *testing.T) {
			c := begin(t, graphOf("l", `{"id":"l","op":"LOOP","until":{"op":"always"},"max_iterations":2,"catch":[{"on":["timeout"],"to":"z"}],
				"body":{"entry_node":"b","nodes":[`+call("b", "m.read", "")+`]}},{"id":"z","op":"SET","set":{"$vars.m":"$err.message"}}`, ``))
			c.prepare()
			c.fail("timeout")
			c.is(lattice.Succeeded, "", `{"m":"iteration 0 failed at b: m.read: no"}`)
		},
		"inside of a MAP it cannot write $vars, but carry": func(t *testing.T) {
			begin(t, mapped(`[1,2]`, ``, `{"entry_node":"l","nodes":[{"id":"l","op":"LOOP","while":{"op":"lt","left":{"len":"$item"},"right":2},"max_iterations":3,"init":[],"outputs":{"result":"$tmp.r"},
				"body":{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":{"concat":["$item",["$index"]]}},"outputs":{"x":"$tmp.x"}}]},"result":"$tmp.x"}]}`)).
				is(lattice.Succeeded, "", `{"r":[{"iterations":2,"result":[0,1]},{"iterations":2,"result":[0,1]}]}`)
		},
	} {
		t.Run(name, test)
	}
}

func TestSubgraph(t *testing.T) {
	sub := `{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{"q":"$in.q"},"outputs":{"result":"$vars.n"}},
		{"id":"m","op":"MAP","items":[1],"max_items":1,"body":{"entry_node":"x","nodes":[{"id":"x","op":"PACK","inputs":{"n":"$vars.n","q":"$in.q"}}]},"outputs":{"result":"$vars.m"}}],
		"edges":[{"from":"n","to":"m"}],"output":{"m":"$vars.m","q":"$in.q"}}`
	doc := graphOf("n", `{"id":"n","op":"SUBGRAPH","ref":"PIN","inputs":{"q":"one"},"outputs":{"result":"$vars.a"}},
		{"id":"m","op":"SUBGRAPH","ref":"PIN","inputs":{"q":"two"},"outputs":{"result":"$vars.b"}}`, `{"from":"n","to":"m"}`)
	c := begin(t, subgraphed(t, doc, sub))
	c.prepare()
	first := c.command(lattice.DoCall)
	if first.Node != "s:n" || first.Path != "n[0]" || string(first.Call.Input) != `{"q":"one"}` {
		t.Errorf("call %s on %s with %s", first.Node, first.Path, first.Call.Input)
	}
	c.finish(`1`)
	c.finish(`2`)
	c.is(lattice.Succeeded, "", `{"a":{"m":[{"n":1,"q":"one"}],"q":"one"},"b":{"m":[{"n":2,"q":"two"}],"q":"two"}}`)
}

func TestCompensate(t *testing.T) {
	take := func(id, tool string) string {
		return call(id, tool, `,"compensate":{"tool":"m.world","args":{"undo":"$out.id","node":"`+id+`"}}`)
	}
	doc := graphOf("a", take("a", "m.write")+","+take("b", "m.write")+`,{"id":"z","op":"FAIL","message":"too bad"}`,
		`{"from":"a","to":"b"},{"from":"b","to":"z"}`)
	done := func(t *testing.T) *script {
		c := begin(t, doc)
		c.prepare()
		c.boundary("v1")
		c.finish(`{"id":"A"}`)
		c.boundary("v2")
		c.finish(`{"id":"B"}`)
		c.boundary("v3")
		return c
	}
	for name, test := range map[string]func(t *testing.T){
		"in reverse order, and the run fails as it would": func(t *testing.T) {
			c := done(t)
			for _, want := range []string{`{"node":"b","undo":"B"}`, `{"node":"a","undo":"A"}`} {
				if cmd := c.command(lattice.DoCall); string(cmd.Call.Input) != want || cmd.Call.Skill != "m.world" {
					t.Errorf("call %s with %s, want %s", cmd.Call.Skill, cmd.Call.Input, want)
				}
				c.finish(`{}`)
				if len(c.s.Pending) > 0 {
					c.boundary("v")
				}
			}
			c.is(lattice.Failed, expr.FailInvariant, "")
			if want := "too bad; undone: b, a"; c.s.Failure.Message != want {
				t.Errorf("message %q, want %q", c.s.Failure.Message, want)
			}
		},
		"one that fails does not keep the others from it": func(t *testing.T) {
			c := done(t)
			c.fail("tool_error")
			c.boundary("v")
			c.finish(`{}`)
			c.is(lattice.Failed, expr.FailInvariant, "")
			if want := "too bad; undone: a; NOT undone: b (m.world: no)"; c.s.Failure.Message != want {
				t.Errorf("message %q, want %q", c.s.Failure.Message, want)
			}
		},
		"cut off, it is a person's to settle": func(t *testing.T) {
			c := done(t)
			c.lose()
			c.answer(lattice.Answer, `{"outcome":"done"}`)
			c.boundary("v")
			c.finish(`{}`)
			c.is(lattice.Failed, expr.FailInvariant, "")
		},
		"canceled, what stands is known": func(t *testing.T) {
			c := done(t)
			c.feed(lattice.CancelRequested{By: "ada"})
			c.is(lattice.Canceled, expr.FailCancelled, "")
			if len(c.s.Done) != 2 {
				t.Errorf("%d nodes stand, want 2", len(c.s.Done))
			}
		},
		"a run that succeeds takes nothing back": func(t *testing.T) {
			c := begin(t, graphOf("a", take("a", "m.write"), ``))
			c.prepare()
			c.boundary("v1")
			c.finish(`{"id":"A"}`)
			c.is(lattice.Succeeded, "", "")
		},
	} {
		t.Run(name, test)
	}
}
