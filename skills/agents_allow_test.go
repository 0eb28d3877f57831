package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/agenttest"
)

// The tests of the vendors' programs, all without a network:
//
//	                              Claude Code, Codex                   Gemini CLI by the protocol
//	crash in a turn               TestARealAgentCrashesAndGoesOn       TestARealAgentOfTheProtocolCrashesAndGoesBack
//	session and files together    TestARealAgentGoesBackToATurn        the same
//	old processes are dead        allDead in the others                allDead in the others
//	resumed twice                 resumedTwice in the next two         resumedTwice in the next
//	a limit is waited out         TestARealAgentWaitsOutALimit         TestARealAgentOfTheProtocolIsAllowedAndWaitsOutALimit
//	permission after a restart    TestARealAgentIsAllowedAfterARestart the same

// A vendor's program that is not of the Agent Client Protocol asks for permission, too. A person answers when its process is gone,
// and its own session goes on. The answer applies once, to the same tool with the same arguments.
func TestARealAgentIsAllowedAfterARestart(t *testing.T) {
	for _, agent := range []string{"claude", "codex"} {
		t.Run(agent, func(t *testing.T) {
			a := newRealAgent(t, agent, agenttest.Script{})
			ask := map[string]any{"permissions": map[string]any{"mode": "ask"}, "mcp": map[string]any{"spritekit": false}}
			one := agenttest.Step{Text: "I use it", Calls: []agenttest.Call{a.shell("echo one >>work")}}
			other := agenttest.Step{Text: "and another", Calls: []agenttest.Call{a.shell("echo two >>work")}}
			a.says(one, agenttest.Step{Text: "not yet"})
			a.env.CallID = "call-asks"
			request := a.asked(a.run(ask))
			if _, err := os.Stat(filepath.Join(a.dir, "work")); err == nil || !strings.Contains(request.Arguments, "echo one") || request.Kind != "execute" {
				t.Fatalf("asked about %+v; the file: %v", request, err)
			}
			a.allDead()

			a.resume("call-asks", map[string]any{"ok": true, "action": "USE_TOOL", "result": map[string]any{"sha256": request.SHA256}})
			a.model.Play(agenttest.Script{Since: "it is allowed", Steps: []agenttest.Step{one, other}})
			second := a.asked(a.run(ask))
			if a.read("work") != "one\n" || !strings.Contains(second.Arguments, "echo two") || second.SHA256 == request.SHA256 {
				t.Fatalf("after the approval the work is %q, asked about %+v", a.read("work"), second)
			}
			a.allDead()

			a.resume("call-asks", map[string]any{"ok": true, "action": "USE_TOOL", "result": map[string]any{"sha256": second.SHA256}})
			a.model.Play(agenttest.Script{Since: "it is allowed", Steps: []agenttest.Step{other, other}})
			third := a.asked(a.run(ask))
			if a.read("work") != "one\ntwo\n" || third.SHA256 != second.SHA256 {
				t.Fatalf("an approval applies once: the work is %q, asked about %+v", a.read("work"), third)
			}

			no := map[string]any{"ok": false, "action": "USE_TOOL", "error": map[string]any{"code": "rejected", "message": "not that one"}}
			a.resume("call-asks", no)
			a.model.Play(agenttest.Script{Since: "not that one", Steps: []agenttest.Step{{Text: "it is done"}}})
			data := a.done(ask)
			last, _ := a.model.Last()
			if data["final_text"] != "it is done" || !strings.Contains(last.Prompt, "do it") || a.read("work") != "one\ntwo\n" {
				t.Errorf("agent.run = %v; the model was told %q; the work is %q", data, last.Prompt, a.read("work"))
			}
			a.resumedTwice(ask, data, no)
		})
	}
}
