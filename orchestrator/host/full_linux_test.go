package host

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"golang.org/x/sys/unix"
)

// smallDisk names the folder in which the test that runs itself again is to mount its small disk.
const smallDisk = "LATTICE_TEST_SMALL_DISK"

// On a full disk nothing is half done and everything that needs room says so; commands run, what is there can be read and
// removed, and after space is freed all goes on. The disk is a small one in a mount namespace of its own.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(smallDisk); dir != "" {
		mountSmall(t, dir)
		testFullDisk(t, dir)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFullDisk$", "-test.v")
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

func mountSmall(t *testing.T, dir string) {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("small", dir, "tmpfs", 0, "size=12m,nr_inodes=400")
	}
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func testFullDisk(t *testing.T, dir string) {
	ctx := t.Context()
	w := newWorld(t, dir, func(string) {})
	for _, name := range []string{"s", "ballast", "late"} {
		if _, err := w.client.Create(ctx, sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	w.write("one")
	run := func(name, script string) (string, int) {
		t.Helper()
		var out strings.Builder
		code, err := w.client.Exec(ctx, name, sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out, Dir: "/workspace"})
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return out.String(), code
	}
	run("ballast", "head -c 1000000 /dev/zero >weight")
	if _, err := w.client.Checkpoint(ctx, "s", ""); err != nil {
		t.Fatal(err)
	}
	before := w.state()
	fill := func() {
		t.Helper()
		if out, code := run("s", "head -c 50000000 /dev/zero >weight"); code == 0 || !strings.Contains(out, "No space") {
			t.Fatalf("filling the disk = %q, %d", out, code)
		}
		if out, code := run("s", "i=0; mkdir -p many; while : >many/$i; do i=$((i+1)); done"); code == 0 {
			t.Fatalf("filling the disk with files = %q, %d", out, code)
		}
	}
	fill()

	for name, do := range map[string]func() error{
		"create":     func() error { _, err := w.client.Create(ctx, sprites.Create{Name: "t"}); return err },
		"checkpoint": func() error { _, err := w.client.Checkpoint(ctx, "s", ""); return err },
		"restore":    func() error { return w.client.Restore(ctx, "s", "v1") },
		"write": func() error {
			return w.client.WriteFile(ctx, "s", "/workspace/new", strings.NewReader(strings.Repeat("x", 1<<16)), 0o644)
		},
		"first start": func() error {
			_, err := w.client.Exec(ctx, "late", sprites.Exec{Cmd: []string{"true"}})
			return err
		},
		"overwrite": func() error {
			return w.client.WriteFile(ctx, "s", "/workspace/f", strings.NewReader(strings.Repeat("x", 1<<16)), 0o644)
		},
	} {
		var answer *sprites.APIError
		if err := do(); !errors.As(err, &answer) || answer.Status != http.StatusInsufficientStorage {
			t.Errorf("%s on a full disk = %v, want 507", name, err)
		}
		if got := w.state(); got != before {
			t.Errorf("after %s: %s, want %s", name, got, before)
		}
		w.check()
	}
	if status, body := w.post("/v1/sprites/s/checkpoint"); status != http.StatusInsufficientStorage || !strings.Contains(body, `"error":"disk_full"`) {
		t.Errorf("a checkpoint on a full disk is answered with %d, %s", status, body)
	}
	// Commands and their output need no room, neither in the box that runs nor in a new one.
	for _, name := range []string{"s", "ballast"} {
		if out, code := run(name, "head -c 2000000 /dev/zero | wc -c; exit 3"); strings.TrimSpace(out) != "2000000" || code != 3 {
			t.Errorf("a command on a full disk = %q, %d", out, code)
		}
	}

	// Removing is possible, and gives room.
	if err := w.client.Delete(ctx, "ballast"); err != nil {
		t.Errorf("delete a sprite on a full disk: %v", err)
	}
	if out, code := run("s", "rm -r weight many"); code != 0 {
		t.Fatalf("free space: %q, %d", out, code)
	}
	w.host.core.Chores.Wait()
	w.write("two")
	if _, err := w.client.Checkpoint(ctx, "s", ""); err != nil {
		t.Errorf("checkpoint after space was freed: %v", err)
	}
	if err := w.client.Restore(ctx, "s", "v1"); err != nil {
		t.Errorf("restore after space was freed: %v", err)
	}
	if got, want := w.state(), before+" v2"; got != want && got != strings.Replace(want, "v1 v2", "v2 v1", 1) {
		t.Errorf("state = %q, want %q", got, want)
	}
	w.check()
}

// post sends an empty request to the host and returns the answer.
func (w *world) post(path string) (int, string) {
	w.Helper()
	res, err := http.Post(w.server+path, "application/json", nil)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, string(body)
}
