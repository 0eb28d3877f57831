package sandbox

import (
	"errors"
	"testing"

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
			refusal(&setupFailure{"make a sandbox", answered{int(c.errno), c.errno.Error()}}),
			refusal(&setupFailure{"start init in new namespaces", c.errno}),
		} {
			var r *Refusal
			if errors.As(err, &r) != c.refused || !errors.Is(err, c.errno) && !c.refused {
				t.Errorf("%s: %T %v, refused should be %v", unix.ErrnoName(c.errno), err, err, c.refused)
			}
		}
	}
	full := setupFailure{"start init in new namespaces", unix.ENOSPC}
	if !short(&full, func(string) string { return "10000" }) || short(&full, func(string) string { return "0" }) {
		t.Error("no room for namespaces is a shortage, unless none are allowed at all")
	}
}
