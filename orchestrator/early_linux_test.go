package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// TestInitOfABoxComesEarly: a box's init is at work before packages that it does not need are initialised, and ours do
// nothing on the way there but make a value or two.
func TestInitOfABoxComesEarly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, spec.InitArg)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(trace), "this is the inside of a sandbox") {
		t.Fatalf("%v: %s", err, trace)
	}
	line := regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`)
	inits, ours := line.FindAllSubmatch(trace, -1), 0
	for _, m := range inits {
		switch name := string(m[1]); {
		case strings.Contains(name, "jsonschema"), name == "net/http", name == "main":
			t.Errorf("%s is initialised in a box's init", name)
		case strings.Contains(name, "spritekit/lattice/"):
			n, _ := strconv.Atoi(string(m[2])) // digits, as matched
			ours += n
		}
	}
	const limit = 20 << 10 // the vocabulary of conditions is 15 of them
	if len(inits) == 0 || ours > limit {
		t.Errorf("%d packages are initialised, and ours allocate %d bytes, more than %d: make it when it is first needed", len(inits), ours, limit)
	}
}
