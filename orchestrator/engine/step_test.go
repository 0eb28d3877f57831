package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// script steps a run through facts whose command and wait ids it fills in from the state.
type script struct {
	t testing.TB
	p *ir.Program
	s runstate.State
}

func begin(t testing.TB, doc string) *script {
	t.Helper()
	c := &script{t: t, p: parse(t, []byte(doc)), s: runstate.New("run_1")}
	c.feed(lattice.RunStarted{RunID: "run_1", WorkItem: "w", Program: c.p.Digest, Sprite: "main-1", Grants: []string{"fs:write"}})
	return c
}

func (c *script) feed(f lattice.Fact) {
	c.t.Helper()
	next, _, err := engine.Step(c.p, c.s, f)
	if err != nil {
		c.t.Fatalf("Step(%s): %v", f.FactType(), err)
	}
	c.s = next
}

// command is the newest pending command, which must be of the given kind.
func (c *script) command(kind lattice.CommandKind) lattice.Command {
	c.t.Helper()
	if len(c.s.Pending) == 0 {
		c.t.Fatalf("nothing is pending, want %s; the run is %s: %v", kind, c.s.Status, c.s.Failure)
	}
	got := c.s.Pending[len(c.s.Pending)-1]
	if got.Kind != kind {
		c.t.Fatalf("pending is %s, want %s", got.Kind, kind)
	}
	return got
}

func (c *script) prepare() {
	c.feed(lattice.Prepared{CommandID: c.command(lattice.DoPrepare).ID})
}

func (c *script) boundary(id string) {
	c.t.Helper()
	c.feed(lattice.BoundaryTaken{CommandID: c.command(lattice.DoCheckpoint).ID, Pair: lattice.Pair{CheckpointID: id}})
}

func (c *script) restored(want string) {
	c.t.Helper()
	cmd := c.command(lattice.DoRestore)
	if cmd.Pair.CheckpointID != want {
		c.t.Fatalf("restore to %s, want %s", cmd.Pair.CheckpointID, want)
	}
	c.feed(lattice.Restored{CommandID: cmd.ID, Pair: *cmd.Pair})
}

func (c *script) lose() {
	c.t.Helper()
	c.feed(lattice.CallLost{CommandID: c.command(lattice.DoCall).ID, Detail: "stream lost"})
}

func (c *script) finish(data string) {
	c.t.Helper()
	c.feed(lattice.CallFinished{CommandID: c.command(lattice.DoCall).ID, OK: true, Data: json.RawMessage(data)})
}

func (c *script) fail(kind string) {
	c.t.Helper()
	c.feed(lattice.CallFinished{CommandID: c.command(lattice.DoCall).ID, Exit: 1, Kind: kind, Fault: &protocol.Fault{Code: "x", Message: "no"}})
}

func (c *script) answer(d lattice.Decision, inputs string) {
	c.t.Helper()
	c.feed(lattice.Answered{WaitID: c.s.Waits[0].ID, Decision: d, Inputs: json.RawMessage(inputs), Comments: "hm", By: "ada", At: "T"})
}

// is checks status, failure kind and $vars.
func (c *script) is(status lattice.RunStatus, kind, vars string) {
	c.t.Helper()
	got := ""
	if c.s.Failure != nil {
		got = c.s.Failure.Kind
	}
	raw, err := expr.Marshal(c.s.Vars)
	if err != nil || c.s.Status != status || got != kind || (vars != "" && string(raw) != vars) {
		c.t.Errorf("run is %s (%q) with %s, %v; want %s (%q) with %s", c.s.Status, got, raw, err, status, kind, vars)
	}
}

// one is a document with one call and whatever else its node has.
func one(tool, more string) string {
	return fmt.Sprintf(`{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"TOOL_CALL","tool":%q,"args":{"a":1,"b":null}%s}],"edges":[]}`, tool, more)
}

func TestRules(t *testing.T) {
	const out = `,"outputs":{"result":"$vars.r"}`
	for name, test := range map[string]func(t *testing.T){
		"a call carries everything": func(t *testing.T) {
			c := begin(t, one("m.write", `,"timeout_s":7,"outputs":{"sha":"$vars.x.sha"}`))
			c.prepare()
			c.boundary("v1")
			call := *c.command(lattice.DoCall).Call
			if call.IdempotencyKey == "" || call.ID != "" {
				t.Errorf("key %q, id %q; the key is derived, the id is the driver's", call.IdempotencyKey, call.ID)
			}
			call.IdempotencyKey = ""
			want := lattice.Call{
				RunID: "run_1", WorkItem: "w", Sprite: "main-1", Node: "n", Attempt: 1, Visit: 1, Skill: "m.write",
				Input: json.RawMessage(`{"a":1}`), Class: "sprite", Permissions: []string{"fs:write"}, TimeoutS: 7,
			}
			if diff := cmp.Diff(want, call); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
			c.finish(`{"sha":"abc","other":1}`)
			c.is(lattice.Succeeded, "", `{"x":{"sha":"abc"}}`)
		},
		"a missing member fails, without a retry": func(t *testing.T) {
			c := begin(t, one("m.read", `,"outputs":{"sha":"$vars.sha"},"retry":[{"on":["ALL"]}]`))
			c.prepare()
			c.finish(`{}`)
			c.is(lattice.Failed, expr.FailSchema, `{}`)
		},
		"a read call runs again": func(t *testing.T) {
			c := begin(t, one("m.read", out))
			c.prepare()
			before := c.command(lattice.DoCall).Call
			c.lose()
			if diff := cmp.Diff(before, c.command(lattice.DoCall).Call); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
		},
		"a sprite call goes back five times, then fails on restored files": func(t *testing.T) {
			c := begin(t, one("m.write", out))
			c.prepare()
			c.boundary("v1")
			for range 5 {
				if got := c.command(lattice.DoCall).Call.Attempt; got != 1 {
					t.Errorf("attempt %d, want 1", got)
				}
				c.lose()
				c.restored("v1")
			}
			c.is(lattice.Failed, expr.FailToolUnavailable, `{}`)
		},
		"a call that continues is made again on its files, and from the beginning if it cannot go on": func(t *testing.T) {
			c := begin(t, one("m.write", out))
			c.prepare()
			c.boundary("v1")
			before := c.command(lattice.DoCall).Call
			c.feed(lattice.CallLost{CommandID: c.command(lattice.DoCall).ID, Detail: "stream lost", Continues: true})
			if diff := cmp.Diff(before, c.command(lattice.DoCall).Call); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
			c.feed(lattice.CallFinished{CommandID: c.command(lattice.DoCall).ID, Exit: 1, Kind: expr.FailTool, Fault: &protocol.Fault{Code: protocol.CodeCutOff, Message: "no"}})
			c.restored("v1")
			if diff := cmp.Diff(before, c.command(lattice.DoCall).Call); diff != "" {
				t.Errorf("third call (-want +got):\n%s", diff)
			}
			c.finish(`{"id":7}`)
			c.is(lattice.Succeeded, "", `{"r":{"id":7}}`)
		},
		"a first call cannot have been cut off": func(t *testing.T) {
			c := begin(t, one("m.write", out))
			c.prepare()
			c.boundary("v1")
			c.feed(lattice.CallFinished{CommandID: c.command(lattice.DoCall).ID, Exit: 1, Kind: expr.FailTool, Fault: &protocol.Fault{Code: protocol.CodeCutOff, Message: "no"}})
			c.is(lattice.Failed, expr.FailTool, `{}`)
		},
		"a world call is a person's: done": func(t *testing.T) {
			c := begin(t, one("m.world", out))
			c.prepare()
			c.boundary("v1")
			c.lose()
			c.is(lattice.Waiting, "", "")
			c.answer(lattice.Answer, `{"outcome":"done","result":{"id":7}}`)
			c.is(lattice.Succeeded, "", `{"r":{"id":7}}`)
		},
		"a world call is a person's: retry": func(t *testing.T) {
			c := begin(t, one("m.world", out))
			c.prepare()
			c.boundary("v1")
			key := c.command(lattice.DoCall).Call.IdempotencyKey
			c.lose()
			c.answer(lattice.Answer, `{"outcome":"retry"}`)
			c.restored("v1")
			if call := c.command(lattice.DoCall).Call; call.Attempt != 2 || call.IdempotencyKey != key {
				t.Errorf("attempt %d under key %s, want 2 under %s", call.Attempt, call.IdempotencyKey, key)
			}
		},
		"a world call is a person's: fail": func(t *testing.T) {
			c := begin(t, one("m.world", out+`,"retry":[{"on":["ALL"]}]`))
			c.prepare()
			c.boundary("v1")
			c.lose()
			c.answer(lattice.Answer, `{"outcome":"fail"}`)
			c.is(lattice.Failed, expr.FailTool, "")
		},
		"retry backs off, then fails": func(t *testing.T) {
			c := begin(t, one("m.read", out+`,"retry":[{"on":["tool_error"],"max_attempts":3,"interval_s":2,"backoff_rate":3}]`))
			c.prepare()
			for n, delay := range []float64{2, 6} {
				c.fail("tool_error")
				timer := c.command(lattice.DoTimer)
				if timer.DelayS != delay {
					t.Errorf("delay %g, want %g", timer.DelayS, delay)
				}
				c.feed(lattice.TimerFired{CommandID: timer.ID})
				if got := c.command(lattice.DoCall).Call.Attempt; got != n+2 {
					t.Errorf("attempt %d, want %d", got, n+2)
				}
			}
			c.fail("tool_error")
			c.is(lattice.Failed, expr.FailTool, "")
		},
		"a fault is caught and bound": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"n","nodes":[
				{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{},"catch":[{"on":["ALL"],"to":"c","bind":"$vars.err"}]},
				{"id":"c","op":"PACK","inputs":{"k":"$vars.err.kind"},"outputs":{"k":"$vars.k"}}],"edges":[]}`)
			c.prepare()
			c.fail("timeout")
			c.is(lattice.Succeeded, "", `{"err":{"attempt":1,"data":{"code":"x","message":"no","retryable":false},"kind":"timeout","message":"m.read: no","node":"n"},"k":"timeout"}`)
		},
		"a command that cannot be done fails the run": func(t *testing.T) {
			c := begin(t, one("m.read", out))
			c.feed(lattice.CommandFailed{CommandID: c.command(lattice.DoPrepare).ID, Fault: protocol.Fault{Message: "no image"}})
			c.is(lattice.Failed, expr.FailToolUnavailable, "")
		},
		"cancel drops what is pending": func(t *testing.T) {
			c := begin(t, one("m.read", out))
			c.feed(lattice.CancelRequested{By: "ada"})
			c.is(lattice.Canceled, expr.FailCancelled, "")
			if len(c.s.Pending) > 0 {
				t.Errorf("pending: %v", c.s.Pending)
			}
		},
		"max_steps ends a loop": func(t *testing.T) {
			c := begin(t, `{"execir_version":"1.0","entry_node":"a","limits":{"max_steps":5},"nodes":[
				{"id":"a","op":"PACK","inputs":{"x":{"lit":1}}},{"id":"b","op":"PACK","inputs":{"x":{"lit":1}}}],
				"edges":[{"from":"a","to":"b"},{"from":"b","to":"a","max_traversals":100}]}`)
			c.is(lattice.Failed, expr.FailLimit, "")
		},
		"max_state_bytes refuses a result": func(t *testing.T) {
			c := begin(t, strings.Replace(one("m.read", out), `"entry_node"`, `"limits":{"max_state_bytes":64},"entry_node"`, 1))
			c.prepare()
			c.finish(`{"x":"` + strings.Repeat("y", 100) + `"}`)
			c.is(lattice.Failed, expr.FailLimit, `{}`)
		},
	} {
		t.Run(name, test)
	}
}

// What a skill that waited is resumed with, and from where.
func TestResume(t *testing.T) {
	ask := func(v lattice.Verdict) lattice.CallSuspended {
		return lattice.CallSuspended{CallID: "call_1", Reason: "push", CheckpointID: "v9", Verdict: v, DenyReason: "protected",
			Action: &lattice.Action{Name: "PUSH_BRANCH", Key: "k"}}
	}
	act := func(f lattice.ActionDone) func(*script) {
		return func(c *script) {
			f.CommandID = c.command(lattice.DoAction).ID
			c.feed(f)
		}
	}
	skill := lattice.CallSuspended{CallID: "call_1", Reason: "which?", CheckpointID: "v9", Expected: map[string]string{"n": "integer"}}
	for name, test := range map[string]struct {
		suspended lattice.CallSuspended
		then      func(*script)
		want, by  string
	}{
		"allowed": {ask(lattice.Allow), act(lattice.ActionDone{OK: true, Result: json.RawMessage(`{"sha":"1"}`)}),
			`{"action":"PUSH_BRANCH","ok":true,"result":{"sha":"1"}}`, ""},
		"refused outside": {ask(lattice.Allow), act(lattice.ActionDone{Fault: &protocol.Fault{Code: "moved", Message: "base moved"}}),
			`{"action":"PUSH_BRANCH","error":{"code":"moved","message":"base moved"},"ok":false}`, ""},
		"denied": {ask(lattice.Deny), func(*script) {},
			`{"action":"PUSH_BRANCH","error":{"code":"denied","message":"protected"},"ok":false}`, ""},
		"approved": {ask(lattice.Ask), func(c *script) {
			c.answer(lattice.Approve, ``)
			act(lattice.ActionDone{OK: true})(c)
		}, `{"action":"PUSH_BRANCH","ok":true,"result":null}`, "ada"},
		"rejected": {ask(lattice.Ask), func(c *script) { c.answer(lattice.Reject, ``) },
			`{"action":"PUSH_BRANCH","error":{"code":"rejected","message":"hm"},"ok":false}`, "ada"},
		"a verdict that nobody knows asks": {ask("maybe"), func(c *script) { c.answer(lattice.Reject, ``) },
			`{"action":"PUSH_BRANCH","error":{"code":"rejected","message":"hm"},"ok":false}`, "ada"},
		"skill answered": {skill, func(c *script) { c.answer(lattice.Answer, `{"n":3}`) }, `{"n":3}`, "ada"},
		"skill approved": {skill, func(c *script) { c.answer(lattice.Approve, ``) }, `{"approved":true,"comments":"hm"}`, "ada"},
		"skill rejected": {skill, func(c *script) { c.answer(lattice.Reject, ``) }, `{"approved":false,"comments":"hm"}`, "ada"},
	} {
		checked := func(t *testing.T, c *script) {
			first := c.command(lattice.DoCall)
			test.suspended.CommandID = first.ID
			c.feed(test.suspended)
			test.then(c)
			c.restored("v9")
			call := *c.command(lattice.DoCall).Call
			want := protocol.Resume{WorkItemID: "w", CheckpointID: "v9", Inputs: json.RawMessage(test.want),
				Context: protocol.ResumeContext{RunID: "run_1", CallID: "call_1", Node: "n", AnsweredBy: test.by}}
			if test.by != "" {
				want.Context.AnsweredAt = "T"
			}
			if diff := cmp.Diff(&want, call.Resume); diff != "" {
				t.Errorf("resume (-want +got):\n%s", diff)
			}
			if call.Resume = nil; !cmp.Equal(*first.Call, call) {
				t.Errorf("the resumed call is another one: %s", cmp.Diff(*first.Call, call))
			}
			c.lose() // a lost resumption goes back to the WAITING checkpoint
			c.restored("v9")
			c.finish(`{}`)
			c.is(lattice.Succeeded, "", "")
		}
		t.Run(name, func(t *testing.T) {
			c := begin(t, one("m.write", ""))
			c.prepare()
			c.boundary("v1")
			checked(t, c)
		})
		t.Run(name+", of a call that reads", func(t *testing.T) {
			c := begin(t, one("m.read", ""))
			c.prepare()
			checked(t, c)
		})
	}
}

func TestHuman(t *testing.T) {
	doc := func(more string) string {
		return `{"execir_version":"1.0","entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"go?","outputs":{"result":"$vars.r"}` + more + `}],"edges":[]}`
	}
	timeout := func(c *script) { c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID}) }
	for name, test := range map[string]struct {
		more       string
		then       func(*script)
		status     lattice.RunStatus
		kind, vars string
	}{
		"approved": {``, func(c *script) { c.answer(lattice.Approve, ``) }, lattice.Succeeded, "", `{"r":{"approved":true,"by":"ada","comments":"hm"}}`},
		"answered": {`,"expected_inputs":{"n":"integer"}`, func(c *script) { c.answer(lattice.Answer, `{"n":3}`) }, lattice.Succeeded, "",
			`{"r":{"approved":true,"by":"ada","comments":"hm","n":3}}`},
		"rejected": {``, func(c *script) { c.answer(lattice.Reject, ``) }, lattice.Failed, expr.FailHumanRejected, `{}`},
		"too late": {`,"timeout_s":60`, timeout, lattice.Failed, expr.FailHumanTimeout, `{}`},
		"too late, with a default": {`,"timeout_s":60,"on_timeout":"default","default_answer":{"approved":false,"comments":""}`, timeout,
			lattice.Succeeded, "", `{"r":{"approved":false,"comments":""}}`},
		"answered in time": {`,"timeout_s":60`, func(c *script) {
			timer := c.command(lattice.DoTimer)
			c.answer(lattice.Approve, ``)
			if _, _, err := engine.Step(c.p, c.s, lattice.TimerFired{CommandID: timer.ID}); !errors.Is(err, engine.ErrStale) {
				c.t.Errorf("late timer: %v, want ErrStale", err)
			}
		}, lattice.Succeeded, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(t, doc(test.more))
			c.is(lattice.Waiting, "", "")
			test.then(c)
			c.is(test.status, test.kind, test.vars)
		})
	}
}

// Facts that are illegal in a state are refused and change nothing.
func TestRefusedFacts(t *testing.T) {
	c := begin(t, one("m.world", `,"outputs":{"id":"$vars.id"}`))
	prepare := c.command(lattice.DoPrepare).ID
	c.prepare()
	c.boundary("v1")
	call := c.command(lattice.DoCall).ID
	c.lose()
	wait := c.s.Waits[0].ID
	for name, test := range map[string]struct {
		fact lattice.Fact
		want error
	}{
		"started twice":        {lattice.RunStarted{RunID: "run_1"}, engine.ErrStale},
		"prepared twice":       {lattice.Prepared{CommandID: prepare}, engine.ErrStale},
		"a lost call finishes": {lattice.CallFinished{CommandID: call, OK: true}, engine.ErrStale},
		"no such wait":         {lattice.Answered{WaitID: "x", Decision: lattice.Approve}, engine.ErrStale},
		"no such decision":     {lattice.Answered{WaitID: wait, Decision: "shrug"}, engine.ErrAnswer},
		"approve an outcome":   {lattice.Answered{WaitID: wait, Decision: lattice.Approve}, engine.ErrAnswer},
		"unknown outcome":      {lattice.Answered{WaitID: wait, Decision: lattice.Answer, Inputs: json.RawMessage(`{"outcome":"x"}`)}, engine.ErrAnswer},
		"done without result":  {lattice.Answered{WaitID: wait, Decision: lattice.Answer, Inputs: json.RawMessage(`{"outcome":"done"}`)}, engine.ErrAnswer},
	} {
		before := encode(t, c.s)
		s, commands, err := engine.Step(c.p, c.s, test.fact)
		if !errors.Is(err, test.want) || len(commands) > 0 || string(encode(t, s)) != string(before) {
			t.Errorf("%s: Step = %v, %v; want the same state and %v", name, commands, err, test.want)
		}
	}
	c.feed(lattice.CancelRequested{By: "ada"})
	if _, _, err := engine.Step(c.p, c.s, lattice.CancelRequested{By: "bob"}); !errors.Is(err, engine.ErrStale) {
		t.Errorf("second cancel: %v, want ErrStale", err)
	}
}
