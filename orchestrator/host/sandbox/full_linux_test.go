package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// smallDisk names the folder in which the test that runs itself again is to mount its small disk.
const smallDisk = "SANDBOX_TEST_SMALL_DISK"

// A disk that is full when a box starts is told as such: it says nothing of what is possible on this machine. The disk is a
// small one in a mount namespace of its own.
func TestStartOnFullDisk(t *testing.T) {
	if dir := os.Getenv(smallDisk); dir != "" {
		startOnFullDisk(t, dir)
		return
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestStartOnFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), strings.Contains(string(out), "--- SKIP"):
		t.Skipf("no disk can be mounted here: %v\n%s", err, out)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
}

func startOnFullDisk(t *testing.T, dir string) {
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=1m,nr_inodes=64"); err != nil {
		t.Skip(err)
	}
	cfg := layered(t, 0)
	cfg.Root.Upper, cfg.Root.Work = layer(t, dir, "upper"), filepath.Join(dir, "work")
	must(t, os.Mkdir(cfg.Root.Work, 0o700))
	start := func() error {
		box, err := sandbox.Start(cfg)
		if err == nil {
			err = box.Stop()
		}
		return err
	}
	var ballast []string
	for {
		name := filepath.Join(dir, fmt.Sprint(len(ballast)))
		if err := os.Mkdir(name, 0o700); errors.Is(err, unix.ENOSPC) {
			break
		} else {
			must(t, err)
		}
		ballast = append(ballast, name)
	}
	// From a disk without any room to one with just enough there are several steps at which it is missing.
	for free, name := range ballast {
		err := start()
		var refusal *spec.Refusal
		switch {
		case err == nil && free > 0:
			return
		case err == nil, errors.As(err, &refusal), spec.Short(err), !errors.Is(err, unix.ENOSPC):
			t.Errorf("with room for %d files Start = %v", free, err)
		}
		must(t, os.Remove(name))
	}
	t.Error("no box starts")
}
