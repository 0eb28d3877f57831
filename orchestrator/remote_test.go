package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// remote is a host of sprites behind a middleman, and a repository.
type remote struct {
	man        *Middleman
	home, repo string
}

func newRemote(t *testing.T, files map[string]string) *remote {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: "T", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	home, err := os.MkdirTemp(buildDir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{NewMiddleman(t, host.Handler()), home, t.TempDir()}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.repo, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.git(t, "init", "-q", "-b", "main")
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "-m", "first")
	return r
}

func (r *remote) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.repo, "-c", "user.name=Tester", "-c", "user.email=tester@localhost"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *remote) lattice(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := latticeIn(t, r.home, args...)
	cmd.Env = append(cmd.Env, "SPRITES_API_URL="+r.man.URL, "SPRITES_TOKEN=T", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Tester",
		"GIT_AUTHOR_EMAIL=tester@localhost", "GIT_COMMITTER_NAME=Tester", "GIT_COMMITTER_EMAIL=tester@localhost")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestRunThroughAMiddleman: a run in a remote sprite, whose every third connection is cut in one way or another, ends as
// it would have ended, with each effect once.
func TestRunThroughAMiddleman(t *testing.T) {
	r := newRemote(t, map[string]string{"state": "broken\n", "check.sh": "grep -q fixed state\n"})
	man, home, repo := r.man, r.home, r.repo
	git := func(args ...string) string { return r.git(t, args...) }
	lattice := func(args ...string) (int, string) { return r.lattice(t, args...) }
	every := func(n int, match func(*http.Request) bool) func(*http.Request) bool {
		seen := 0
		return func(r *http.Request) bool {
			if !match(r) {
				return false
			}
			seen++
			return seen%n == 0
		}
	}
	skill := func(r *http.Request) bool { return Exec(r) && strings.HasPrefix(r.URL.Query().Get("path"), "/skills/") }
	attach := func(r *http.Request) bool { return Upgrade(r) && !Exec(r) }
	man.Do(Fault{On: every(3, skill), Times: -1, Down: CutAt("PHASE_FINISHED")})
	man.Do(Fault{On: every(5, skill), Times: -1, Down: func(Frame, func(Frame)) bool { return false }})
	man.Do(Fault{On: every(2, attach), Times: -1, Instead: Answer(502, "text/html", "<html>")})
	man.Do(Fault{On: every(3, On("GET", "")), Times: -1, Instead: Cut})
	man.Do(Fault{On: every(2, On("PUT", "/fs/write")), Times: -1, After: CutAfter(-1)})
	man.Do(Fault{On: every(2, On("POST", "/checkpoint")), Times: -1, After: CutAfter(15)})
	man.Do(Fault{On: every(2, On("POST", "/restore")), Times: -1, After: CutAfter(5)})
	man.Do(Fault{On: On("POST", "/v1/sprites"), After: CutAfter(-1)})

	input := filepath.Join(home, "input.json")
	if err := os.WriteFile(input, []byte(`{"agent_command": ["sh", "-c", "echo fixed >state; echo ran >>runs"], "test_command": "sh check.sh"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out := lattice("run", "fix-and-propose", "--repo", repo, "--input-file", input)
	t.Log(out)
	for range 5 { // what could not be found out stops the drive; the run goes on when it is told to
		if code == 75 {
			break
		}
		code, out = lattice("resume")
		t.Log(out)
	}
	if code != 75 {
		t.Fatalf("the run did not come to its question: exit code %d", code)
	}
	code, out = lattice("approve")
	t.Log(out)
	for range 5 {
		if code == 0 {
			break
		}
		code, out = lattice("resume")
		t.Log(out)
	}
	if code != 0 {
		t.Fatalf("the run did not end well: exit code %d", code)
	}
	branch := git("branch", "--list", "--format=%(refname:short)", "lattice/*")
	if strings.Count(branch, "lattice/run_") != 1 {
		t.Fatalf("branches: %q", branch)
	}
	if got := git("rev-list", "--count", "main.."+branch); got != "1" {
		t.Errorf("%s commits, want 1", got)
	}
	if got := git("show", branch+":runs"); got != "ran" {
		t.Errorf("the agent ran %q", got)
	}
	// The next run in a sprite that has its skills sends none.
	man.Behave()
	pushes := func() int {
		return man.Count(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Query().Get("path"), "/tmp/.spritekit") })
	}
	before := pushes()
	if before == 0 {
		t.Error("no skills were sent")
	}
	flow := filepath.Join(home, "read.json")
	if err := os.WriteFile(flow, []byte(`{"execir_version": "1.0", "id": "read", "entry_node": "r",
		"nodes": [{"id": "r", "op": "TOOL_CALL", "tool": "fs.read", "args": {"path": "repo/state"}}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	sprite := strings.ReplaceAll(strings.TrimPrefix(branch, "lattice/"), "_", "-")
	if code, out := lattice("run", flow, "--sprite", sprite); code != 0 || pushes() != before {
		t.Errorf("second run: exit code %d, %d more pushes: %s", code, pushes()-before, out)
	}
}

// latticeIn makes a lattice command with a state directory of its own.
func latticeIn(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(home, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	lattice := filepath.Join(bin, "lattice")
	if err := os.Symlink(self, lattice); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	cmd := exec.Command(lattice, args...)
	cmd.Args[0] = "lattice"
	cmd.Env = append(os.Environ(), "LATTICE_HOME="+home, "TERM=vt220", "PATH="+os.Getenv("PATH")+":"+buildDir, "SPRITES_API_URL=")
	return cmd
}
