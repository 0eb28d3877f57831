package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/files"
)

// A file that was written is there, under its name and whole, when the power is lost right after: the file system is shut down
// without writing back what it has in memory.
func TestWriteSurvivesPowerLoss(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	image, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	mount := func() {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("no disk can be mounted here: %v: %s", err, out)
		}
	}
	for _, command := range [][]string{{"truncate", "-s", "64M", image}, {"mkfs.ext4", "-q", image}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no disk can be made here: %s: %v: %s", command[0], err, out)
		}
	}
	mount()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	const text = "the task of a run"
	for _, name := range []string{"new", "replaced"} {
		if _, err := files.Write(files.Kernel{}, filepath.Join(dir, name), strings.NewReader(text), int64(len(text)), nil); err != nil {
			t.Fatal(err)
		}
	}
	longer := text + ", changed"
	if _, err := files.Write(files.Kernel{}, filepath.Join(dir, "replaced"), strings.NewReader(longer), int64(len(longer)), nil); err != nil {
		t.Fatal(err)
	}
	const (
		ext4Shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush   = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noLogFlush)
	f.Close()
	if err != nil {
		t.Fatalf("shut the file system down: %v", err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // mount namespaces of other tests hold the disk
		used, err := exec.Command("losetup", "-j", image).Output()
		if err == nil && len(used) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the disk is still used: %v, %s", err, used)
		}
	}
	mount()
	for name, want := range map[string]string{"new": text, "replaced": longer} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q after the loss of power: %v", name, got, err)
		}
	}
}
