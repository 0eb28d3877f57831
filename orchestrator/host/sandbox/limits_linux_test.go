package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sync/errgroup"
)

// limited starts a box with small limits, and says which of them hold.
func limited(t *testing.T, level spec.Level) (box *sandbox.Box, holds func(spec.Defence) bool) {
	t.Helper()
	cfg, err := config(t.TempDir(), level == spec.LevelProcess)
	must(t, err)
	cfg.Limits = spec.Limits{Pids: 40, MemoryBytes: 96 << 20, CPUs: 0.5, TmpBytes: 4 << 20}
	box = launch(t, cfg)
	return box, func(limit spec.Defence) bool {
		for _, e := range box.Limits().Enforced() {
			if e.Limit == limit {
				if e.By == "" && e.Why == "" || e.By != "" && (e.Why != "" || e.Max == 0) {
					t.Errorf("Enforced tells %+v", e)
				}
				return e.By != ""
			}
		}
		t.Errorf("Enforced does not tell of %s", limit)
		return false
	}
}

func TestLimitsHold(t *testing.T) {
	for _, level := range []spec.Level{"", spec.LevelProcess} {
		t.Run(fmt.Sprintf("level %q", level), func(t *testing.T) {
			box, holds := limited(t, level)
			other, _ := start(t, level == spec.LevelProcess)
			for _, bomb := range []struct {
				limit  spec.Defence
				script string
			}{
				{spec.DefencePids, "i=0; while [ $i -lt 80 ]; do sleep 1000 & i=$((i+1)); done"},
				{spec.DefenceMemory, `perl -e '$x = "x" x 300_000_000; print length $x'`},
				{spec.DefenceTmpSize, "head -c 8000000 /dev/zero >/dev/shm/big"},
			} {
				if !holds(bomb.limit) {
					t.Logf("%s is not limited here", bomb.limit)
					continue
				}
				proc, err := box.Exec(spec.Process{Argv: []string{"/bin/sh", "-c", bomb.script}, Env: box.Config().BaseEnv(), Whole: true})
				must(t, err)
				if code, err := proc.Wait(); code == 0 || err != nil {
					t.Errorf("%s: the bomb goes off: %d, %v", bomb.limit, code, err)
				}
				until(t, func() bool { // what was killed makes room when it is gone
					proc, err := box.Exec(spec.Process{Argv: []string{"/bin/sh", "-c", "/bin/true; /bin/true"}})
					if err != nil {
						return false
					}
					code, err := proc.Wait()
					return code == 0 && err == nil
				})
				for name, b := range map[string]*sandbox.Box{"the same": box, "another": other} {
					if out, code := run(t, b, "echo well"); out != "well" || code != 0 {
						t.Errorf("%s: %s box afterwards: %q, %d", bomb.limit, name, out, code)
					}
				}
			}
		})
	}
}

// groups lists the control groups that a process of this machine has made for boxes.
func groups(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	for depth := range 5 {
		pattern := "/sys/fs/cgroup/" + strings.Repeat("*/", depth) + fmt.Sprintf("lattice-*-%d-*", pid)
		some, err := filepath.Glob(pattern)
		must(t, err)
		found = append(found, some...)
	}
	return found
}

func TestGroupsEndWithTheirBox(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		before := groups(t, os.Getpid())
		if len(before) == 0 {
			t.Skip("this user may not make control groups here")
		}
		background(t, box, nil, "/bin/sh", "-c", "setsid sleep 1000 & echo ready; sleep 1000")
		thaw := hold(t, box) // who stands still ends, too
		must(t, box.Stop())
		must(t, thaw())
		if left := groups(t, os.Getpid()); len(left) != 0 {
			t.Errorf("left of %s: %s", before, left)
		}
	})
}

// awaitZombie waits until a child that was killed has ended.
func awaitZombie(t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		if strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestGroupsOfKilledHostsAreSwept(t *testing.T) {
	start(t, false) // skips where there are no namespaces
	self, err := os.Executable()
	must(t, err)
	for _, mode := range []string{"namespaces", "plain"} {
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		host := exec.Command(self, hostArg, t.TempDir(), mode)
		host.Stdout = w
		must(t, host.Start())
		w.Close()
		if line, err := bufio.NewReader(r).ReadString('\n'); line != "up\n" {
			t.Fatalf("host says %q, %v", line, err)
		}
		made := groups(t, host.Process.Pid)
		must(t, cgroup.Sweep())
		if now := groups(t, host.Process.Pid); !slices.Equal(now, made) {
			t.Errorf("%s: groups of a living host: %s, swept: %s", mode, made, now)
		}
		must(t, host.Process.Kill())
		if mode == "plain" { // the other host stays a zombie, as below a parent that does not wait
			if err := host.Wait(); err == nil || errors.Is(err, os.ErrProcessDone) {
				t.Errorf("%s: the host ends with %v", mode, err)
			}
		} else {
			awaitZombie(t, host.Process.Pid)
			defer func() { _ = host.Wait() }()
		}
		for _, g := range made {
			must(t, os.Mkdir(filepath.Join(g, "inner"), 0o755)) // of a host that ran in the group
		}
		must(t, cgroup.Sweep())
		if left := groups(t, host.Process.Pid); len(left) != 0 {
			t.Errorf("%s: left of %s: %s", mode, made, left)
		}
	}
}

// TestInitOutlivesBomb has commands use up the box's processes, and init do much at a time meanwhile, for which it needs
// threads: the box goes on, and what is started in it then can end the bomb.
func TestInitOutlivesBomb(t *testing.T) {
	cfg, err := config(t.TempDir(), false)
	must(t, err)
	cfg.Limits.Pids = 40
	box := launch(t, cfg)
	if box.Config().Plain() {
		t.Skip("no namespaces here")
	}
	must(t, os.WriteFile(filepath.Join(cfg.Root.Dir, "note"), []byte("well"), 0o644))
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	const fill = `$SIG{CHLD} = "IGNORE"; while (1) { my $p = fork; defined $p or last; $p or do { sleep 1000; exit } } print "full\n"; sleep 1000`
	bomb, err := box.Exec(spec.Process{Argv: []string{"/usr/bin/perl", "-e", "$|=1;" + fill}, Stdout: w, Stderr: w, Whole: true})
	w.Close()
	must(t, err)
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "full\n" {
		t.Fatalf("the bomb says %q, %v", line, err)
	}
	var many errgroup.Group
	for range 40 {
		many.Go(func() error {
			for range 50 {
				file, _, err := box.Files().Open(t.Context(), "/note")
				if err != nil {
					return err
				}
				file.Close()
			}
			return nil
		})
		many.Go(func() error {
			proc, err := box.Exec(spec.Process{Argv: []string{"/bin/true"}})
			if err == nil {
				_, err = proc.Wait()
			}
			return err
		})
	}
	must(t, many.Wait())
	if out, code := run(t, box, "kill -9 -1"); code != 0 {
		t.Errorf("the rescue: %q, %d", out, code)
	}
	if code, err := bomb.Wait(); code != 137 || err != nil {
		t.Errorf("the bomb ends with %d, %v", code, err)
	}
}
