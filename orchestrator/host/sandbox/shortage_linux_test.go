package sandbox

import (
	"errors"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// What one sprite can bring about by filling a table of the kernel's must not pass for a machine without namespaces: the
// host would go on with less.
func TestShortagesAreNoRefusals(t *testing.T) {
	for _, c := range []struct {
		errno   unix.Errno
		refused bool
	}{
		{unix.ETOOMANYREFS, false}, // descriptors on their way through sockets
		{unix.EMFILE, false},
		{unix.ENFILE, false},
		{unix.ENOMEM, false},
		{unix.EAGAIN, false}, // processes
		{unix.EPERM, true},
		{unix.ENOSYS, true},
		{unix.EACCES, true},
	} {
		for _, err := range []error{
			refusalOf(spec.FailedAt("make a sandbox", answered{int(c.errno), c.errno.Error()})),
			refusalOf(spec.FailedAt(spec.StepNamespaces, c.errno)),
		} {
			var r *spec.Refusal
			if errors.As(err, &r) != c.refused || !errors.Is(err, c.errno) && !c.refused {
				t.Errorf("%s: %T %v, refused should be %v", unix.ErrnoName(c.errno), err, err, c.refused)
			}
		}
	}
	none, many := func(string) string { return "0" }, func(string) string { return "10000" }
	var r *spec.Refusal
	var s *spec.Shortage
	if err := refusalBy(spec.FailedAt(spec.StepNamespaces, unix.ENOSPC), many); !errors.As(err, &s) {
		t.Errorf("no room for namespaces is a shortage, not %v", err)
	}
	if err := refusalBy(spec.FailedAt(spec.StepNamespaces, unix.ENOSPC), none); !errors.As(err, &r) {
		t.Errorf("no namespaces at all are refused, not %v", err)
	}
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if err := refusalBy(spec.FailedAt("mount overlay /", errno), many); errors.As(err, &r) || spec.Short(err) || !errors.Is(err, errno) {
			t.Errorf("a full disk is told as such, not as %v", err)
		}
	}
}
