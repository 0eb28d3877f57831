package skill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// asking is a skill that waits once.
func asking(_ context.Context, c *skill.Call) (skill.Result, error) {
	if c.Resume == nil {
		request := &protocol.ActionRequest{Action: "NOTIFY_USER", Parameters: json.RawMessage(`{"title":"t"}`)}
		return skill.Result{}, c.Suspend(context.Background(), "which one?", map[string]string{"name": "string"}, request)
	}
	var answer struct{ Name string }
	if err := c.Inputs(&answer); err != nil {
		return skill.Result{}, err
	}
	return skill.Result{Data: map[string]string{"answer": answer.Name}}, nil
}

// under is b for processes of an agent that call parent runs.
func (b *bench) under(parent string) *bench {
	nested := *b
	nested.env.CallID, nested.env.AgentCallID = "", parent
	return &nested
}

// parent does something as the call that runs the agent.
func (b *bench) parent(do func(c *skill.Call) error) outcome {
	return b.call(manifests.ClassSprite, `{"path":"agent"}`, func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		if c.Resume == nil {
			return skill.Result{}, c.Suspend(ctx, "which one?", map[string]string{"name": "string"}, nil)
		}
		return skill.Result{}, do(c)
	})
}

func TestANestedCallLeavesWaitingToItsParent(t *testing.T) {
	b := newBench(t)
	nested := b.under("c1")
	b.parent(nil)
	const input = `{"path":"x"}`
	o := nested.call(manifests.ClassWorld, input, asking)
	if diff := cmp.Diff([]string{"PHASE_STARTED", "INFO"}, o.types()); diff != "" || o.exit != protocol.ExitWaiting {
		t.Fatalf("exit %d, events (-want +got):\n%s", o.exit, diff)
	}
	if again := nested.call(manifests.ClassWorld, input, asking); again.exit != protocol.ExitWaiting || again.result.CallID != o.result.CallID {
		t.Errorf("asked again = exit %d, call %s, want 75 and %s", again.exit, again.result.CallID, o.result.CallID)
	}
	if other := nested.call(manifests.ClassWorld, `{"path":"y"}`, asking); other.result.CallID == o.result.CallID {
		t.Error("another input is the same call")
	}

	b.write(protocol.ResumeFile, `{"work_item_id":"w","checkpoint_id":"pending","inputs":{"name":"blue"},"context":{"call_id":"c1"}}`)
	var question skill.Question
	if got := b.parent(func(c *skill.Call) error {
		var ok bool
		if question, ok = c.Asked(o.events[1]); !ok {
			t.Errorf("Asked(%s) = false", o.events[1].Raw)
		}
		return c.Answer(t.Context(), question)
	}); got.exit != 0 {
		t.Fatalf("the parent = %s", got.stderr)
	}
	if question.Skill != "demo.do" || question.Request == nil || !question.Request.Blocking || question.Waiting.ExpectedInputs["name"] != "string" {
		t.Errorf("the question is %+v", question)
	}
	for range 2 { // the second time it is the recorded result
		o := nested.call(manifests.ClassWorld, input, asking)
		if o.exit != 0 || string(o.result.Data) != `{"answer":"blue"}` {
			t.Errorf("after the answer = exit %d, %s, %s", o.exit, o.result.Data, o.stderr)
		}
	}
	if other := b.under("c2").call(manifests.ClassWorld, input, asking); other.exit != protocol.ExitWaiting {
		t.Errorf("another agent's call = exit %d, want that it waits", other.exit)
	}
}

func TestQuestionsAreJudged(t *testing.T) {
	b := newBench(t)
	o := b.under("c1").call(manifests.ClassWorld, `{"path":"x"}`, asking)
	var q map[string]any
	info := func(change func(map[string]any)) protocol.Event {
		payload, err := o.events[1].Open()
		if err != nil {
			t.Fatal(err)
		}
		info := payload.(protocol.Info)
		if err := json.Unmarshal(info.Metadata, &q); err != nil {
			t.Fatal(err)
		}
		change(q)
		info.Metadata, _ = json.Marshal(q)
		e, err := protocol.New(info)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	tests := map[string]func(map[string]any){
		"of another agent":     func(q map[string]any) { q["parent_call_id"] = "c9" },
		"with an id of others": func(q map[string]any) { q["call_id"] = "c1" },
		"of another skill":     func(q map[string]any) { q["skill"] = "fs.write" },
		"without a reason":     func(q map[string]any) { q["waiting"] = map[string]any{} },
		"of a strange type": func(q map[string]any) {
			q["waiting"].(map[string]any)["expected_inputs"] = map[string]string{"a": "blob"}
		},
	}
	b.parent(nil)
	b.write(protocol.ResumeFile, `{"work_item_id":"w","checkpoint_id":"pending","inputs":{"name":"blue"},"context":{"call_id":"c1"}}`)
	b.parent(func(c *skill.Call) error {
		for name, change := range tests {
			if q, ok := c.Asked(info(change)); ok {
				t.Errorf("a question %s counts: %+v", name, q)
			}
		}
		good, ok := c.Asked(info(func(map[string]any) {}))
		if !ok {
			return fmt.Errorf("a good question does not count")
		}
		good.CallID = "c1"
		if err := c.Answer(t.Context(), good); err == nil {
			t.Error("the answer went to a call that is not nested")
		}
		return nil
	})
	bad := b.under("../c1").call(manifests.ClassWorld, `{"path":"x"}`, asking)
	if bad.exit != protocol.ExitBadInput {
		t.Errorf("a bad parent id = exit %d, want 2", bad.exit)
	}
}
