package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/program"
)

// buildDir holds the real spritekit of this tree, and checkrun.
var buildDir string

// TestMain makes this test binary stand for lattice (with a log that can kill). It is the init of sandboxes as lattice is.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "lattice" {
		dir, err := os.MkdirTemp("", "lattice-test-")
		if err != nil {
			panic(err)
		}
		buildDir = dir
		for name, p := range map[string]string{"spritekit": "../spritekit", "spritekit-extra": "../spritekit/extra", "checkrun": "../scripts/checkrun"} {
			cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), p)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", p, err, out)
				os.Exit(1)
			}
		}
	}
	testscript.Main(cleaned{m}, map[string]func(){"lattice": latticeMain})
}

// cleaned removes what TestMain built when the tests are over.
type cleaned struct{ m *testing.M }

func (c cleaned) Run() int {
	defer os.RemoveAll(buildDir)
	code := c.m.Run()
	if err := postgrestest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// latticeMain is lattice's main with a log that kills after the n-th durable write, and with the version of another
// build ("VERSION API OLDEST"), when the environment says so.
func latticeMain() {
	if file := os.Getenv(clockEnv); file != "" {
		if err := shiftClock(file); err != nil {
			panic(err)
		}
	}
	env := program.NewEnv()
	ctx, stop := program.UntilSignal(env)
	if as := os.Getenv("LATTICE_AS"); as != "" {
		if _, err := fmt.Sscan(as, &env.Version, &env.API, &env.Oldest); err != nil {
			panic(err)
		}
	}
	if file := os.Getenv("KILL_COUNTER"); file != "" {
		at, err := strconv.Atoi(os.Getenv("KILL_AT"))
		if err != nil {
			panic(err)
		}
		victim := os.Getenv("KILL_VICTIM")
		env.WrapLog = func(log driver.Log) driver.Log { return &killer{Log: log, file: file, at: at, victim: victim} }
		if victim == "audit" { // the leader, after a write of the audit log
			env.WrapLog = nil
			env.Recorded = (&killer{file: file, at: at, victim: "leader"}).written
		}
	}
	if within, err := time.ParseDuration(os.Getenv("END_WITHIN")); err == nil {
		env.Deadline.Within = within
	}
	code := program.Execute(ctx, env, os.Args[1:])
	stop()
	os.Exit(code)
}

// killer counts durable writes over all processes of a run, in a file, and kills its victim after one of them.
type killer struct {
	driver.Log
	file   string
	at     int
	victim string // leader | init | audit | none: the write does not come back
}

func (k *killer) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	seq, err := k.Log.Append(ctx, run, after, entries)
	if err == nil {
		k.written()
	}
	return seq, err
}

// written counts a durable write, and kills after the one that was asked for.
func (k *killer) written() {
	if k.count() != k.at {
		return
	}
	switch k.victim {
	case "leader":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // die here, with the write done and nothing after it
	case "init":
		killInits(os.Getpid())
	case "none":
		select {}
	}
}

func (k *killer) count() int {
	f, err := os.OpenFile(k.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte{'.'}); err != nil {
		panic(err)
	}
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	return int(info.Size())
}

// killInits kills every sandbox init below parent and returns how many there were.
func killInits(parent int) (killed int) {
	for _, pid := range descendants(parent) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(cmdline), "\x00"+spec.InitArg) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	return killed
}

// descendants lists the processes below pid, deepest last.
func descendants(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		data, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
