package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// mountsEnv tells a test process that it has a mount namespace of its own.
const mountsEnv = "LATTICE_TEST_MOUNTS"

// TestDiskFull runs the scripts that fill small disks, in a process that may mount them: with a mount namespace of its
// own, and where that takes it a user namespace.
func TestDiskFull(t *testing.T) {
	if os.Getenv(mountsEnv) != "" {
		t.Skip("this is the process that TestDiskFull runs")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^TestScript$/^diskfull", "-test.v")
	c.Env = append(os.Environ(), mountsEnv+"=1")
	if c.SysProcAttr = ownMounts(); c.SysProcAttr == nil {
		t.Skip("this system has no mount namespaces")
	}
	out, err := c.CombinedOutput()
	switch {
	case errors.Is(err, os.ErrPermission):
		t.Skipf("this user may not make namespaces: %v", err)
	case err != nil || !strings.Contains(string(out), "--- PASS: TestScript/diskfull"):
		t.Errorf("%v\n%s", err, out)
	}
}
