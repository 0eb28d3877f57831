package skills

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// pauses checks that a call waits for the end of a usage limit, and returns when that is.
func (s *sprite) pauses(o outcome) time.Time {
	s.t.Helper()
	w := o.result.Waiting
	if o.exit != protocol.ExitWaiting || w == nil || !strings.Contains(w.Reason, "reached a usage limit") || len(w.ExpectedInputs) > 0 {
		s.t.Fatalf("agent.run = exit %d, %s", o.exit, o.stdout)
	}
	at, err := time.Parse(time.RFC3339, w.ResumeAt)
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// Of a vendor's program we see when its usage limit ends. Its session goes on then, once, with the files and counts that it had.
func TestARealAgentWaitsOutALimit(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		for i, v := range a.env.Child {
			if strings.HasPrefix(v, "ANTHROPIC_API_KEY=") { // only subscriptions are told when
				a.env.Child[i] = "CLAUDE_CODE_OAUTH_TOKEN=" + canary
			}
		}
		began := time.Now()
		a.says(agenttest.Step{Text: "I begin", Calls: []agenttest.Call{a.shell("echo begun >> work")}}, agenttest.Step{Status: 429, Resets: 7200})
		a.env.CallID = "call-pauses"
		at := a.pauses(a.run(nil))
		if at.Before(began.Add(2*time.Hour-time.Second)) || at.After(time.Now().Add(2*time.Hour+2*time.Minute)) {
			t.Errorf("it waits until %v, want in two hours", at)
		}
		a.allDead()
		a.resume("call-pauses", map[string]any{})
		a.says(agenttest.Step{}, agenttest.Step{Text: "it is done"})
		data := a.done(nil)
		last, _ := a.model.Last()
		if !strings.Contains(last.Prompt, "do it") || !strings.Contains(last.Prompt, "which has ended. Go on") || len(last.Results) != 1 {
			t.Errorf("the model was told %q, with results %q", last.Prompt, last.Results)
		}
		if calls := data["tool_calls"].(map[string]any); data["final_text"] != "it is done" || calls["total"] != 1.0 || a.read("work") != "begun\n" {
			t.Errorf("agent.run = %v; work holds %q", data, a.read("work"))
		}
		a.resumedTwice(nil, data, map[string]any{})
	})
}

// An agent of the protocol names the limit in the error of its turn. Its session is loaded again then.
func TestAnAgentOfTheProtocolWaitsOutALimit(t *testing.T) {
	s := newSprite(t)
	s.write("agent.sh", acpHello+`read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
`+acpPrompt+acpSays("hi")+`[ $(wc -l <prompts) -gt 1 ] || { echo '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"usage limit reached; try again in 40 minutes"}}'; exit; }
`+acpEnd)
	const input = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false},"limits":{"max_turns":2}}`
	s.env.CallID = "call-pauses"
	began := time.Now()
	if at := s.pauses(s.call("agent.run", input)); at.Before(began.Add(40*time.Minute-time.Second)) || at.After(time.Now().Add(40*time.Minute)) {
		t.Errorf("it waits until %v, want in 40 minutes", at)
	}
	s.resume("call-pauses", map[string]any{})
	data := s.must("agent.run", input)
	if opened, prompts := s.read("opened"), s.read("prompts"); data["turns"] != 2.0 || !strings.Contains(opened, "session/load") || !strings.Contains(prompts, "which has ended. Go on") {
		t.Errorf("opened with %s, prompted with %s, its report is %v", opened, prompts, data)
	}
}

// An agent that the model never answered starts again with its own prompt. A person can end the pause and fail the call.
func TestAnAgentPausesAtALimit(t *testing.T) {
	s := parrot(t, `cat >>said; echo >>said
[ $(wc -l <said) -gt 2 ] && words='{"is":"word","word":"hi","n":1}'
case $(wc -l <said) in
1) why='no seeds; try again in 40 minutes' ;;
2) why='no seeds' ;;
3) why='no seeds; try again in 3 hours' ;;
*) sad=false ;;
esac
`+hello+`echo "$words"; echo '{"is":"bye","sad":'${sad:-true}',"why":"'"$why"'"}'`)
	s.env.CallID = "call-pauses"
	const input = `{"agent":"parrot","prompt":"speak","mcp":{"spritekit":false}}`
	for i, want := range []time.Duration{40 * time.Minute, 2 * time.Minute, 3 * time.Hour} {
		began := time.Now()
		at := s.pauses(s.call("agent.run", input))
		if at.Before(began.Add(want-time.Second)) || at.After(time.Now().Add(want)) {
			t.Errorf("pause %d is until %v, want in %v", i, at, want)
		}
		s.resume("call-pauses", map[string]any{"approved": true, "comments": fmt.Sprint(i)}) // an answer of its own
	}
	data := s.must("agent.run", input)
	if said := s.read("said"); !strings.HasPrefix(said, "speak\nspeak\nspeak\nparrot reached a usage limit, which has ended. Go on") || data["turns"] != 2.0 {
		t.Errorf("the agent was told %q, and its report is %v", said, data)
	}

	s = parrot(t, hello+`echo '{"is":"bye","sad":true,"why":"no seeds"}'`)
	s.env.CallID = "call-given-up"
	s.pauses(s.call("agent.run", input))
	s.resume("call-given-up", map[string]any{"approved": false, "comments": "take another"})
	if o := s.call("agent.run", input); o.exit != 1 || o.result.Error.Code != "agent_rate_limited" || !strings.Contains(o.result.Error.Message, "take another") {
		t.Errorf("given up, agent.run = exit %d, %s", o.exit, o.stdout)
	}
	s.env.CallID = "call-refused"
	s.fails("agent.run", `{"agent":"parrot","usage_limit":"pray"}`, 2, "bad_input")
}
