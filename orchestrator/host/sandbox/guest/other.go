//go:build !linux

package guest

// Systems other than Linux have this file instead of those for Linux: their sandboxes are plain processes.

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
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

// stillness stops the process groups of commands. Whether they stand still cannot be seen here, nor who left their groups.
type stillness struct {
	mu      sync.Mutex // guards stopped
	stopped []int      // process groups
}

func (st *stillness) stopAll(_ context.Context, s *server) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.pids {
		if syscall.Kill(-pid, syscall.SIGSTOP) == nil {
			st.stopped = append(st.stopped, pid)
		}
	}
	return nil
}

func (st *stillness) continueAll(*server) (ran bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, pid := range st.stopped {
		syscall.Kill(-pid, syscall.SIGCONT) // gone already is as good
	}
	st.stopped = nil
	return false
}

// listPorts cannot be told here: this system does not say which process holds a socket.
func (s *server) listPorts() ([]channel.Port, error) { return nil, errors.ErrUnsupported }

// fsCall has nothing to do where no box has a view of its own.
func (s *server) fsCall(_ context.Context, name string, _ json.RawMessage, _ []*os.File) (answer any, send []*os.File, err error) {
	return nil, nil, unknownCall(name)
}

func layAside() error                                        { return errors.ErrUnsupported }
func (s *server) asRoot(func()) error                        { return syscall.EPERM }
func listenRoot() (*net.UnixListener, error)                 { return nil, errors.ErrUnsupported }
func (s *server) serveRoot(*net.UnixListener)                {}
func (s *server) killProcess(pid int, signal syscall.Signal) { syscall.Kill(pid, signal) } // gone already is as good

// keeper is not used on this system.
type keeper struct{ socket *channel.Socket }

func meetKeeper() (*keeper, error) { return nil, errors.ErrUnsupported }
func (*keeper) read()              {}
func (*keeper) callKeeper(context.Context, channel.Call, []*os.File) (any, []*os.File, error) {
	return nil, nil, errors.ErrUnsupported
}
