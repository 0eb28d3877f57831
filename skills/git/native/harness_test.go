package native

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/system"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// bench is a repository in a workspace, with git itself as the judge.
type bench struct {
	tester
	root *workspace.Root
	dir  string
}

// requireGit skips a test where the judge is missing.
func requireGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git, the judge of these tests, is not installed")
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	requireGit(t)
	return benchIn(t, t.TempDir())
}

func benchIn(t tester, dir string) *bench {
	t.Helper()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	b := &bench{t, root, filepath.Join(root.Dir(), "repo")}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	b.git("init", "-q", "-b", "main")
	b.git("config", "user.name", "Ada")
	b.git("config", "user.email", "ada@example.com")
	return b
}

func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C", "TZ=UTC",
		"GIT_AUTHOR_DATE=1700000000 +0100", "GIT_COMMITTER_DATE=1700000000 +0100", "GIT_ALLOW_PROTOCOL=file:http",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	}
}

// tryGit runs git in a folder.
func tryGit(dir string, args ...string) (string, error) { return tryGitEnv(dir, nil, args...) }

func tryGitEnv(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(gitEnv(), env...)
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	err := cmd.Run()
	if err != nil {
		return out.String() + diag.String(), err
	}
	return out.String(), nil
}

func (b *bench) git(args ...string) string {
	b.Helper()
	out, err := tryGit(b.dir, args...)
	if err != nil {
		b.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func (b *bench) write(name, content string) {
	b.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.Fatalf("%v", err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		b.Fatalf("%v", err)
	}
}

func (b *bench) location() engine.Location {
	b.Helper()
	gitDir := b.git("rev-parse", "--absolute-git-dir")
	common := b.git("rev-parse", "--path-format=absolute", "--git-common-dir")
	data, err := os.ReadFile(filepath.Join(common, "config"))
	if err != nil {
		b.Fatalf("%v", err)
	}
	if more, err := os.ReadFile(filepath.Join(gitDir, "config.worktree")); err == nil {
		data = append(data, more...)
	}
	config, err := gitconfig.Parse(data)
	if err != nil {
		b.Fatalf("%v", err)
	}
	rel, err := filepath.Rel(b.root.Dir(), b.dir)
	if err != nil {
		b.Fatalf("%v", err)
	}
	return engine.Location{Root: b.root, Name: rel, Dir: b.dir, GitDir: gitDir, CommonDir: common, Config: config}
}

// native opens the repository with the engine under test.
func (b *bench) native() engine.Repo {
	b.Helper()
	r, err := Engine{}.Open(context.Background(), b.location())
	if err != nil {
		b.Fatalf("open: %v", err)
	}
	return r
}

// use calls f with the repository opened, and closes it.
func (b *bench) use(f func(r engine.Repo) error) error {
	b.Helper()
	r := b.native()
	err := f(r)
	if closed := r.Close(); closed != nil {
		b.Errorf("close: %v", closed)
	}
	return err
}

func (b *bench) must(f func(r engine.Repo) error) {
	b.Helper()
	if err := b.use(f); err != nil {
		b.Fatalf("native: %v", err)
	}
}

// system opens the repository with the engine that drives git.
func (b *bench) system() engine.Repo {
	b.Helper()
	s, err := system.Find(context.Background(), new(proc.Reaper), os.Getenv("PATH"))
	if err != nil {
		b.Fatalf("%v", err)
	}
	r, err := s.Open(context.Background(), b.location())
	if err != nil {
		b.Fatalf("%v", err)
	}
	return r
}

// sameStatus compares the engines' word on the state of the work tree.
func (b *bench) sameStatus(spec engine.StatusSpec) engine.Status {
	b.Helper()
	want, err := b.system().Status(context.Background(), spec)
	if err != nil {
		b.Fatalf("system: %v", err)
	}
	var got engine.Status
	b.must(func(r engine.Repo) error { got, err = r.Status(context.Background(), spec); return err })
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("status %+v (-git +native):\n%s", spec, diff)
	}
	return got
}

// sound lets git check the whole repository.
func (b *bench) sound() {
	b.Helper()
	out := b.git("fsck", "--strict", "--no-dangling", "--no-progress")
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "notice:") {
			b.Fatalf("git fsck: %s", out)
		}
	}
}

// commitSpec commits as git does under gitEnv.
func commitSpec(message string) engine.CommitSpec {
	who := engine.Signature{Name: "Ada", Email: "ada@example.com", When: time.Unix(1700000000, 0).In(time.FixedZone("", 3600))}
	return engine.CommitSpec{Message: message, Author: &who, Committer: who}
}
