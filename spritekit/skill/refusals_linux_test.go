package skill_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// refusing tells the process inside its own namespaces which test to be.
const refusing = "LATTICE_TEST_REFUSING"

// TestTheFileSystemRefuses: what the kernel forbids has a code of its own, and a hint. Nothing is forbidden to root, so
// that the calls are made in a user namespace: as an ordinary user, and on a file system that is mounted read-only.
func TestTheFileSystemRefuses(t *testing.T) {
	if os.Getenv(refusing) != "" {
		t.Skip("this is the process inside")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		inner int // user id inside
		flags uintptr
	}{{"AsAnOrdinaryUser", 1000, 0}, {"ReadOnly", 0, syscall.CLONE_NEWNS}} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^TestRefused"+tc.name+"$", "-test.v")
			cmd.Env = append(os.Environ(), refusing+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | tc.flags,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: tc.inner, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: tc.inner, HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
				t.Skipf("this machine lets nobody make a user namespace: %v", err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(string(out), "--- SKIP") {
				t.Skipf("%s", out)
			}
		})
	}
}

func inside(t *testing.T) {
	t.Helper()
	if os.Getenv(refusing) == "" {
		t.Skip("runs inside TestTheFileSystemRefuses")
	}
}

func TestRefusedAsAnOrdinaryUser(t *testing.T) {
	inside(t)
	journal := protocol.CallsDir + "/c1.jsonl"
	for _, tc := range []struct {
		name  string
		plant map[string]string
		close string      // which is closed
		mode  os.FileMode // how
	}{
		{"an outbox that nobody reads", map[string]string{protocol.OutboxFile: ""}, protocol.OutboxFile, 0o200},
		{"an outbox that nobody writes", map[string]string{protocol.OutboxFile: ""}, protocol.OutboxFile, 0o400},
		{"a folder for the outbox that nobody writes", map[string]string{protocol.Dir + "/x": ""}, protocol.Dir, 0o555},
		{"a folder that nobody enters", map[string]string{protocol.Dir + "/x": ""}, protocol.Dir, 0o600},
		{"a workspace that nobody writes", nil, ".", 0o555},
		{"a journal that nobody reads", map[string]string{journal: ""}, journal, 0o200},
		{"a folder of journals that nobody writes", map[string]string{protocol.CallsDir + "/x": ""}, protocol.CallsDir, 0o555},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, runs := newBench(t), 0
			for name, content := range tc.plant {
				b.write(name, content)
			}
			closed := filepath.Join(b.dir, tc.close)
			if err := os.Chmod(closed, tc.mode); err != nil {
				t.Fatal(err)
			}
			o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&runs))
			if err := os.Chmod(closed, 0o755); err != nil {
				t.Fatal(err)
			}
			e := o.result.Error
			if o.exit != protocol.ExitFailed || e == nil || e.Code != "access_denied" || !strings.Contains(e.Hint, "owner") || e.Retryable || runs != 0 {
				t.Errorf("exit %d, %+v, ran %d times", o.exit, e, runs)
			}
			if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&runs)); o.exit != 0 || runs != 1 {
				t.Errorf("once it may: exit %d, ran %d times, %+v", o.exit, runs, o.result.Error)
			}
		})
	}
}

func TestRefusedReadOnly(t *testing.T) {
	inside(t)
	b, runs := newBench(t), 0
	b.call(manifests.ClassSprite, `{"path":"a"}`, count(&runs))
	before := b.files()
	err := syscall.Mount(b.dir, b.dir, "", syscall.MS_BIND, "")
	if err == nil {
		err = syscall.Mount("", b.dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("this machine mounts nothing read-only in a namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(b.dir, syscall.MNT_DETACH)
	o := b.call(manifests.ClassSprite, `{"path":"b"}`, count(&runs))
	if e := o.result.Error; o.exit != protocol.ExitFailed || e == nil || e.Code != "read_only" || !strings.Contains(e.Hint, "LATTICE_WORKSPACE") || runs != 1 {
		t.Errorf("exit %d, %+v, ran %d times", o.exit, o.result.Error, runs)
	}
	if after := b.files(); len(after) != len(before) {
		t.Errorf("files %v, were %v", after, before)
	}
}
