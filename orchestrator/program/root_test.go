package program

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsAreDescribed: each command that people see has a line for the list of its group, and its help has examples, which call it,
// or, of a group, one of its commands. Manual pages and completion come from the same.
func TestCommandsAreDescribed(t *testing.T) {
	t.Parallel()
	n := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		n++
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s has the summary %q, want one without a period", c.CommandPath(), c.Short)
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the examples of %s do not call it: %q", c.CommandPath(), c.Example)
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(newRootCmd(NewEnv()))
	if n < 150 {
		t.Errorf("only %d commands were found", n)
	}
}
