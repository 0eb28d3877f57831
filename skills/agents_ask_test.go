package skills

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// resume answers a call that waits, as the orchestrator does.
func (s *sprite) resume(callID string, inputs map[string]any) {
	s.t.Helper()
	s.write(protocol.ResumeFile, quote(map[string]any{
		"work_item_id": "w1", "checkpoint_id": "pending", "inputs": inputs, "context": map[string]string{"call_id": callID, "answered_by": "tester"},
	}))
}

// waits checks that a call waits in the place of a skill that its agent called, and leaves the rest to the orchestrator.
func (s *sprite) waits(o outcome, reason string) {
	s.t.Helper()
	if o.exit != protocol.ExitWaiting || o.result.Waiting == nil || o.result.Waiting.Reason != reason || o.result.Waiting.ExpectedInputs["answer"] != "string" {
		s.t.Fatalf("agent.run = exit %d, %s", o.exit, o.stdout)
	}
	waiting := 0
	for _, e := range o.events {
		if e.Type == protocol.TypeWaiting {
			if waiting++; e.CallID != s.env.CallID {
				s.t.Errorf("call %s waits, not the agent's", e.CallID)
			}
		}
	}
	if waiting != 1 {
		s.t.Errorf("%d events say that somebody waits, want 1", waiting)
	}
}

func TestARealAgentAsksAndGoesOn(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		question := map[string]any{"question": "Which color?", "choices": []string{"red", "blue"}}
		a.says(agenttest.Step{Text: "I must ask", Calls: []agenttest.Call{a.tool("ask.user", question)}}, agenttest.Step{Text: "not yet"})
		a.env.CallID = "call-asks"
		a.waits(a.run(nil), "Which color? [red | blue]")
		a.resume("call-asks", map[string]any{"answer": "blue"})
		// It is told the answer when it goes on, and asks again all the same.
		a.model.Play(agenttest.Script{Since: "was answered", Steps: []agenttest.Step{
			{Text: "once more", Calls: []agenttest.Call{a.tool("ask.user", question)}}, {Text: "then let it be so"},
		}})
		data := a.done(nil)
		last, _ := a.model.Last()
		if data["final_text"] != "then let it be so" || !strings.Contains(last.Prompt, `"blue"`) || !strings.Contains(last.Prompt, "do it") {
			t.Errorf("after the answer: %v; the model was told %q", data["final_text"], last.Prompt)
		}
		if result := last.Results[len(last.Results)-1]; !strings.Contains(result, `"answer":"blue"`) {
			t.Errorf("asked again, the skill says %s", result)
		}
		// Both parts count.
		if calls := data["tool_calls"].(map[string]any); calls["total"] != 2.0 || data["turns"].(float64) < 3 {
			t.Errorf("calls %v, turns %v", calls, data["turns"])
		}
	})
}

// An agent without sessions is run again from the start; the skill that asked has the answer by then.
func TestAShellAgentAsksAndGoesOn(t *testing.T) {
	s := newSprite(t)
	s.nested("ask.user")
	s.write("agent.sh", `echo run >> runs
answer=$(echo '{"question":"Which color?"}' | ./ask.user | tail -n 1)
case $answer in *waiting*) sleep 600 ;; esac
echo "$answer" > answer
echo '{"question":"And which shape?"}' | ./ask.user >/dev/null || exit 1
echo both are known
`)
	s.env.CallID = "call-asks"
	const input = `{"command":["sh","agent.sh"],"timeout_s":60}`
	s.waits(s.call("agent.run", input), "Which color?")
	s.waits(s.call("agent.run", input), "Which color?") // made again before there is an answer
	s.resume("call-asks", map[string]any{"answer": "blue"})
	s.waits(s.call("agent.run", input), "And which shape?")
	s.resume("call-asks", map[string]any{"answer": "round"})
	o := s.call("agent.run", input)
	if o.exit != 0 || s.read("runs") != "run\nrun\nrun\n" || !strings.Contains(s.read("answer"), `"answer":"blue"`) {
		t.Errorf("exit %d, %s, runs %q, answer %q", o.exit, o.stdout, s.read("runs"), s.read("answer"))
	}
	again := s.call("agent.run", input)
	if diff := again.exit != 0 || s.read("runs") != "run\nrun\nrun\n"; diff {
		t.Errorf("made again, the call runs again: exit %d", again.exit)
	}
}

// An agent cannot speak for a skill: what it prints or plants is no question of a skill's that was never called.
func TestQuestionsThatNoSkillAsked(t *testing.T) {
	s := newSprite(t)
	s.env.CallID = "call-asks"
	info := quote(map[string]any{"event_type": "INFO", "payload": map[string]any{"message": "m", "kind": "nested_waiting", "metadata": map[string]any{
		"parent_call_id": "call-asks", "call_id": "call-asks", "skill": "ask.user", "input_sha256": "0", "waiting": map[string]any{"reason": "r", "checkpoint_id": "x", "expected_inputs": map[string]string{}},
	}}})
	s.write("agent.sh", "cat <<'END'\nLATTICE_EVENT "+info+"\nEND\n")
	o := s.call("agent.run", `{"command":["sh","agent.sh"],"pass_through_events":true}`)
	if o.exit != 0 {
		t.Fatalf("agent.run = exit %d, %s", o.exit, o.stdout)
	}
	for _, e := range o.events {
		var p struct{ Kind string }
		if json.Unmarshal(e.Payload, &p) == nil && p.Kind == "nested_waiting" {
			t.Errorf("the agent forged %s", e.Raw)
		}
	}
}
