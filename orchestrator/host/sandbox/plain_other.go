//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Systems without namespaces have plain boxes only.

const controlFD = 3

// Owner is the user who runs the host process: there is no other to be had here.
func Owner() (uid, gid int) { return os.Getuid(), os.Getgid() }

func spawn(k kind, _ *idRange, _ *group, child *os.File, stderr io.Writer) (*exec.Cmd, error) {
	if k.Level != LevelProcess {
		return nil, refusal(failedAt(stepNamespaces, errors.ErrUnsupported))
	}
	cmd := &exec.Cmd{
		Path:        k.self,
		Args:        []string{"sprite-init", InitArg, stageSetup},
		Env:         []string{},
		Dir:         "/",
		Stderr:      stderr,
		ExtraFiles:  []*os.File{child},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sandbox's init: %w", err)
	}
	return cmd, nil
}

// draw has nothing to say: nothing is built.
func draw(Config, *idRange) (p plan, mounts []*os.File, err error) { return p, nil, nil }

const stepNamespaces = "start init in new namespaces"

type setupFailure struct {
	step string
	err  error
}

func failedAt(step string, err error) *setupFailure { return &setupFailure{step, err} }

func (f *setupFailure) Error() string { return f.step + ": " + f.err.Error() }
func (f *setupFailure) Unwrap() error { return f.err }

func refusal(err error) error {
	return &Refusal{
		Step:   stepNamespaces,
		Cause:  err.Error(),
		Remedy: "this system has no namespaces; use a Linux machine, or a remote sprite (SPRITES_API_URL)",
	}
}

// builder is what no init here becomes.
type builder struct{}

func ready(kind, *channel) (b builder, err error) {
	return b, failedAt(stepNamespaces, errors.ErrUnsupported)
}

func (builder) enter(plan, []*os.File) error { return errors.ErrUnsupported }

func limitCommand(int, bool) {} // what it is for is counted on Linux

// mountWatch has nothing to watch over: plain boxes have no init ahead.
type mountWatch struct{}

func watchMounts() (mountWatch, error) { return mountWatch{}, errors.ErrUnsupported }

func (mountWatch) changed() bool { return true }

func (mountWatch) Close() error { return nil }

// LandlockABI is 0: other systems have none.
func LandlockABI() int { return 0 }

func harden(without) error { syscall.CloseOnExec(controlFD); return nil }

// adopt cannot be done here: a command that makes itself a daemon gets away.
func adopt() error { return nil }

func childAttr(tty, plain bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: tty}
}

// isMaster trusts init, which is no more hostile here than the commands that run as the same user.
func isMaster(int) bool { return true }

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

// endSessions kills the process groups of a box whose init was killed.
func endSessions(leaders map[int]bool) {
	for pid := range leaders {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}
