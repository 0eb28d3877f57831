package keep

import (
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/mcp"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// The help and the completion of lattice mcp name the tools that it offers.
func TestHelpNamesTools(t *testing.T) {
	t.Parallel()
	env := &setup.Env{Console: &cli.Console{}}
	server, err := mcp.New(env, mcp.Options{Decide: true})
	if err != nil {
		t.Fatal(err)
	}
	names, known, help := server.Names(), slices.Clone(mcpTools), newMCPCmd(env).Long
	for _, name := range names {
		if !strings.Contains(help, name) {
			t.Errorf("the help does not name %s", name)
		}
	}
	slices.Sort(names)
	slices.Sort(known)
	if !slices.Equal(names, known) {
		t.Errorf("lattice mcp offers %v, and its completion %v", names, known)
	}
}
