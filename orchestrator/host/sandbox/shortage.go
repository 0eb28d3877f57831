package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// Shortage says that something was not begun because the machine, or the box, is out of what it takes for the moment:
// processes, memory, descriptors, terminals. The same may succeed later. Whoever fills a table of the kernel's, another
// sprite perhaps, brings it about, so nobody may conclude from it what is possible here.
type Shortage struct{ Err error }

func (s *Shortage) Error() string {
	return s.Err.Error() + " (there is none of it left for the moment; what takes much of it can be ended)"
}

// Unwrap returns what the system said.
func (s *Shortage) Unwrap() error { return s.Err }

// starvation is what Go's runtime says when it ends a program for want of something that the kernel counts.
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

// starved is the Shortage of which an init has died, or err. It is asked when all that init said has been read.
func starved(err error) error {
	var u *unborn
	if !errors.As(err, &u) {
		return err
	}
	for line := range strings.Lines(u.said.String()) {
		if slices.ContainsFunc(starvation, func(word string) bool { return strings.Contains(line, word) }) {
			return newShortage(fmt.Errorf("set up the sandbox: init ended: %s", strings.TrimSpace(line)))
		}
	}
	return err
}

// Short reports whether err is a Shortage, or the kernel's word for one.
func Short(err error) bool {
	var known *Shortage
	if errors.As(err, &known) {
		return true
	}
	for _, e := range []error{syscall.ETOOMANYREFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func newShortage(err error) *Shortage { return &Shortage{err} }
