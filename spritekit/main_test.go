package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skilltest"
)

// TestBinary builds the real binary once, drives it through the contract of skills, and runs the scripts of testdata,
// which read like its manual.
func TestBinary(t *testing.T) {
	bin := t.TempDir()
	for name, pkg := range map[string]string{"spritekit": ".", "spritekit-extra": "./extra"} {
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, name), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	t.Run("contract", func(t *testing.T) { testContract(t, filepath.Join(bin, "spritekit")) })
	t.Run("emitters", func(t *testing.T) { testEmitters(t, filepath.Join(bin, "spritekit")) })
	t.Run("large outbox", func(t *testing.T) { testLargeOutbox(t, filepath.Join(bin, "spritekit")) })
	t.Run("killed", func(t *testing.T) { testKilled(t, filepath.Join(bin, "spritekit")) })
	t.Run("start", func(t *testing.T) { testStart(t, filepath.Join(bin, "spritekit")) })
	t.Run("mcp", func(t *testing.T) { testMCP(t, filepath.Join(bin, "spritekit")) })
	t.Run("mcp left alone", func(t *testing.T) { testMCPGone(t, filepath.Join(bin, "spritekit")) })
	t.Run("mcp in a folder", func(t *testing.T) { testMCPFolder(t, filepath.Join(bin, "spritekit")) })
	t.Run("mcp over http", func(t *testing.T) { testMCPHTTP(t, filepath.Join(bin, "spritekit")) })
	t.Run("scripts", func(t *testing.T) { testScripts(t, bin) })
}

// testScripts gives each script a workspace $WORK/ws, and spritekit on its PATH.
func testScripts(t *testing.T, bin string) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			ws := filepath.Join(e.WorkDir, "ws")
			e.Setenv("PATH", bin+":"+e.Getenv("PATH"))
			e.Setenv("LATTICE_WORKSPACE", ws)
			e.Setenv("LATTICE_SOCKET", "")
			return os.MkdirAll(ws, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "mkfifo": mkfifo, "last": last,
		},
	})
}

// exits CODE INPUT PROGRAM ARGS… runs a program with the file INPUT (or - for none) as stdin and wants this exit code.
// What it printed is in the files out and err.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: exits CODE INPUT PROGRAM ARGS…")
	}
	program := args[2]
	if !strings.Contains(program, "/") {
		// By the script's PATH, not the test's.
		bin, _, _ := strings.Cut(ts.Getenv("PATH"), ":")
		program = filepath.Join(bin, program)
	}
	cmd := exec.Command(ts.MkAbs(program), args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "LATTICE_WORKSPACE", "LATTICE_CALL_ID", "LATTICE_RUN_ID", "LATTICE_INPUT_PATH"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, "LATTICE_SOCKET=")
	if value := ts.Getenv("LATTICE_PERMISSIONS"); value != "" { // "none" stands for the empty list
		cmd.Env = append(cmd.Env, "LATTICE_PERMISSIONS="+strings.TrimPrefix(value, "none"))
	}
	if args[1] != "-" {
		cmd.Stdin = strings.NewReader(ts.ReadFile(args[1]))
	}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		ts.Fatalf("run %s: %v", args[2], err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(stdout.String()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(stderr.String()), 0o644))
	ts.Logf("[stdout]\n%s[stderr]\n%s", stdout.String(), stderr.String())
	if got, want := cmd.ProcessState.ExitCode(), args[0]; want != strconv.Itoa(got) {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// last KEY VALUE wants the last line of out to be a result with this value (as JSON) at the dotted KEY.
func last(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: last KEY VALUE")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("out"), "\n"), "\n")
	var v any
	ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &v))
	for key := range strings.SplitSeq(args[0], ".") {
		m, ok := v.(map[string]any)
		if !ok {
			ts.Fatalf("no object at %s in %s", args[0], lines[len(lines)-1])
		}
		v = m[key]
	}
	raw, err := json.Marshal(v)
	ts.Check(err)
	if (string(raw) == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], raw, args[1])
	}
}

func mkfifo(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ts.Check(syscall.Mkfifo(ts.MkAbs(name), 0o644))
	}
}

// testEmitters: processes that emit at once lose nothing, and agree on an order.
func testEmitters(t *testing.T, exe string) {
	const processes, events = 4, 8
	dir := t.TempDir()
	var group sync.WaitGroup
	for p := range processes {
		group.Go(func() {
			for n := range events {
				cmd := exec.Command(exe, "emit", "INFO", fmt.Sprintf("message=%d.%d", p, n))
				cmd.Env = []string{"LATTICE_WORKSPACE=" + dir}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %v\n%s", cmd.Args, err, out)
				}
			}
		})
	}
	group.Wait()
	data, err := os.ReadFile(filepath.Join(dir, protocol.OutboxFile))
	if err != nil {
		t.Fatal(err)
	}
	last, n := "", 0
	for line := range bytes.Lines(data) {
		e, problems, ok := protocol.Decode(line)
		if !ok || len(problems) > 0 || e.Timestamp <= last {
			t.Errorf("after %s: %s, %v", last, line, problems)
		}
		last, n = e.Timestamp, n+1
	}
	if n != processes*events {
		t.Errorf("%d events, want %d", n, processes*events)
	}
}

// testContract calls skills by links that bear their names, as a sprite does.
func testContract(t *testing.T, exe string) {
	file := func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("x\n"), 0o644) }
	for _, target := range []skilltest.Target{
		{Skill: "fs.read", Input: `{"path":"a"}`, Prepare: file, Reads: true, Permissions: []string{"fs:read"}},
		{Skill: "fs.write", Input: `{"path":"b","content":"x"}`, Permissions: []string{"fs:write"}},
		{Skill: "notify.user", Input: `{"title":"x"}`, Permissions: []string{"user:notify"}},
		{
			Skill: "env.propose", Permissions: []string{"env:propose"}, Input: `{"observed_failure":{"phase":"test","exit_code":1,"stderr_hint":""},
				"suggested_adjustment":{"type":"escalate_to_human","details":{}},"confidence":1,"evidence":[],"scope":"repo_specific"}`,
		},
		{Skill: "github.comment", Input: `{"number":1,"body":"x"}`, Permissions: []string{"github:write"}},
		{
			Skill: "exec.run", Input: `{"argv":["true"]}`, Permissions: []string{"exec"},
			Slow: `{"argv":["sleep","60"]}`,
		},
		{
			Skill: "test.run", Input: `{"command":["true"]}`, Reads: true, Permissions: []string{"test:run"},
			Slow: `{"command":["sleep","60"]}`,
		},
	} {
		t.Run(target.Skill, func(t *testing.T) {
			target.Exe = filepath.Join(t.TempDir(), target.Skill)
			if err := os.Symlink(exe, target.Exe); err != nil {
				t.Fatal(err)
			}
			skilltest.Run(t, target)
		})
	}
}

// A drop-in skill may have a name without a dot, but not one that means something else.
func TestCommandsAreNotSkillNames(t *testing.T) {
	for _, c := range allCommands() {
		if manifests.ValidName(c.name) {
			t.Errorf("%s is a command, and a skill may have its name", c.name)
		}
	}
}
