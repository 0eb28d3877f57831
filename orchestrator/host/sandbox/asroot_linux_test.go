package sandbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/subids"
)

// rooted starts a box with a root and all users: of root, or of a user with sub-ids. Skips where it cannot have them.
func rooted(t *testing.T) (*sandbox.Box, spec.Config) {
	t.Helper()
	s := newScene(t, "")
	s.cfg.AsRoot = true
	s.giveSubIDs(t)
	box := launch(t, s.cfg)
	if _, code := run(t, box, "test -S /run/sudo.sock"); code != 0 {
		t.Skip("needs CGO_ENABLED=0: the test is linked with C libraries, which change capabilities of one thread only")
	}
	return box, s.cfg
}

// giveSubIDs has a box of an ordinary user have all users. Skips where it cannot.
func (s *scene) giveSubIDs(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	ids, err := subids.Find()
	if err != nil {
		t.Skip(err)
	}
	if err := trySubIDs(ids); err != nil {
		t.Skipf("this system lets nobody map sub-ids: %v", err)
	}
	s.cfg.SubIDs = ids
}

// trySubIDs is Range.Try, done once.
func trySubIDs(ids subids.Range) error {
	triedSubIDs.Do(func() { subIDsFailed = ids.Try() })
	return subIDsFailed
}

var (
	triedSubIDs  sync.Once
	subIDsFailed error
)

// firstID is user 0 of a box on the disk.
func firstID(cfg spec.Config) int {
	if cfg.SubIDs.Valid() {
		return cfg.SubIDs.UID
	}
	owner, _ := spec.Owner()
	return owner - spec.InsideID
}

func TestSudo(t *testing.T) {
	box, cfg := rooted(t)
	for script, want := range map[string]string{
		"sudo id -u; sudo -u nobody id -u; sudo -u '#7' id -u; id -u":                                         "0\n65534\n7\n1000",
		"sudo grep CapEff /proc/self/status | tr -d '\\t'":                                                    "CapEff:00000000000004fb",
		"sudo grep CapBnd /proc/self/status | tr -d '\\t'":                                                    "CapBnd:00000000000004fb",
		"sudo grep NoNewPrivs /proc/self/status | tr -d '\\t'":                                                "NoNewPrivs:1",
		"grep -h 'Cap[EPIA]' /proc/self/status | tr -d '\\t'":                                                 "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapAmb:0000000000000000",
		"cd /workspace; touch f; sudo chown 5:6 f; stat -c %u:%g f; sudo chmod 600 f; cat f 2>&1; echo $?":    "5:6\ncat: f: Permission denied\n1",
		"sudo sh -c 'exit 7'; echo $?":                                                                        "7",
		"sudo sh -c 'kill -TERM $$'; echo $?":                                                                 "143",
		"echo in | sudo cat":                                                                                  "in",
		"sudo no-such-program; echo $?":                                                                       "sudo: start no-such-program: command not found in PATH\n127",
		"cd /tmp; A=1 sudo B=2 sh -c 'echo $A $B $HOME $SUDO_USER; pwd'":                                      "1 2 /root sprite\n/tmp",
		"sudo mkdir -p /etc/mine /root/x && sudo touch /etc/mine/f && ls /etc/mine && stat -c %u /etc/mine/f": "f\n0",
		"sudo sh -c 'echo x >/skills/x' 2>&1 | tail -c 22":                                                    "Read-only file system",
		"(sleep 1000 & sudo kill -9 $!; wait $!; echo $?) 2>&1 | tail -n 1":                                   "137", // some shells say Killed first
	} {
		if got, _ := run(t, box, "{ "+script+"; } 2>&1"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	st, err := os.Lstat(filepath.Join(cfg.Root.Dir, "workspace", "f"))
	must(t, err)
	if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != firstID(cfg)+5 {
		t.Errorf("on the disk a file of user 5 belongs to %d", uid)
	}
}

// A command of root ends with the sudo that asked for it, and passes for a process of the box in all else.
func TestSudoEnds(t *testing.T) {
	box, _ := rooted(t)
	proc, err := box.Exec(spec.Process{Env: box.Config().BaseEnv(), Argv: []string{"sh", "-c", "sudo sleep 1000 & sleep 0.3; kill -9 $!; exec sleep 1000"}})
	must(t, err)
	until(t, func() bool {
		out, _ := run(t, box, "cat /proc/[0-9]*/status | grep -c '^Name:.sleep'")
		return strings.TrimSpace(out) == "1"
	})
	if box.Processes().Idle() {
		t.Error("a box in which commands run is idle")
	}
	must(t, proc.Signal("KILL"))
	began := time.Now()
	if out, _ := run(t, box, "sudo timeout -s INT 0.2 sleep 1000; echo $?"); out != "124" || time.Since(began) > 10*time.Second {
		t.Errorf("timeout below sudo: %q after %v", out, time.Since(began))
	}
}

// Root of a box can do no more to the host, the kernel and init than its user: where it has all users, and where it is one alone.
func TestAttacksAsRoot(t *testing.T) {
	t.Run("all users", func(t *testing.T) {
		rooted(t)
		attackAsRoot(t, (*scene).giveSubIDs)
	})
	t.Run("one user", func(t *testing.T) {
		loneRooted(t)
		attackAsRoot(t, func(*scene, *testing.T) {})
	})
}

// attackAsRoot plays the attacks as root of boxes that arrange has made different. Those for which nothing is to be prepared share
// a box.
func attackAsRoot(t *testing.T, arrange func(*scene, *testing.T)) {
	start := func(t *testing.T, a attack) *scene {
		s := newScene(t, "")
		s.cfg.AsRoot, s.cfg.Network, s.args = true, a.network, slices.Clone(a.args)
		arrange(s, t)
		if a.prepare != nil {
			a.prepare(t, s)
		}
		s.box = launch(t, s.cfg)
		t.Cleanup(func() { s.stop(t) })
		return s
	}
	common := start(t, attack{})
	for _, a := range attacks() {
		if a.name == "list init's descriptors" { // root may: it learns their numbers, and nothing else
			continue
		}
		if a.plain || a.tty || a.limits != (spec.Limits{}) || a.name == "run a setuid program of an image's" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			s := common
			if s.args = slices.Clone(a.args); a.prepare != nil || a.network {
				s = start(t, a)
			}
			if a.actor != "" {
				a.script = "exec sudo /skills/attacker " + attackArg + " " + a.actor + ` "$@"`
				a.actor = ""
			} else {
				a.script = "exec sudo sh -c '" + strings.ReplaceAll(a.script, "'", `'\''`) + `' sh "$@"`
			}
			s.play(t, a)
			if a.won(t, s) {
				t.Errorf("succeeds as root of the box: %s", s.out)
			}
		})
	}
}

// Files as the box's root: it may change what is the box's, whoever owns it there, and nothing of the host's, of the kernel's
// or of init. The thread that it takes ends, and init is as harmless as before.
func TestFilesAsRoot(t *testing.T) {
	box, cfg := rooted(t)
	content, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer content.Close()
	_, err = content.WriteString("new")
	must(t, err)
	ctx, root := t.Context(), box.Files().AsRoot()
	write := func(f sandbox.Files, name string) error {
		_, err := f.Write(ctx, name, content, 3, nil)
		return err
	}
	do := func(f sandbox.Files, op files.Op) error {
		return f.Do(ctx, op, func(files.Entry) error { return nil })
	}
	if out, code := run(t, box, "sudo mkdir -m 700 /etc/mine; ln -s /proc/1/mem /workspace/mem; ln -s /proc/1/oom_score_adj /workspace/oom"); code != 0 {
		t.Fatal(out)
	}
	if err := write(box.Files(), "/etc/mine/f"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("as the sprite's user: %v", err)
	}
	for range 40 { // more than init has threads: one of them is its first
		must(t, write(root, "/etc/mine/f"))
	}
	must(t, do(root, files.Op{Kind: files.Chown, Path: []byte("/etc/mine/f"), User: "5", Group: "6"}))
	f, size, err := root.Open(ctx, "/etc/mine/f")
	must(t, err)
	f.Close()
	if out, _ := run(t, box, "sudo stat -c '%u %g %a %s' /etc/mine/f"); out != "5 6 644 3" || size != 3 {
		t.Errorf("the file is %q, %d bytes", out, size)
	}
	for name, attempt := range map[string]func() error{
		"write a skill":                 func() error { return write(root, "/skills/attacker") },
		"write the memory of init":      func() error { return write(root, "/workspace/mem") },
		"write a setting of init":       func() error { return write(root, "/workspace/oom") },
		"write a setting of the kernel": func() error { return write(root, "/proc/sys/kernel/hostname") },
		"write a program of the host":   func() error { return write(root, "/usr/bin/env") },
		"write init's program":          func() error { return write(root, "/.sprite/sbin/init") },
		"change the mode of init's program": func() error {
			return do(root, files.Op{Kind: files.Chmod, Path: []byte("/proc/self/exe"), Mode: 0o777})
		},
		"change the owner of the host's program": func() error {
			return do(root, files.Op{Kind: files.Chown, Path: []byte("/.sprite/sbin/init"), User: "1000"})
		},
		"remove the box's socket": func() error { return do(root, files.Op{Kind: files.Remove, Path: []byte("/.sprite/api.sock")}) },
		"read init's memory": func() error {
			f, _, err := root.Open(ctx, "/proc/1/mem")
			if err == nil {
				f.Close()
			}
			return err
		},
	} {
		if attempt() == nil {
			t.Errorf("%s: succeeds", name)
		}
	}
	// No thread of init has kept anything: what the host's root sees of it.
	status, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", box.InitPID()))
	must(t, err)
	if len(status) == 0 {
		t.Fatal("init has no threads")
	}
	for _, path := range status {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if !strings.Contains(string(text), "CapEff:\t0000000000000000") || strings.Contains(string(text), fmt.Sprintf("Uid:\t%d\t", firstID(cfg))) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if out, code := run(t, box, "cat /proc/1/environ"); code == 0 {
		t.Errorf("init no longer hides: %q", out)
	}
}

// A box without a root does no file call as root.
func TestFilesAsRootRefused(t *testing.T) {
	box, _ := start(t, false)
	if _, _, err := box.Files().AsRoot().Open(t.Context(), "/etc/passwd"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("open as root: %v, want EPERM", err)
	}
}
