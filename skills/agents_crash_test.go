package skills

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const word = `echo '{"is":"word","word":"hi","n":1}'
`

// An agent that crashes after an answer of the model goes on in its session, three times at most. Its processes are dead by then,
// and its locks are gone.
func TestAnAgentCrashesAndGoesOn(t *testing.T) {
	s := parrot(t, `echo "$@" >>args; cat >>said
mkdir -p "$HOME/locks"; mkdir "$HOME/locks/held" || exit 3
`+hello+word+`[ $(wc -l <args) -gt 2 ] || { sleep 600 & kill -9 $$; }
echo '{"is":"bye"}'`)
	data := s.must("agent.run", `{"agent":"parrot","prompt":"speak","mcp":{"spritekit":false},"limits":{"max_turns":3}}`)
	if s.read("args") != "talk\ntalk --again p-1\ntalk --again p-1\n" || data["turns"] != 3.0 || data["usage"].(map[string]any)["input"] != 3.0 {
		t.Errorf("started with %q, its report is %v", s.read("args"), data)
	}
	if said := s.read("said"); !strings.HasPrefix(said, "speakYou were interrupted") {
		t.Errorf("it was told %q", said)
	}
	s = parrot(t, `echo "$@" >>args; `+hello+word+`kill -9 $$`)
	s.fails("agent.run", `{"agent":"parrot","prompt":"speak","mcp":{"spritekit":false}}`, 1, "agent_failed")
	if s.read("args") != "talk\ntalk --again p-1\ntalk --again p-1\ntalk --again p-1\n" {
		t.Errorf("it was started with %q", s.read("args"))
	}
}

// So does an agent of the protocol, whose session is loaded again; one that cannot load sessions begins a new one with its whole
// task.
func TestAnAgentOfTheProtocolCrashesAndGoesOn(t *testing.T) {
	for can, want := range map[string]string{"true": "session/load", "false": "session/new"} {
		s := newSprite(t)
		s.write("agent.sh", strings.Replace(acpHello, `"loadSession":true`, `"loadSession":`+can, 1)+`read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
`+acpPrompt+acpSays("hi")+`[ $(wc -l <prompts) -gt 1 ] || { sleep 600 & kill -9 $$; }
`+acpEnd)
		data := s.must("agent.run", `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false}}`)
		first, again, _ := strings.Cut(s.read("prompts"), "\n")
		if opened := s.read("opened"); data["turns"] != 2.0 || strings.Count(opened, want) == 0 || !strings.Contains(again, "You were interrupted") || strings.Contains(again, "do it") != (can == "false") {
			t.Errorf("loadSession %s: opened with %s, prompted with %q, its report is %v", can, opened, []string{first, again}, data)
		}
	}
}

// A call that was cut off is made again: the agent goes on in its session with the files as they are, and the call counts its
// turns once. An agent without a session cannot go on, and says so to lattice.
func TestACallThatWasCutOffGoesOn(t *testing.T) {
	s := parrot(t, `echo "$@" >>args; cat >>said
`+hello+word+`[ -e args2 ] || { echo >args2; exec sleep 600; }
echo '{"is":"bye"}'`)
	s.env.CallID, s.env.RunID = "call-cut", "run_1"
	const input = `{"agent":"parrot","prompt":"speak","mcp":{"spritekit":false}}`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.tee = doing{text: `"event":"text"`, do: cancel}
	if o := s.callCtx(ctx, "agent.run", input); o.exit != protocol.ExitCancelled {
		t.Fatalf("exit %d, %s", o.exit, o.stdout)
	}
	s.tee = nil
	data := s.must("agent.run", input)
	if s.read("args") != "talk\ntalk --again p-1\n" || data["turns"] != 2.0 || !strings.HasPrefix(s.read("said"), "speakYou were interrupted") {
		t.Errorf("started with %q, told %q, its report is %v", s.read("args"), s.read("said"), data)
	}
	if again := s.must("agent.run", input); again["turns"] != 2.0 || s.read("args") != "talk\ntalk --again p-1\n" {
		t.Errorf("made a third time, the call runs again: %v", again)
	}

	s = newSprite(t)
	s.env.CallID, s.env.RunID = "call-protocol", "run_1"
	s.write("agent.sh", acpHello+`read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
`+acpPrompt+acpSays("hi")+`[ $(wc -l <prompts) -gt 1 ] || exec sleep 600
`+acpEnd)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	s.tee = doing{text: `"event":"text"`, do: cancel}
	const spoken = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false}}`
	if o := s.callCtx(ctx, "agent.run", spoken); o.exit != protocol.ExitCancelled {
		t.Fatalf("exit %d, %s", o.exit, o.stdout)
	}
	s.tee = nil
	if data := s.must("agent.run", spoken); data["turns"] != 2.0 || !strings.Contains(s.read("opened"), "session/load") || !strings.Contains(s.read("prompts"), "You were interrupted") {
		t.Errorf("opened with %s, prompted with %s, its report is %v", s.read("opened"), s.read("prompts"), data)
	}

	s = newSprite(t)
	s.env.CallID, s.env.RunID = "call-shell", "run_1"
	s.write("agent.sh", "echo begun; exec sleep 600\n")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	s.tee = doing{text: "begun", do: cancel}
	const shell = `{"command":["sh","agent.sh"],"timeout_s":60}`
	if o := s.callCtx(ctx, "agent.run", shell); o.exit != protocol.ExitCancelled {
		t.Fatalf("exit %d, %s", o.exit, o.stdout)
	}
	s.tee = nil
	s.fails("agent.run", shell, 1, "call_cut_off")
}

// The vendors' programs go on in their own sessions after a crash in the middle of a turn: what they did before is known to the
// model, and what they started is dead.
func TestARealAgentCrashesAndGoesOn(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		a.model.Play(agenttest.Script{Steps: []agenttest.Step{
			{Text: "I begin", Calls: []agenttest.Call{a.shell("echo one >> work")}},
			{Text: "I go on", Calls: []agenttest.Call{a.shell("test -e crashed && exit; touch crashed; echo two >> work; kill -9 $PPID; sleep 600")}},
			{Text: "it is done"},
		}})
		data := a.done(nil)
		last, _ := a.model.Last()
		if !strings.Contains(last.Prompt, "do it") || !strings.Contains(last.Prompt, "You were interrupted") || a.read("work") != "one\ntwo\n" {
			t.Errorf("the model was told %q; work holds %q", last.Prompt, a.read("work"))
		}
		if data["final_text"] != "it is done" || data["turns"].(float64) < 2 {
			t.Errorf("agent.run = %v", data)
		}
		a.allDead()
	})
}
