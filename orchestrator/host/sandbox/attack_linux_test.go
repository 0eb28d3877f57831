package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

func TestProbe(t *testing.T) {
	box, _ := start(t, false)
	self, _ := os.Executable()
	dir := t.TempDir()
	if r := sandbox.Probe(self, dir); !r.Namespaces || r.Step != "" || r.Level != box.Level() {
		t.Errorf("Probe = %+v although a box starts", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("Probe leaves %v", left)
	}
	r := sandbox.Probe(filepath.Join(dir, "missing"), dir)
	if r.Level != spec.LevelProcess || r.Namespaces || r.Cause == "" || r.Remedy == "" {
		t.Errorf("Probe of a missing init = %+v, want cause and remedy", r)
	}
}

// Run as root, the tests run once more as an ordinary user, for whom another way of mapping ids is used.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("we are one")
	}
	dir, err := os.MkdirTemp("", "sandbox-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	const nobody = 65534
	must(t, os.Chown(dir, nobody, nobody))
	self, err := os.Executable()
	must(t, err)
	program, err := os.ReadFile(self)
	must(t, err)
	binary := filepath.Join(dir, "sandbox.test")
	must(t, os.WriteFile(binary, program, 0o755))
	cmd := exec.Command(binary, "-test.timeout=20m")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

func TestIdentity(t *testing.T) {
	box, _ := start(t, false)
	for script, want := range map[string]string{
		"id -u; id -g; id -un": "1000\n1000\nsprite",
		"hostname":             "sprite",
		"grep -E 'Cap|NoNewPrivs' /proc/self/status": "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1",
	} {
		if out, _ := run(t, box, script); out != want {
			t.Errorf("%s = %q, want %q", script, out, want)
		}
	}
	// What runs is never root of the host.
	if uid, _ := box.Config().Owner(); uid == 0 {
		t.Error("the box runs as the host's root")
	}
}

// Attackers: each script is an attempt that must fail.
func TestAttempts(t *testing.T) {
	box, cfg := start(t, false)
	dir := filepath.Dir(cfg.Root.Dir)
	for name, script := range map[string]string{
		"write a skill":              "echo x >/skills/evil",
		"remove a skill":             "rm -f /skills/hello",
		"remount the skills":         "mount -o remount,rw /skills",
		"bind over the skills":       "mount --bind /tmp /skills",
		"unmount the skills":         "umount /skills || umount -l /skills",
		"mount a tmpfs":              "mount -t tmpfs x /tmp",
		"write the system":           "touch /usr/evil",
		"write /etc":                 "echo x >>/etc/passwd",
		"write /dev":                 "touch /dev/evil",
		"make a device":              "mknod /tmp/null c 1 3",
		"new user namespace":         "unshare -U true",
		"new mount namespace":        "unshare -m true",
		"change root":                "chroot /tmp /bin/true",
		"become root":                "setpriv --reuid 0 true",
		"set the host name":          "hostname evil",
		"see the state folder":       "ls " + dir,
		"read a host file":           "cat " + filepath.Join(dir, "secret"),
		"read a host file via root":  "cat /proc/1/root" + filepath.Join(dir, "secret"),
		"see root's home":            "ls /root | grep .",
		"see users":                  "ls -A /home | grep -v '^sprite$'",
		"see /sys":                   "ls /sys",
		"see the host's run folder":  "ls -A /run | grep -v '^mount$'", // mount(8) makes it
		"read init's memory":         "head -c1 /proc/1/mem",
		"read init's environment":    "cat /proc/1/environ",
		"list init's files":          "ls /proc/1/fd | grep .",
		"open init's executable":     "cat /proc/1/exe >/dev/null",
		"read shadow":                "cat /etc/shadow",
		"trigger sysrq":              "echo h >/proc/sysrq-trigger",
		"set a core pattern":         "echo x >/proc/sys/kernel/core_pattern",
		"signal the host's process":  fmt.Sprintf("kill -0 %d", os.Getpid()+1_000_000),
		"allow user namespaces back": "echo 100 >/proc/sys/user/max_user_namespaces",
	} {
		if out, code := run(t, box, "("+script+") 2>&1"); code == 0 {
			t.Errorf("%s succeeds: %s", name, out)
		}
	}
	if box.Level() == spec.LevelRoot { // elsewhere the sprite's user is the only one, and owns its root
		for _, script := range []string{"echo x >>/etc/evil", "mv /home /evil"} {
			if out, code := run(t, box, "("+script+") 2>&1"); code == 0 {
				t.Errorf("%s succeeds: %s", script, out)
			}
		}
	}
	out, _ := run(t, box, "echo x >/skills/evil")
	if !strings.Contains(out, "Read-only file system") {
		t.Errorf("writing a skill says %q, want a read-only file system", out)
	}
	if _, err := os.Stat(filepath.Join(cfg.Skills, "hello")); err != nil {
		t.Errorf("the skill: %v", err)
	}
}

func TestHostMountsAreUntouched(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	box, _ := start(t, false)
	run(t, box, "true")
	after, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Count(string(before), "\n") != strings.Count(string(after), "\n") {
		t.Errorf("the host's mounts changed:\n%s", after)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		// The inner process is orphaned, ends, and is waited for by looking whether its number is free again.
		out, code := run(t, box, `pid=$(sh -c 'setsid sh -c "exit 3" >/dev/null & echo $!')
			n=0; while kill -0 $pid 2>/dev/null && [ $n -lt 1000 ]; do n=$((n+1)); sleep 0.01; done
			kill -0 $pid 2>/dev/null && echo zombie; true`)
		if code != 0 || out != "" {
			t.Errorf("got %q, %d", out, code)
		}
	})
}

// findInit gives the process id of the box's init, as the host sees it.
func findInit(t *testing.T) int {
	t.Helper()
	all := inits(t)
	if len(all) == 0 {
		t.Fatal("no init among our children")
	}
	return all[0]
}

// inits are those children of ours that are called so.
func inits(t *testing.T) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/self/task/*/children")
	must(t, err)
	for _, file := range found {
		b, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(b)) {
			args, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if pid, err := strconv.Atoi(field); err == nil && strings.HasPrefix(string(args), "sprite-init") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestKilledInitIsNoticed(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		proc, err := box.Exec(spec.Process{Argv: []string{"sh", "-c", "sleep 1000; true"}, Env: box.Config().BaseEnv(), Stdout: w})
		w.Close()
		must(t, err)
		must(t, unix.Kill(findInit(t), unix.SIGKILL))
		<-box.Done()
		if _, err := proc.Wait(); !errors.Is(err, spec.ErrDied) {
			t.Errorf("Wait = %v, want ErrDied", err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("the command still writes")
		}
		if err := proc.Signal("TERM"); !errors.Is(err, spec.ErrDied) {
			t.Errorf("Signal = %v, want ErrDied", err)
		}
	})
}
