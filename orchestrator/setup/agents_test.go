package setup

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// lattice doctor looks for every agent that agent.run can drive.
func TestDoctorKnowsAdapters(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("../../skills/agent/adapter/adapters")
	if err != nil || len(files) == 0 {
		t.Fatal("no adapters: ", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".json")
		if name != "command" && name != "acp" && !slices.Contains(AgentNames, ProgramOf(name)) {
			t.Errorf("there is an adapter for %s, which doctor does not look for", name)
		}
	}
}
