package worktree

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// world is a place with a user, their configuration and a Git that works for them.
type world struct {
	t   *testing.T
	dir string
	env []string
	git *Git
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}}
	w.write("home/.gitconfig", "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[commit]\n\tgpgSign = false\n")
	g, err := New(Options{Env: w.env, Scratch: filepath.Join(dir, "scratch")})
	if err != nil {
		t.Fatal(err)
	}
	w.git = g
	t.Cleanup(func() {
		left, err := os.ReadDir(filepath.Join(dir, "scratch", "tmp"))
		if err != nil || len(left) > 0 {
			t.Errorf("scratch repositories left behind: %v %v", left, err)
		}
	})
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// in runs git as the user in a directory and returns what it prints.
func (w *world) in(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.try(dir, args...)
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (w *world) try(dir string, args ...string) (string, error) {
	out, err := w.command(dir, args...).CombinedOutput()
	return string(out), err
}

func (w *world) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.path(dir), w.env
	return cmd
}

// commitTree writes a file, commits it and returns the commit.
func (w *world) commitTree(dir, file, content string) string {
	w.t.Helper()
	w.write(filepath.Join(dir, file), content)
	w.in(dir, "add", "-A")
	w.in(dir, "commit", "-q", "-m", "change "+file)
	return w.in(dir, "rev-parse", "HEAD")
}

// repository makes a working tree with one commit on main.
func (w *world) repository(dir string) (head string) {
	w.t.Helper()
	w.in(".", "init", "-q", dir)
	return w.commitTree(dir, "a.txt", "one\n")
}

// sprite clones a seeded bundle as a sprite would, commits on branch, and returns base, head and its bundle.
func (w *world) sprite(spec, branch string) (base, head, bundle string) {
	w.t.Helper()
	s, err := w.git.Seed(w.t.Context(), spec, SeedOptions{}, w.path("seed.bundle"))
	if err != nil {
		w.t.Fatal(err)
	}
	dir := "sprite-" + strings.ReplaceAll(branch, "/", "-")
	w.in(".", "clone", "-q", s.Bundle, dir)
	w.in(dir, "checkout", "-q", "-b", branch)
	head = w.commitTree(dir, "fix.txt", "fixed by "+branch+"\n")
	bundle = w.path(dir + ".bundle")
	w.in(dir, "bundle", "create", "-q", bundle, s.Head+".."+branch)
	return s.Head, head, bundle
}

// wantCode asserts a refusal.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var r *lattice.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got error %v, want refusal %q", err, code)
	}
	if r.Fault.Code != code {
		t.Fatalf("got refusal %q (%s), want %q", r.Fault.Code, r.Fault.Message, code)
	}
}
