//go:build !linux

package sandbox

// Systems other than Linux have this file instead of those for Linux: their sandboxes are plain processes, about which little is known.

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

// checkSocket leaves the check to the runtime.
func checkSocket(*os.File) error { return nil }

func checkReceived(*os.File) (int64, error) { return 0, errors.ErrUnsupported }

func takeFrom(*os.Process, []int) ([]*os.File, error) { return nil, errors.ErrUnsupported }

func freeStart(int) bool { return false } // needs Linux's /proc

func findKeeper(int) keeper { return keeper{} }

// Idle reports whether nothing but init runs in the box; here that cannot be told.
func (Processes) Idle() bool { return false }

// Written is unknown on this system.
func (Processes) Written() (total uint64) { return 0 }

// Held is unknown on this system.
func (Processes) Held() (all Held) { return all }

// Room is unknown on this system.
func Room() (all Held) { return all }

// Reserve keeps nothing on this system.
type Reserve struct{}

// NewReserve returns a Reserve that keeps nothing.
func NewReserve() *Reserve { return new(Reserve) }

// Keep keeps nothing.
func (r *Reserve) Keep() bool { return true }

// Release frees nothing.
func (r *Reserve) Release() {}

// TryOwnIDs says that boxes cannot have Config.OwnIDs on this system.
func TryOwnIDs(string, string) error { return errors.ErrUnsupported }

// Show cannot be done here: boxes have no mounts.
func (b *Box) Show(spec.Point) error { return errors.ErrUnsupported }

// Hide cannot be done here either.
func (b *Box) Hide(string) error { return errors.ErrUnsupported }
