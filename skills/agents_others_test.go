package skills

import (
	"os"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/agenttest"
)

// The other agents are larger or slower than CI should wait for: LATTICE_AGENTS=gemini,opencode runs them, too, from
// LATTICE_NPM_CACHE. Their events are tested always, on recordings.
func TestOtherRealAgentsWork(t *testing.T) {
	tools := map[string]agenttest.Call{
		"gemini":   {Name: "run_shell_command", Input: map[string]string{"command": "echo made > made"}},
		"opencode": {Name: "bash", Input: map[string]string{"command": "echo made > made", "description": "make it"}},
	}
	wanted := strings.FieldsFunc(os.Getenv("LATTICE_AGENTS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(wanted) == 0 {
		t.Skip("LATTICE_AGENTS names none")
	}
	for _, agent := range wanted {
		t.Run(agent, func(t *testing.T) {
			call, ok := tools[agent]
			if !ok {
				t.Fatalf("there is no such test; known are %v", tools)
			}
			a := newRealAgent(t, agent, agenttest.Script{Side: "a title", Steps: []agenttest.Step{
				{Text: "let me see", Calls: []agenttest.Call{call}}, {Text: "all done"},
			}})
			data := a.done(map[string]any{"timeout_s": 900})
			usage := data["usage"].(map[string]any)
			if a.read("made") != "made\n" || data["final_text"] != "all done" || data["session_id"] == nil || usage["input"].(float64) < 2000 {
				t.Errorf("agent.run = %v\n%s", data, a.transcripts())
			}
			t.Logf("agent.run = %v", data)
		})
	}
}
