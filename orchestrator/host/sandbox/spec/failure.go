package spec

import (
	"errors"
	"slices"
	"syscall"
)

// Shortage says that something was not begun because the machine, or the box, is temporarily short of a resource:
// processes, memory, descriptors, terminals. The same may succeed later. A process that fills a table of the kernel, another
// sprite perhaps, causes it, so a caller must not conclude from it that boxes are impossible here.
type Shortage struct{ Err error }

func (s *Shortage) Error() string {
	return s.Err.Error() + " (there is none of it left for the moment; what takes much of it can be ended)"
}

// Unwrap returns the error of the system.
func (s *Shortage) Unwrap() error { return s.Err }

// Short reports whether err is a Shortage, or the kernel's word for one.
func Short(err error) bool {
	if _, ok := errors.AsType[*Shortage](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{syscall.ETOOMANYREFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN}, func(e error) bool { return errors.Is(err, e) })
}

// NewShortage returns the shortage that err is.
func NewShortage(err error) *Shortage { return &Shortage{err} }

// StepNamespaces is the step at which the kernel says ENOSPC of namespaces. Everywhere else it says that of disks.
const StepNamespaces = "start init in new namespaces"

// StepSubIDs is the step at which sub-ids are refused. A box without them may start.
const StepSubIDs = "map sub-ids into the sandbox"

// SetupFailure names the step at which the system refused.
type SetupFailure struct {
	Step string
	Err  error
}

// FailedAt returns the failure of a step.
func FailedAt(step string, err error) *SetupFailure { return &SetupFailure{step, err} }

func (f *SetupFailure) Error() string { return f.Step + ": " + f.Err.Error() }

// Unwrap returns the error of the system.
func (f *SetupFailure) Unwrap() error { return f.Err }
