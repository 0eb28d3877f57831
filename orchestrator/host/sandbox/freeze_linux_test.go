package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// background starts a script whose first line of output says that it is at work, and returns what it writes afterwards.
func background(t *testing.T, box *sandbox.Box, stdin *os.File, argv ...string) (*sandbox.Proc, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	proc, err := box.Exec(spec.Process{Argv: argv, Env: box.Config().BaseEnv(), Stdin: stdin, Stdout: w, Stderr: w})
	w.Close()
	must(t, err)
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q says %q, %v", argv, line, err)
	}
	return proc, lines
}

func hold(t *testing.T, box *sandbox.Box) (thaw func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	thaw, err := box.Freeze(ctx)
	must(t, err)
	return thaw
}

func TestFreezeHoldsAllProcesses(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		// A tree, a daemon that left its session, and two that wake whom they can.
		const count = `while :; do echo x >>"$F"; done`
		script := fmt.Sprintf("for i in 1 2; do (F=$PWD/child; %s) & done; F=$PWD/daemon setsid sh -c '%s' & echo ready; F=$PWD/parent; %s", count, count, count)
		proc, _ := background(t, box, nil, "/bin/sh", "-c", script)
		if !box.Config().Plain() { // elsewhere kill -1 means the machine
			for range 2 {
				background(t, box, nil, "/bin/sh", "-c", "echo ready; while :; do kill -CONT -1 2>/dev/null; done")
			}
		}
		sizes := func() (all [3]int64) {
			for i, name := range []string{"child", "daemon", "parent"} {
				if info, err := os.Stat(filepath.Join(cfg.Root.Dir, "workspace", name)); err == nil {
					all[i] = info.Size()
				}
			}
			return all
		}
		grown := func(from [3]int64) bool {
			to := sizes()
			return to[0] > from[0] && to[1] > from[1] && to[2] > from[2]
		}
		until(t, func() bool { return grown([3]int64{}) })
		for range 3 {
			thaw := hold(t, box)
			again := hold(t, box)
			held := sizes()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := box.ExecContext(ctx, spec.Process{Argv: []string{"/bin/true"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("a command in a box that is held: %v", err)
			}
			must(t, again())
			must(t, again())
			busy(t)
			if now := sizes(); now != held {
				t.Errorf("while held, the files grew from %v to %v", held, now)
			}
			must(t, thaw())
			until(t, func() bool { return grown(held) })
		}
		thaw := hold(t, box)
		must(t, box.Stop()) // ends those that are held, too
		if code, err := proc.Wait(); !errors.Is(err, spec.ErrDied) {
			t.Errorf("Wait = %d, %v", code, err)
		}
		if err := thaw(); err != nil {
			t.Errorf("thaw after the end = %v", err)
		}
		if _, err := box.Freeze(t.Context()); err == nil {
			t.Error("a box that has ended is frozen")
		}
	})
}

// until waits for what the machine will do when it comes to it.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing moves")
		}
	}
}

// busy gives whoever could run the time to do so.
func busy(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		_, err := os.ReadDir("/proc")
		must(t, err)
	}
}

func TestThawLeavesStoppedWhatWasStopped(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		proc, lines := background(t, box, nil, "/bin/sh", "-c", "echo ready; kill -STOP $$; echo on; read x; exit 3")
		stopped := func() bool {
			out, _ := run(t, box, fmt.Sprintf("cut -d' ' -f3 /proc/%d/stat", proc.PID))
			return out == "T"
		}
		until(t, stopped)
		must(t, hold(t, box)())
		if !stopped() {
			t.Error("a process that had stopped itself goes on")
		}
		must(t, proc.Signal("CONT"))
		if line, err := lines.ReadString('\n'); line != "on\n" {
			t.Errorf("continued by its user it says %q, %v", line, err)
		}
	})
}

// A shell whose child is held must not take it for stopped by job control.
func TestFreezeGoesUnnoticed(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		in, w, err := os.Pipe()
		must(t, err)
		defer w.Close()
		proc, _ := background(t, box, in, "/bin/bash", "-c", "set -m; echo ready; cat >got; cat got >copy")
		in.Close()
		for range 5 {
			must(t, hold(t, box)())
			_, err = io.WriteString(w, "part ")
			must(t, err)
		}
		w.Close()
		if code, err := proc.Wait(); code != 0 || err != nil {
			t.Errorf("Wait = %d, %v", code, err)
		}
		if got, err := os.ReadFile(filepath.Join(cfg.Root.Dir, "workspace", "copy")); string(got) != strings.Repeat("part ", 5) {
			t.Errorf("it copied %q, %v", got, err)
		}
	})
}

// A program can have the kernel wake it, here when something is written to its standard input. Then thaw says so.
func TestThawTellsWhatWentOn(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		if len(groups(t, os.Getpid())) > 0 {
			t.Skip("control groups hold processes here, which nothing wakes")
		}
		in, w, err := os.Pipe()
		must(t, err)
		defer w.Close()
		const setSignal, setOwner, setFlags, async, signal = 10, 8, 4, 0o20000, 18 // F_SETSIG, F_SETOWN, F_SETFL, O_ASYNC, SIGCONT
		script := fmt.Sprintf(`$| = 1; fcntl(STDIN, %d, %d) && fcntl(STDIN, %d, int $$) && fcntl(STDIN, %d, %d) or die $!; $SIG{CONT} = sub { print "woken\n" }; print "ready\n"; sleep 1 while 1`,
			setSignal, signal, setOwner, setFlags, async)
		_, lines := background(t, box, in, "perl", "-e", script)
		in.Close()
		must(t, hold(t, box)())
		if line, err := lines.ReadString('\n'); line != "woken\n" {
			t.Fatalf("let go it says %q, %v", line, err)
		}
		thaw := hold(t, box)
		_, err = io.WriteString(w, "now")
		must(t, err)
		if line, err := lines.ReadString('\n'); line != "woken\n" {
			t.Fatalf("it says %q, %v", line, err)
		}
		if err := thaw(); err == nil {
			t.Error("a process has run, and thaw says nothing")
		}
		must(t, hold(t, box)())
	})
}
