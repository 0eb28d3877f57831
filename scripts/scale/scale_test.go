package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	if os.Getenv("SCALE_DEMONSTRATION") != "" { // this binary in the place of the command
		main()
		return
	}
	os.Exit(m.Run())
}

// demonstration returns the command with so many runs, whose files are in dir.
func demonstration(t *testing.T, runs, dir string) *exec.Cmd {
	t.Helper()
	if testing.Short() || !postgrestest.Installed() {
		t.Skip("needs a PostgreSQL server in /usr/lib/postgresql, and takes half a minute")
	}
	if _, err := os.Stat("../../bin/lattice"); err != nil {
		t.Skip("bin/lattice is not built: make build builds it first")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--runs", runs, "--bin", "../../bin")
	cmd.Env = append(os.Environ(), "SCALE_DEMONSTRATION=1", "TMPDIR="+dir)
	return cmd
}

// shortDir returns a new folder with a short path, as sockets need.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "scale")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// leftIn returns the files in dir, and the processes that name it.
func leftIn(t *testing.T, dir string) (left []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		left = append(left, f.Name())
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	for _, p := range processes {
		raw, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(raw), dir+"/lattice-scale-") {
			left = append(left, p)
		}
	}
	return left
}

// The leader is killed while runs are under way. Another node leads within the term of the lease, and each effect is there once.
func TestDemonstration(t *testing.T) {
	dir := shortDir(t)
	cmd := demonstration(t, "10", dir)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"three nodes; node", "5 of 10 runs done", "kill -9 of node", "10 of 10 runs done", "20 effects, each of them once", "a takeover took"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it did not print %q", want)
		}
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// Ctrl-C ends the demonstration, and all that it started.
func TestInterrupt(t *testing.T) {
	dir := shortDir(t)
	cmd := demonstration(t, "10000", dir)
	var out strings.Builder
	cmd.Stderr = &out
	lines, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := lines.Read(make([]byte, 1)); err != nil { // the nodes are there
		t.Fatal(err)
	}
	time.Sleep(time.Second) // some runs begin
	if len(leftIn(t, dir)) < 5 {
		t.Error("the nodes and their folder cannot be seen")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(out.String(), "nothing is left behind") {
		t.Errorf("it ended with %v\n%s", err, out.String())
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// TestJudge checks that missing, repeated and unexpected effects are found.
func TestJudge(t *testing.T) {
	for lines, want := range map[string]string{
		"0 a\n0 b\n1 a\n1 b\n":           "",
		"0 a\n0 b\n1 a\n":                "run 1: effect b happened 0 times",
		"0 a\n0 b\n1 a\n0 a\n1 b\n":      "run 0: effect a happened 2 times",
		"0 a\n0 b\n1 a\n1 b\n7 a\n":      "5 effects instead of 4",
		"0 a\n0 b\n1 a\n1 b\nsomething ": "5 effects instead of 4",
	} {
		_, err := judgeEffects(lines, 2)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("judgeEffects(%q) = %v, want %q", lines, err, want)
		}
	}
}
