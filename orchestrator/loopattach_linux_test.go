package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoopAttach: a person opens a shell in the sprite of a loop that is blocked, edits its list by hand, and has it go on.
func TestLoopAttach(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp(buildDir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := latticeIn(t, home, args...)
		cmd.Dir = home
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Fatalf("lattice %s: exit %d, want %d\n%s", strings.Join(args, " "), got, want, out)
		}
		return string(out)
	}
	const agent = `L=/workspace/.lattice/loop
if grep -q '"by hand"' $L/tasks.json; then
	echo '[{"description":"by hand","passes":true}]' >$L/tasks.json
	echo '{"status":"DONE","summary":"as the person wanted"}' >$L/state.json
else
	echo '{"status":"BLOCKED","summary":"","error":"no idea"}' >$L/state.json
fi
`
	repo := filepath.Join(home, "src")
	if out, err := exec.Command("git", "init", "-q", "-b", "main", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{"src/agent.sh": agent, "spec.md": "Do it."} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commit := exec.Command("sh", "-c", "git add -A && git -c user.name=T -c user.email=t@localhost commit -qm first")
	commit.Dir = repo
	if out, err := commit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run(10, "loop", "start", "--repo", repo, "--spec", "spec.md", "--agent-command", "sh agent.sh", "--verify", "true", "--name", "stuck")
	s := open(t, home, "loop", "attach", "stuck")
	s.wait("shell in sprite")
	s.type_("cd /workspace/.lattice/loop; ls; echo list''ed\r")
	s.wait("tasks.json")
	s.wait("listed\r\n")
	s.type_(`echo '[{"description":"by hand"}]' >tasks.json; exit` + "\r")
	if code := s.end(); code != 0 {
		t.Errorf("attach ended with %d", code)
	}
	if out := run(0, "loop", "resume", "stuck"); !strings.Contains(out, "as the person wanted") {
		t.Errorf("resume printed\n%s", out)
	}
	run(0, "loop", "abandon", "stuck")
}
