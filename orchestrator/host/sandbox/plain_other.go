//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
)

func spawnInit(k spec.Kind, _ *idrange.Range, _ *cgroup.Group, child *os.File, stderr io.Writer) (*exec.Cmd, error) {
	if k.Level != spec.LevelProcess {
		return nil, refusalOf(spec.FailedAt(spec.StepNamespaces, errors.ErrUnsupported))
	}
	cmd := &exec.Cmd{
		Path:        k.Self,
		Args:        []string{"sprite-init", spec.InitArg, spec.StageSetup},
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

// drawPlan has nothing to say: nothing is built.
func drawPlan(spec.Config, *idrange.Range) (p view.Plan, mounts []*os.File, err error) {
	return p, nil, nil
}

func refusalOf(err error) error {
	return &spec.Refusal{
		Step:   spec.StepNamespaces,
		Cause:  err.Error(),
		Remedy: "this system has no namespaces; use a Linux machine, or a remote sprite (SPRITES_API_URL)",
	}
}

// mountWatch has nothing to watch over: plain boxes have no init ahead.
type mountWatch struct{}

func watchMounts() (mountWatch, error) { return mountWatch{}, errors.ErrUnsupported }

func (mountWatch) hasChanged() bool { return true }

func (mountWatch) Close() error { return nil }

// isMaster trusts init, which runs as the same user as the commands here.
func isMaster(int) bool { return true }
