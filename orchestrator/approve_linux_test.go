package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// On a terminal an approval shows the change, with nothing hidden, and asks; only yes approves.
func TestApproveAsksOnATerminal(t *testing.T) {
	home := newHome(t)
	repo := filepath.Join(t.TempDir(), "repo")
	sh := exec.Command("sh", "-ec", `git init -q -b main "$0" && cd "$0" && echo broken >state && echo 'grep -q fixed state' >check.sh && git add -A &&
		git -c user.name=A -c user.email=a@example.org commit -qm first`, repo)
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	input := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(input, []byte(`{"agent_command": ["sh", "-c", "printf 'fixed\\033[2Jx\\342\\200\\256y\\n' >state"], "test_command": "sh check.sh"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := latticeIn(t, home, "run", "fix-and-propose", "--repo", repo, "--input-file", input).CombinedOutput(); err == nil || !strings.Contains(string(out), "lattice approve") {
		t.Fatalf("%v: %s", err, out)
	}
	pushed := func() string {
		out, err := exec.Command("git", "-C", repo, "for-each-ref", "refs/heads/lattice").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}

	s := open(t, home, "approve")
	s.wait("\x1b[31m-broken\x1b[0m")
	s.wait("\x1b[32m+fixed^[[2Jx<U+202E>y\x1b[0m")
	s.wait("M state +1 -1")
	s.wait("Approve? [y/N] ")
	s.type_("\n")
	s.wait("nothing was decided")
	if code := s.end(); code != 75 || pushed() != "" {
		t.Errorf("an empty answer ended with %d and pushed %q", code, pushed())
	}

	s = open(t, home, "approve")
	s.wait("Approve? [y/N] ")
	s.type_("y\n")
	if code := s.end(); code != 0 || pushed() == "" {
		t.Errorf("yes ended with %d and pushed %q", code, pushed())
	}
}
