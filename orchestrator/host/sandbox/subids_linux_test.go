package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"golang.org/x/sys/unix"
)

// withSubIDs starts a box of an ordinary user that has all users. Skips where that cannot be.
func withSubIDs(t *testing.T, change func(*spec.Config)) (*sandbox.Box, spec.Config) {
	t.Helper()
	s := newScene(t, "")
	if s.cfg.AsRoot = true; os.Getuid() == 0 {
		t.Skip("only an ordinary user has sub-ids")
	}
	s.giveSubIDs(t)
	change(&s.cfg)
	return launch(t, s.cfg), s.cfg
}

// The sprite's own user is the user who runs the host, and the box's other users are sub-ids: none is root of the host, or anyone
// else.
func TestSubIDs(t *testing.T) {
	box, cfg := withSubIDs(t, func(*spec.Config) {})
	first, own := cfg.SubIDs.UID, os.Getuid()
	for script, want := range map[string]string{
		"cat /proc/self/uid_map | tr -s ' '":                                        fmt.Sprintf("0 %d 1000\n 1000 %d 1\n 1001 %d 64535", first, own, first+1001),
		"id -G; sudo id -G":                                                         "1000\n0",
		"unshare -U true 2>&1; sudo unshare -U true 2>&1":                           "unshare: unshare failed: Operation not permitted\nunshare: unshare failed: Operation not permitted",
		"sudo sh -c 'cp /skills/attacker suid; chmod 4755 suid'; stat -c %u%a suid": "04755",
		"touch mine && stat -c %u mine":                                             "1000",
	} {
		if got, _ := run(t, box, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if out, code := run(t, box, "./suid "+attackArg+" is-root"); code == attackSucceeded {
		t.Errorf("a setuid program of the box's root makes its user root: %s", out)
	}
	var suid, mine unix.Stat_t
	must(t, unix.Lstat(filepath.Join(cfg.Root.Dir, "workspace", "suid"), &suid))
	must(t, unix.Lstat(filepath.Join(cfg.Root.Dir, "workspace", "mine"), &mine))
	if int(suid.Uid) != first || int(suid.Gid) != cfg.SubIDs.GID || int(mine.Uid) != own {
		t.Errorf("on the disk the files belong to %d:%d and %d", suid.Uid, suid.Gid, mine.Uid)
	}
	if !box.Processes().Idle() {
		t.Error("a box in which nothing runs is not idle")
	}
}

// Where a box of several users has no control group, its pid namespace bounds their processes together.
func TestSubIDsFewPids(t *testing.T) {
	box, _ := withSubIDs(t, func(c *spec.Config) { c.Limits.Pids = 60 })
	for _, e := range box.Limits().Enforced() {
		if e.Limit == spec.DefencePids && e.By != "pidns" {
			t.Skipf("control groups hold processes here, or the kernel lacks the means: %q, %s", e.By, e.Why)
		}
	}
	// Each user may have 124; three may not have all of theirs.
	out, code := run(t, box, `for user in 7 8 9 10 11; do
		sudo -u "#$user" sh -c 'i=0; while test $i -lt 110; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo $i' 2>/dev/null
	done; ls -d /proc/[0-9]* | wc -l`)
	fields := strings.Fields(out)
	if len(fields) == 0 {
		return // not even ls could start
	}
	var all int
	fmt.Sscan(fields[len(fields)-1], &all)
	if all > 60+spec.SpareThreads+300 {
		t.Errorf("%d processes run (%d): %s", all, code, out)
	}
}

// What root of a sprite has shut away is of use to no program outside, and is removed all the same.
func TestSubIDsRemoved(t *testing.T) {
	box, cfg := withSubIDs(t, func(*spec.Config) {})
	if out, code := run(t, box, "sudo sh -ec 'mkdir -p /workspace/a/b; echo x >/workspace/a/b/f; chown -R 7:7 /workspace/a; chmod 700 /workspace/a; mkdir /var/cache/sprite/c; chmod 700 /var/cache/sprite/c; echo x >/var/cache/sprite/c/f'"); code != 0 {
		t.Fatal(out)
	}
	must(t, box.Stop())
	if out, err := exec.Command("rm", "-rf", filepath.Join(cfg.Root.Dir, "workspace", "a")).CombinedOutput(); err == nil {
		t.Errorf("the user can remove it: %s", out)
	}
	for _, dir := range []string{cfg.Root.Dir, cfg.Cache} {
		must(t, tree.Remove(dir))
		if err := syscall.Access(dir, 0); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}
