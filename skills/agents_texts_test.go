package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/agenttest"
)

// What is written for an agent reaches its model, and nothing of it the repository.
func TestARealAgentReadsWhatIsWrittenForIt(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		a.origin()
		a.must("git.clone", `{"url":"origin"}`)
		a.write("lib/kingfisher/SKILL.md", "---\nname: kingfisher\ndescription: How to dive for fish with a kingfisher.\n---\nDive.\n")
		a.says(agenttest.Step{Text: "I read it all"})
		data := a.done(map[string]any{
			"cwd": "repo", "instructions": "Always mention the heron.", "system_append": "You are a pelican.", "skills": []string{"lib/kingfisher", "spritekit"},
		})
		last, _ := a.model.Last()
		for _, want := range []string{"mention the heron", "You are a pelican", "dive for fish", "spritekit-git"} {
			if !strings.Contains(string(last.Body), want) {
				t.Errorf("the model was not told %q", want)
			}
		}
		if got := a.git("repo", "status", "--porcelain", "--ignored"); got != "" || len(data["files_changed"].([]any)) > 0 {
			t.Errorf("the repository has %q", got)
		}
	})
}

// The real pack, where CI has it; TestAPackIsInstalled has one of the same form.
func TestGetShitDoneIsPrepared(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		if _, err := os.Stat(filepath.Join(npmFolder(t, agent), "..", "get-shit-done-cc", "package.json")); err != nil {
			t.Skipf("the pack is not there: %v", err)
		}
		a.says(agenttest.Step{Text: "I know it"})
		a.done(map[string]any{"packs": []string{"get-shit-done"}})
		last, _ := a.model.Last()
		if !strings.Contains(string(last.Body), "gsd") {
			t.Error("the model was not told of the pack")
		}
	})
}
