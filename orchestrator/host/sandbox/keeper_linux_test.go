package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// loneRooted starts a box whose root is its one user. Skips where boxes have more users, or none.
func loneRooted(t *testing.T) (*sandbox.Box, spec.Config) {
	t.Helper()
	s := newScene(t, "")
	s.cfg.AsRoot, s.cfg.NoRoot = true, "it has one user; run lattice as root"
	box := launch(t, s.cfg)
	if box.Level() != spec.LevelUser {
		t.Skip("this user has no sprites of one user")
	}
	if why := box.NoRoot(); why != "" {
		t.Fatalf("the box has no root: %s", why)
	}
	return box, s.cfg
}

func TestLoneSudo(t *testing.T) {
	box, cfg := loneRooted(t)
	for script, want := range map[string]string{
		"sudo id -u; sudo id -g; id -u":                                                           "0\n0\n1000",
		"sudo grep -h 'Cap[EPIAB]' /proc/self/status | tr -d '\\t'":                               "CapInh:0000000000000000\nCapPrm:00000000000004fb\nCapEff:00000000000004fb\nCapBnd:00000000000004fb\nCapAmb:0000000000000000",
		"sudo grep -h -e NoNewPrivs -e '^Seccomp:' /proc/self/status | tr -d '\\t'":               "NoNewPrivs:1\nSeccomp:2",
		"grep -h 'Cap[EPIA]' /proc/self/status | tr -d '\\t'":                                     "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapAmb:0000000000000000",
		"cat /proc/self/uid_map | tr -s ' '; sudo cat /proc/self/uid_map | tr -s ' '":             "1000 HOSTID 1\n 0 1000 1",
		"cd /workspace; sudo touch f && sudo chown 0:0 f && sudo stat -c %u:%g f && stat -c %u f": "0:0\n1000",
		"cd /workspace; touch g; sudo chown 33 g; echo $?":                                        "chown: changing ownership of 'g': Invalid argument\n1",
		"cd /workspace; mkdir -m 0 shut; ls shut 2>/dev/null || sudo ls shut && echo entered":     "entered",
		"sudo sh -c 'mkdir -p /etc/mine /root && echo x >/etc/mine/f' && cat /etc/mine/f":         "x",
		"sudo sh -c 'exit 7'; echo $?":                                                            "7",
		"sudo sh -c 'kill -TERM $$'; echo $?":                                                     "143",
		"echo in | sudo cat":                                                                      "in",
		"sudo apt-get install -y hello; echo $?":                                                  "sudo: apt-get needs more users than this sprite has: it has one user; run lattice as root\n1",
		"sudo -u nobody id; echo $?":                                                              "sudo: this sprite has no users besides root and sprite: it has one user; run lattice as root\n1",
		"sudo sh -c 'echo x >/skills/x' 2>&1 | tail -c 22":                                        "Read-only file system",
		"(sleep 1000 & sudo kill -9 $!; wait $!; echo $?) 2>&1 | tail -n 1":                       "137",
		"sudo sudo id -u": "0",
		"unshare -U true 2>&1; sudo unshare -U true 2>&1": "unshare: unshare failed: Operation not permitted\nunshare: unshare failed: Operation not permitted",
		"cat /proc/sys/user/max_user_namespaces":          "0",
	} {
		want = strings.ReplaceAll(want, "HOSTID", strconv.Itoa(os.Getuid()))
		if got, _ := run(t, box, "{ "+script+"; } 2>&1"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	st, err := os.Lstat(filepath.Join(cfg.Root.Dir, "workspace", "f"))
	must(t, err)
	if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != os.Getuid() {
		t.Errorf("on the disk a file of the box's root belongs to %d", uid)
	}
	if !box.Processes().Idle() {
		t.Error("a box in which nothing runs but what keeps root is not idle")
	}
}

// Files as root: what the mode of a file keeps from its owner it does not keep from root. The keeper does these calls, and the host
// takes from it what it takes from init.
func TestLoneRootFiles(t *testing.T) {
	box, _ := loneRooted(t)
	content, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer content.Close()
	_, err = content.WriteString("new")
	must(t, err)
	defer run(t, box, "chmod 700 /workspace/shut") // for the test's cleanup
	ctx, root := t.Context(), box.Files().AsRoot()
	write := func(f sandbox.Files, name string) error {
		_, err := f.Write(ctx, name, content, 3, nil)
		return err
	}
	do := func(f sandbox.Files, op files.Op) error {
		return f.Do(ctx, op, func(files.Entry) error { return nil })
	}
	if out, code := run(t, box, "mkdir -m 0 /workspace/shut; ln -s /proc/1/mem /workspace/mem"); code != 0 {
		t.Fatal(out)
	}
	if err := write(box.Files(), "/workspace/shut/f"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("as the sprite's user: %v", err)
	}
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			if err := write(root, "/workspace/shut/f"+strconv.Itoa(i)); err != nil {
				t.Errorf("as root: %v", err)
			}
		})
	}
	calls.Wait()
	f, size, err := root.Open(ctx, "/workspace/shut/f1")
	must(t, err)
	f.Close()
	if size != 3 {
		t.Errorf("the file has %d bytes", size)
	}
	if _, _, err := root.Open(ctx, "/workspace/shut/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what is not there: %v", err)
	}
	for name, attempt := range map[string]func() error{
		"write a skill":                 func() error { return write(root, "/skills/attacker") },
		"write the memory of init":      func() error { return write(root, "/workspace/mem") },
		"write a setting of the kernel": func() error { return write(root, "/proc/sys/kernel/hostname") },
		"write a program of the host":   func() error { return write(root, "/usr/bin/env") },
		"write init's program":          func() error { return write(root, "/.sprite/sbin/init") },
		"give a file to another user": func() error {
			return do(root, files.Op{Kind: files.Chown, Path: []byte("/workspace/shut/f1"), User: "5"})
		},
		"change the mode of init's program": func() error {
			return do(root, files.Op{Kind: files.Chmod, Path: []byte("/proc/self/exe"), Mode: 0o777})
		},
	} {
		if attempt() == nil {
			t.Errorf("%s: succeeds", name)
		}
	}
}

// A program of the sprite may end the keeper of root. The sprite has lost root then, says so, and goes on; all else that it starts counts
// as a process of the sprite.
func TestKeeperEnds(t *testing.T) {
	box, _ := loneRooted(t)
	if out, _ := run(t, box, "keeper=$(grep -lz '^keep$' /proc/[0-9]*/cmdline | cut -d/ -f3); kill -9 $keeper; until ! kill -0 $keeper 2>/dev/null; do :; done; sudo id -u; echo $?"); out != "sudo: a program of this sprite ended the process that keeps root; restart the sprite to have root again\n1" {
		t.Errorf("sudo says %q", out)
	}
	if _, _, err := box.Files().AsRoot().Open(t.Context(), "/etc/passwd"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("open as root: %v, want EPERM", err)
	}
	if !box.Processes().Idle() {
		t.Error("a box without processes is not idle")
	}
	if _, code := run(t, box, "sleep 1000 >/dev/null 2>&1 &"); code != 0 || box.Processes().Idle() {
		t.Error("a box in which a command has left a process is idle")
	}
}

// Commands of root stand still in a frozen box, and keep it from being idle.
func TestLoneRootFreezes(t *testing.T) {
	box, _ := loneRooted(t)
	if _, code := run(t, box, "mkfifo /workspace/go && (sudo sh -c 'read x </workspace/go; echo done >/workspace/done' >/dev/null 2>&1 &)"); code != 0 {
		t.Fatal("start a command of root")
	}
	if box.Processes().Idle() {
		t.Error("a box in which a command of root runs is idle")
	}
	thaw, err := box.Freeze(t.Context())
	must(t, err)
	must(t, thaw())
	if out, _ := run(t, box, "echo x >/workspace/go; until test -s /workspace/done; do :; done; cat /workspace/done; sudo id -u"); out != "done\n0" {
		t.Errorf("after the thaw: %q", out)
	}
}
