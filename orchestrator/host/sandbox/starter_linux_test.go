package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// starter gives a Starter that has started a box, and so makes a spare init, and a way to start more.
func starter(t *testing.T) (s *sandbox.Starter, next func(change func(*spec.Config)) *sandbox.Box) {
	t.Helper()
	s = new(sandbox.Starter)
	t.Cleanup(s.Close)
	next = func(change func(*spec.Config)) *sandbox.Box {
		t.Helper()
		cfg, err := config(t.TempDir(), false)
		must(t, err)
		change(&cfg)
		box, err := s.Start(cfg)
		var refusal *spec.Refusal
		if errors.As(err, &refusal) {
			t.Skipf("no namespaces here: %v", err)
		}
		must(t, err)
		t.Cleanup(func() { must(t, box.Stop()) })
		return box
	}
	next(func(*spec.Config) {})
	return s, next
}

func same(*spec.Config) {}

// fromSpare makes a box of the spare init. Not each attempt need succeed: somebody else may change this machine's mounts.
func fromSpare(t *testing.T, s *sandbox.Starter, next func(change func(*spec.Config)) *sandbox.Box, change func(*spec.Config)) *sandbox.Box {
	t.Helper()
	for range 5 {
		spare := s.Spare()
		box := next(change)
		if box.InitPID() == spare {
			return box
		}
		box.Network().Close()
	}
	t.Fatal("no box is made of the spare init")
	return nil
}

func TestSpareBecomesTheNextBox(t *testing.T) {
	s, next := starter(t)
	for _, pids := range []int{500, 30} {
		box := fromSpare(t, s, next, func(c *spec.Config) { c.Limits.Pids = pids })
		out, _ := run(t, box, "hostname; id -u; for i in $(seq 60); do sleep 9 >/dev/null 2>&1 & done; echo started")
		if crowded := strings.Contains(out, "started") && !strings.Contains(out, "annot fork"); crowded != (pids == 500) {
			t.Errorf("with %d processes allowed: %s", pids, out)
		}
		if !strings.HasPrefix(out, "sprite\n1000\n") {
			t.Errorf("hostname and user: %s", out)
		}
	}
}

func TestSpareIsForItsKindOnly(t *testing.T) {
	s, next := starter(t)
	for name, change := range map[string]func(*spec.Config){
		"a network of its own": func(c *spec.Config) { c.Network = true },
		"a defence less":       func(c *spec.Config) { c.Without = []spec.Defence{spec.DefenceLandlock} },
		"a plain box":          func(c *spec.Config) { c.Level = spec.LevelProcess },
	} {
		spare := s.Spare()
		box := next(change)
		if box.InitPID() == spare {
			t.Errorf("%s: it is the spare", name)
		}
		box.Network().Close()
		next(same) // and there is one of the first kind again
	}
}

func TestSpareWithNetwork(t *testing.T) {
	s, next := starter(t)
	own := func(c *spec.Config) { c.Network = true }
	next(own).Network().Close()
	box := fromSpare(t, s, next, own)
	network := box.Network()
	if network == nil {
		t.Fatal("it has no network")
	}
	defer network.Close()
	if !network.Redirected {
		t.Skipf("connections cannot be redirected here: %s", network.Why)
	}
	out, code := run(t, box, "bash -c 'exec 3<>/dev/tcp/93.184.216.34/80'")
	must(t, network.TCP.SetDeadline(time.Now().Add(10*time.Second)))
	c, err := network.TCP.Accept()
	if err != nil {
		t.Fatalf("nothing comes of a connection: %v; the command says %q, %d", err, out, code)
	}
	must(t, c.Close())
}

func TestSpareThatHasEnded(t *testing.T) {
	s, next := starter(t)
	spare := s.Spare()
	if spare == 0 {
		t.Fatal("there is no spare init")
	}
	must(t, unix.Kill(spare, unix.SIGKILL))
	box := next(same)
	if out, code := run(t, box, "echo well"); out != "well" || code != 0 || box.InitPID() == spare {
		t.Errorf("%q, %d, init %d", out, code, box.InitPID())
	}
}

func TestSpareFromBeforeTheMountsChanged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	s, next := starter(t)
	spare := s.Spare()
	dir := t.TempDir()
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=4k"))
	must(t, unix.Unmount(dir, 0))
	if box := next(same); box.InitPID() == spare {
		t.Error("the box was made from it")
	}
}

// Its copies of mounts would keep a disk that was unmounted from being let go.
func TestSpareEndsWhenMountsChange(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	s, _ := starter(t)
	ended := endOf(t, s.Spare())
	dir := t.TempDir()
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=4k"))
	must(t, unix.Unmount(dir, 0))
	if err := ended(); err != nil {
		t.Errorf("the spare goes on: %v", err)
	}
}

// endOf watches a process that need not be a child, and returns what waits for its end.
func endOf(t *testing.T, pid int) (wait func() error) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return func() error {
		const patience = 20_000 // ms
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
			switch {
			case n == 1:
				return nil
			case err == nil:
				return os.ErrDeadlineExceeded
			case !errors.Is(err, unix.EINTR):
				return err
			}
		}
	}
}

func TestCloseEndsTheSpare(t *testing.T) {
	s, next := starter(t)
	spare := s.Spare()
	groups := groupsOf(t)
	s.Close()
	if err := unix.Kill(spare, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the spare lives on: %v", err)
	}
	if left := groupsOf(t); len(left) >= len(groups) && len(groups) > 0 {
		t.Errorf("its control groups are left: %v", left)
	}
	if out, _ := run(t, next(same), "echo well"); out != "well" {
		t.Errorf("a box of a closed starter says %q", out)
	}
}

// groupsOf lists the control groups of this process's boxes.
func groupsOf(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/lattice-*-%d-*", os.Getpid()))
	must(t, err)
	return all
}

// spareArg makes the test binary a host that has a spare init, names it, and is killed.
const spareArg = "__test-spare"

func hostWithSpare(dir string) int {
	cfg, err := config(dir, false)
	var s sandbox.Starter
	if err == nil {
		_, err = s.Start(cfg)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.Spare())
	select {}
}

func TestSpareEndsWithKilledHost(t *testing.T) {
	start(t, false) // skips where there are no namespaces
	self, err := os.Executable()
	must(t, err)
	host := exec.Command(self, spareArg, t.TempDir())
	out, err := host.StdoutPipe()
	must(t, err)
	must(t, host.Start())
	var spare int
	if _, err := fmt.Fscanln(bufio.NewReader(out), &spare); err != nil {
		t.Fatal(err)
	}
	ended := endOf(t, spare)
	must(t, host.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	_ = host.Wait()
	if err := ended(); err != nil {
		t.Errorf("the spare outlives its host: %v", err)
	}
}
