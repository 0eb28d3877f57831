//go:build !linux

package guest

import (
	"errors"
	"os"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
)

// builder is not used on this system.
type builder struct{}

func makeBuilder(spec.Kind, *channel.Socket) (b builder, err error) {
	return b, spec.FailedAt(spec.StepNamespaces, errors.ErrUnsupported)
}

func (builder) enterBox(view.Plan, []*os.File) error { return errors.ErrUnsupported }

func limitCommand(int, bool) {} // only Linux counts these limits

func hardenInit(spec.Without) error { syscall.CloseOnExec(spec.ControlFD); return nil }

// adoptOrphans cannot be done here: a command that makes itself a daemon gets away.
func adoptOrphans() error { return nil }

func childAttr(tty, plain bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: tty}
}

// endDescendants kills the process groups of all commands.
func (s *server) endDescendants() {
	for pid := range s.pids {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
