package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/subids"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// rootfsEnv names a root filesystem that images/rootfs/build made.
const rootfsEnv = "LATTICE_ROOTFS"

// TestScript runs testdata/script: what a user sees, one file an area. Every script has its own state directory, and
// must leave no process behind.
func TestScript(t *testing.T) {
	p := scriptParams(t, forge.GitHub)
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// TestScriptOnGitea runs the scripts of loops that begin with codehost start $KIND again, over the server in the manner of Gitea.
func TestScriptOnGitea(t *testing.T) {
	p := scriptParams(t, forge.Gitea)
	all, err := filepath.Glob("testdata/script/forge-*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\ncodehost start $KIND ") {
			p.Files = append(p.Files, file)
		}
	}
	if len(p.Files) < 4 {
		t.Fatalf("only %v run over both kinds of code hosts", p.Files)
	}
	testscript.Run(t, p)
}

// scriptParams returns how scripts are run. The scripts that run over each kind of code host have it as $KIND.
func scriptParams(t *testing.T, kind forge.Kind) testscript.Params {
	tool, claude, codex := toolFolder(t), agentProgram(t, claudeFile), agentProgram(t, codexFile)
	gemini, opencode := nodeProgram(t, geminiFile), agentProgram(t, opencodeFile)
	examples, err := filepath.Abs("../manifests/examples")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../docs")
	if err != nil {
		t.Fatal(err)
	}
	stores, err := filepath.Abs("leader/testdata") // of former versions
	if err != nil {
		t.Fatal(err)
	}
	namespaces := sync.OnceValue(func() bool {
		self, err := os.Executable()
		return err == nil && sandbox.Probe(self, buildDir).Namespaces
	})
	return testscript.Params{
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// Socket addresses are short; so is the state directory.
			home, err := os.MkdirTemp(buildDir, "home-")
			if err != nil {
				return err
			}
			e.Setenv("LATTICE_HOME", home)
			e.Values["codehost"] = &codeHost{}
			e.Setenv("PATH", e.Getenv("PATH")+string(filepath.ListSeparator)+buildDir)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TOOL", tool)
			e.Setenv("CLAUDE", claude)
			e.Setenv("CODEX", codex)
			e.Setenv("GEMINI", gemini)
			e.Setenv("OPENCODE", opencode)
			e.Setenv("ROOTFS", os.Getenv(rootfsEnv))
			e.Setenv("EXAMPLES", examples)
			e.Setenv("DOCS", docs)
			e.Setenv("KIND", string(kind))
			e.Setenv("STORES", stores)
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			for _, role := range []string{"AUTHOR", "COMMITTER"} {
				e.Setenv("GIT_"+role+"_NAME", "Tester")
				e.Setenv("GIT_"+role+"_EMAIL", "tester@localhost")
			}
			over := time.AfterFunc(tooLong, func() { endAll(home) })
			e.Defer(func() {
				over.Reset(afterEnd) // a shell that failed may have left a program in the background, for which testscript waits
				leftovers(t, home, e.Getenv("TMPDIR"))
			})
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "kind:github", "kind:gitea":
				return name == "kind:"+string(kind), nil
			case "mounts":
				return os.Getenv(mountsEnv) != "", nil
			case "root":
				return os.Getuid() == 0, nil
			case "subids":
				return mapsSubIDs(), nil
			case "rootfs":
				return os.Getenv(rootfsEnv) != "", nil
			case "namespaces":
				return namespaces(), nil
			case "gitea":
				return os.Getenv(forgetest.GiteaEnv) != "", nil
			case "postgres":
				return postgrestest.Installed(), nil
			case "claude":
				return claude != "", nil
			case "codex":
				return codex != "", nil
			case "gemini":
				return gemini != "", nil
			case "opencode":
				return opencode != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"repo":     makeRepo,
			"filled":   filled,
			"model":    serveModel,
			"llm":      serveLLM,
			"asked":    asked,
			"tmpfs":    mountDisk,
			"receiver": serveReceiver,
			"codehost": driveCodeHost,
			"tamper":   tamper,
			"pages":    servePages,
			"gitea":    driveGitea,
			"database": makeDatabase,
		},
	}
}

// mapsSubIDs reports whether sprites of this user have sub-ids.
var mapsSubIDs = sync.OnceValue(func() bool {
	ids, err := subids.Find()
	return err == nil && ids.Try() == nil
})

// toolFolder returns testdata/tool where sprites can be shown it. A checkout below /tmp, say, which sprites have for
// themselves, needs a copy elsewhere.
func toolFolder(t *testing.T) string {
	tool, err := filepath.Abs("testdata/tool")
	if err != nil {
		t.Fatal(err)
	}
	if showable(tool) {
		return tool
	}
	if dir := showableFolder(t); dir != "" {
		copied := filepath.Join(dir, "testdata", "tool")
		if err := errors.Join(os.MkdirAll(filepath.Dir(copied), 0o755), os.CopyFS(copied, os.DirFS(tool))); err != nil {
			t.Fatal(err)
		}
		return copied
	}
	t.Fatalf("%s lies where nothing can be shown to sprites from, and so do the other folders that could hold it; check the project out elsewhere", tool)
	return ""
}

// showableFolder makes a folder that sprites can be shown, for the time of the test; "" where there is no place for one.
func showableFolder(t *testing.T) string {
	cache, _ := os.UserCacheDir()
	for _, parent := range []string{cache, "/usr/local", "/opt"} {
		if !filepath.IsAbs(parent) || !showable(parent) || os.MkdirAll(parent, 0o755) != nil {
			continue
		}
		dir, err := os.MkdirTemp(parent, "lattice-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return ""
}

func showable(path string) bool {
	return !slices.ContainsFunc(spec.OwnFolders(), func(own string) bool { return strings.HasPrefix(path+"/", own+"/") })
}

// exits runs a command and checks its exit code: exits 75 lattice run …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = "1"
		if status, ok := strings.CutPrefix(err.Error(), "exit status "); ok {
			code = status
		}
	}
	if code != args[0] {
		ts.Fatalf("exit code %s (%v), want %s", code, err, args[0])
	}
}

// makeRepo makes DIR a git repository on main with one commit of what lies in it: repo DIR [bare CLONE]
func makeRepo(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	for _, line := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, line...)...))
	}
	if len(args) == 3 {
		ts.Check(ts.Exec("git", "clone", "-q", "--bare", dir, ts.MkAbs(args[2])))
	}
}

// filled fails unless the file or directory exists and is not empty.
func filled(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	if (err == nil && info.Size() > 0) == neg {
		ts.Fatalf("%s: %v, %v", args[0], info, err)
	}
}

// tooLong is the time after which a script counts as hung. It is many times what the slowest one takes.
const tooLong = 4 * time.Minute

// afterEnd is the time that is left to the background programs of a script that has ended.
const afterEnd = 30 * time.Second

// endAll ends the processes of a script that hangs, so that it fails by itself and shows what it printed: those whose
// environment names its state directory. A program in Go prints its goroutines first.
//
// A shell that failed is hung, too, while a process that it left behind holds its output open.
func endAll(home string) {
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environs {
			environ, err := os.ReadFile(path)
			if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() && strings.Contains(string(environ), "LATTICE_HOME="+home) {
				_ = syscall.Kill(pid, sig)
			}
		}
		time.Sleep(2 * time.Second)
	}
}

// leftovers fails when a process or mount of this state directory stays, or a temporary file, and removes it. A leader that
// was told to stop answers before its process has ended.
func leftovers(t *testing.T, home, tmp string) {
	var out []byte
	var err error
	for range 300 {
		if out, err = exec.Command("pgrep", "-f", home).CombinedOutput(); err != nil { // none
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err == nil {
		t.Errorf("processes of %s are left: %s", home, out)
		for _, pid := range strings.Fields(string(out)) {
			_ = exec.Command("kill", "-9", pid).Run()
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), home) {
		t.Errorf("mounts of %s are left", home)
	}
	if files, err := os.ReadDir(tmp); err == nil && len(files) > 0 {
		t.Errorf("temporary files are left: %v", files)
	}
	if err := os.RemoveAll(home); err != nil {
		t.Errorf("remove state directory: %v", err)
	}
}
