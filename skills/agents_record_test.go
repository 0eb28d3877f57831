package skills

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// scribe makes a sprite with an agent that has no sessions, and tells what it does.
func scribe(t *testing.T, script string) *sprite {
	s := parrot(t, `cat >>prompts; echo "-" >>prompts; echo run >>runs
`+script)
	s.write("opt/agents/parrot.json", `{"name": "parrot", "programs": ["parrot"], "secrets": ["PARROT_KEY"], "events": [
    {"when": {"is": "word"}, "is": "turn"}, {"when": {"is": "word"}, "is": "text", "take": {"text": "word"}},
    {"when": {"is": "use"}, "is": "tool_call", "take": {"id": "id", "name": "id", "input": "input"}}, {"when": {"is": "used"}, "is": "tool_result", "take": {"id": "id"}},
    {"when": {"is": "bye"}, "is": "end", "take": {"failed": "sad", "message": "why"}}], "causes": [{"contains": ["no seeds"], "is": "rate_limit"}]}`)
	return s
}

const scribeInput = `{"agent":"parrot","prompt":"speak","mcp":{"spritekit":false},"timeout_s":60}`

// scribeWorks is a turn of such an agent.
const scribeWorks = `echo '{"is":"word","word":"I mend it, polly-wants-a-cracker"}'; echo '{"is":"use","id":"sh","input":"echo one"}'; echo one >>work; echo '{"is":"used","id":"sh"}'
`

// recordedIn checks that a prompt has the task, the record of scribeWorks and what to do now, and no key.
func (s *sprite) recordedIn(prompt, now string) {
	s.t.Helper()
	for _, want := range []string{"speak\n\nYou worked on this task before", "you: I mend it", "you used the tool sh: echo one", now} {
		if !strings.Contains(prompt, want) {
			s.t.Errorf("prompted with %q, without %q", prompt, want)
		}
	}
	if strings.Contains(prompt, "cracker") {
		s.t.Errorf("a key is in the prompt %q", prompt)
	}
}

// An agent without sessions that crashes, is cut off, or waits out a limit goes on with the files as they are, its task and the
// record of what it said and did.
func TestAnAgentWithoutSessionsGoesOnWithItsRecord(t *testing.T) {
	t.Run("crash", func(t *testing.T) {
		s := scribe(t, `[ $(wc -l <runs) = 1 ] && { `+strings.TrimSpace(scribeWorks)+`; kill -9 $$; }
echo '{"is":"word","word":"done"}'; echo '{"is":"bye"}'`)
		data := s.must("agent.run", scribeInput)
		first, second, _ := strings.Cut(s.read("prompts"), "-\n")
		if first != "speak" || s.read("work") != "one\n" || data["turns"] != 2.0 {
			t.Errorf("first prompt %q, work %q, report %v", first, s.read("work"), data)
		}
		s.recordedIn(second, "You were interrupted")
	})
	t.Run("cut off", func(t *testing.T) {
		s := scribe(t, `[ $(wc -l <runs) = 1 ] && { `+strings.TrimSpace(scribeWorks)+`; echo '{"is":"word","word":"more"}'; exec sleep 600; }
echo '{"is":"word","word":"done"}'; echo '{"is":"bye"}'`)
		s.env.CallID, s.env.RunID = "call-cut", "run_1"
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.tee = doing{text: `"event":"tool_call"`, do: cancel}
		if o := s.callCtx(ctx, "agent.run", scribeInput); o.exit != protocol.ExitCancelled {
			t.Fatalf("exit %d, %s", o.exit, o.stdout)
		}
		s.tee = nil
		s.must("agent.run", scribeInput)
		_, second, _ := strings.Cut(s.read("prompts"), "-\n")
		s.recordedIn(second, "You were interrupted")
	})
	t.Run("limit", func(t *testing.T) {
		s := scribe(t, `[ $(wc -l <runs) = 1 ] && { `+strings.TrimSpace(scribeWorks)+`; echo '{"is":"bye","sad":true,"why":"no seeds, try again in 2 hours"}'; exit 1; }
echo '{"is":"word","word":"done"}'; echo '{"is":"bye"}'`)
		s.env.CallID = "call-limit"
		if o := s.call("agent.run", scribeInput); o.exit != protocol.ExitWaiting {
			t.Fatalf("exit %d, %s", o.exit, o.stdout)
		}
		s.resume("call-limit", map[string]any{})
		s.must("agent.run", scribeInput)
		_, second, _ := strings.Cut(s.read("prompts"), "-\n")
		s.recordedIn(second, "which has ended. Go on")
	})
}

// Its turns are kept with the record.
func TestAnAgentWithoutSessionsGoesBackToATurn(t *testing.T) {
	s := scribe(t, `[ -e later ] && { echo '{"is":"bye"}'; exit; }
case $(cat prompts) in *'taken back'*) echo '{"is":"bye"}'; exit ;; esac
`+scribeWorks+`until [ "$(grep -c agent_turn .lattice/outbox.jsonl)" = 1 ]; do sleep 0.01; done
echo '{"is":"word","word":"I lose it"}'; echo two >>work; echo '{"is":"bye"}'`)
	k := keep(t, s)
	s.env.CallID, s.env.RunID = "call-first", "run_1"
	if turns := turnsOf(s.call("agent.run", scribeInput)); len(turns) != 1 || s.read("work") != "one\ntwo\n" {
		t.Fatalf("turns %+v; work holds %q", turns, s.read("work"))
	}
	k.restore(t, "v1")
	s.env.CallID = "call-again"
	s.must("agent.run", scribeInput)
	_, second, _ := strings.Cut(s.read("prompts"), "-\n")
	s.recordedIn(second, "You were taken back")
	if s.read("work") != "one\n" || strings.Contains(second, "I lose it") {
		t.Errorf("work holds %q, prompted with %q", s.read("work"), second)
	}
}

// A plain program is told, after it asked a person, what it printed and the answer.
func TestAPlainProgramIsToldWhatItPrinted(t *testing.T) {
	s := newSprite(t)
	s.nested("ask.user")
	s.write("agent.sh", `cat >>prompts; echo "-" >>prompts; echo I look around
answer=$(echo '{"question":"Which color?"}' | ./ask.user | tail -n 1)
case $answer in *waiting*) sleep 600 ;; esac
`)
	s.env.CallID = "call-asks"
	const input = `{"command":["sh","agent.sh"],"prompt":"paint","timeout_s":60}`
	s.waits(s.call("agent.run", input), "Which color?")
	s.resume("call-asks", map[string]any{"answer": "blue"})
	s.must("agent.run", input)
	first, second, _ := strings.Cut(s.read("prompts"), "-\n")
	if first != "paint" || !strings.HasPrefix(second, "paint\n\nYou worked on this task before") || !strings.Contains(second, "I look around") || !strings.Contains(second, `"blue"`) {
		t.Errorf("prompted with %q, then %q", first, second)
	}
}

// An agent of the protocol that cannot load sessions gets the record in its new session: after a crash, a turn, and a permission.
func TestAnAgentOfTheProtocolThatLoadsNoSessions(t *testing.T) {
	hello := strings.Replace(acpHello, `"loadSession":true`, `"loadSession":false`, 1) + acpSession + acpPrompt
	work := acpSays("I mend it") + acpTool("one", "in_progress") + "echo one >>work\n" + acpTool("one", "completed")
	recorded := func(t *testing.T, s *sprite, now string) {
		t.Helper()
		_, second, _ := strings.Cut(s.read("prompts"), "\n")
		for _, want := range []string{"do it", "you: I mend it", "you used the tool execute: one", now} {
			if !strings.Contains(second, want) {
				t.Errorf("prompted with %q, without %q", second, want)
			}
		}
	}
	const input = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false},"permissions":{"mode":"ask"}}`
	t.Run("crash", func(t *testing.T) {
		s := newSprite(t)
		s.write("agent.sh", hello+`[ $(wc -l <prompts) = 1 ] && {
`+work+`kill -9 $$; }
`+acpEnd)
		s.must("agent.run", input)
		recorded(t, s, "You were interrupted")
	})
	t.Run("turn", func(t *testing.T) {
		s := newSprite(t)
		k := keep(t, s)
		s.write("agent.sh", hello+`case $m in *'taken back'*) `+acpEnd+`exit ;; esac
`+work+`until [ "$(grep -c agent_turn .lattice/outbox.jsonl)" = 1 ]; do sleep 0.01; done
`+acpSays("I lose it")+acpEnd)
		s.env.CallID = "call-first"
		if turns := turnsOf(s.call("agent.run", input)); len(turns) != 1 {
			t.Fatalf("turns %+v", turns)
		}
		k.restore(t, "v1")
		s.env.CallID = "call-again"
		s.must("agent.run", input)
		recorded(t, s, "You were taken back")
		if strings.Contains(s.read("prompts"), "I lose it") {
			t.Error("the record holds what was said after the turn")
		}
	})
	t.Run("permission", func(t *testing.T) {
		s := newSprite(t)
		s.write("agent.sh", hello+work+acpPermission("edit", `{"a":1}`)+`tail -1 answers | grep -q cancelled && exit
`+acpEnd)
		s.env.CallID = "call-asks"
		o := s.call("agent.run", input)
		request := (&realAgent{sprite: s}).asked(o)
		s.resume("call-asks", map[string]any{"ok": true, "action": "USE_TOOL", "result": map[string]any{"sha256": request.SHA256}})
		s.must("agent.run", input)
		recorded(t, s, "it is allowed")
	})
}
