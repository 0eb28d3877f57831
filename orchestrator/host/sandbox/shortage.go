package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// starvation lists messages of Go's runtime when it ends a program because a resource of the kernel is exhausted.
var starvation = []string{
	"epollctl failed", "epollcreate failed", "eventfd failed", "failed to create new OS thread", "cannot allocate memory", "out of memory",
}

// unborn says that init ended, or could not be spoken to, before there was anything in the box.
type unborn struct {
	err  error
	said *tail
}

func (u *unborn) Error() string { return fmt.Sprintf("set up the sandbox: %v; %s", u.err, u.said) }
func (u *unborn) Unwrap() error { return u.err }

// explainShortage returns the Shortage of which an init has died, or err. It is asked when all that init said has been read.
func explainShortage(err error) error {
	var u *unborn
	if !errors.As(err, &u) {
		return err
	}
	for line := range strings.Lines(u.said.String()) {
		if slices.ContainsFunc(starvation, func(word string) bool { return strings.Contains(line, word) }) {
			return spec.NewShortage(fmt.Errorf("set up the sandbox: init ended: %s", strings.TrimSpace(line)))
		}
	}
	return err
}
