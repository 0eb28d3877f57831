package git_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/git"
	"github.com/spritekit/lattice/skills/git/native"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// TestMain lets this binary stand in for spritekit: called by the name of a skill it is that skill.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if _, ok := manifests.Lookup(name); ok {
		os.Exit(serve(context.Background(), name, skill.ParseEnv(os.Environ()), skill.IO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	goleak.VerifyTestMain(m)
}

// serve runs one skill of the family through the real runtime.
func serve(ctx context.Context, name string, env skill.Env, streams skill.IO) int {
	all := git.Skills(new(proc.Reaper), native.Engine{})
	i := slices.IndexFunc(all, func(k skill.Skill) bool { return k.Name == name })
	m, ok := manifests.Lookup(name)
	if i < 0 || !ok {
		return -1
	}
	return skill.Serve(ctx, all[i], m, env, streams)
}

// bench is a workspace in which git skills are called, and the real git beside them.
type bench struct {
	t   testing.TB
	dir string
	env skill.Env
	// engine is put into every call; "" leaves it to the skill.
	engine string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return benchIn(t, dir)
}

func benchIn(t testing.TB, dir string) *bench {
	env := skill.ParseEnv([]string{"LATTICE_WORKSPACE=" + dir, "LATTICE_SPRITE_ID=s1", "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"})
	env.Socket = ""
	return &bench{t: t, dir: dir, env: env}
}

// outcome is what a caller of a skill sees.
type outcome struct {
	exit   int
	result protocol.Result
	stdout string
	stderr string
}

// code is the error's, "" on success.
func (o outcome) code() string {
	if o.result.Error == nil {
		return ""
	}
	return o.result.Error.Code
}

func (o outcome) data(t testing.TB) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(o.result.Data, &data); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	return data
}

// input is a call's, as an object.
type input map[string]any

func (b *bench) call(name string, in input) outcome {
	b.t.Helper()
	full := input{}
	for k, v := range in {
		full[k] = v
	}
	if _, ok := full["engine"]; !ok && b.engine != "" {
		full["engine"] = b.engine
	}
	raw, err := json.Marshal(full)
	if err != nil {
		b.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	exit := serve(b.t.Context(), name, b.env, skill.IO{Stdin: bytes.NewReader(raw), Stdout: &stdout, Stderr: &stderr})
	o := outcome{exit: exit, stdout: stdout.String(), stderr: stderr.String()}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &o.result); err != nil {
		b.t.Fatalf("%s: the last line is no result: %v\n%s\n%s", name, err, o.stdout, o.stderr)
	}
	return o
}

// must is call that has to succeed, with the data decoded.
func (b *bench) must(name string, in input) map[string]any {
	b.t.Helper()
	o := b.call(name, in)
	if o.exit != 0 || !o.result.OK {
		b.t.Fatalf("%s %v = exit %d, %s", name, in, o.exit, o.stdout)
	}
	return o.data(b.t)
}

// fails is call that has to fail with this exit and code.
func (b *bench) fails(name string, in input, exit int, code string) *protocol.Fault {
	b.t.Helper()
	o := b.call(name, in)
	if o.exit != exit || o.code() != code {
		b.t.Fatalf("%s %v = exit %d, %s, want exit %d, code %s", name, in, o.exit, o.stdout, exit, code)
	}
	return o.result.Error
}

// write writes a file of the workspace, folders included.
func (b *bench) write(name, content string) {
	b.t.Helper()
	full := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// ok ends the test when a helper's step failed.
func (b *bench) ok(errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// rawGit is the real git in a folder, as a person would run it, at a fixed time.
func rawGit(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "TZ=UTC",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=" + fixedDate,
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=" + fixedDate,
		"GIT_ALLOW_PROTOCOL=file",
	}
	return cmd
}

// fixedDate is when everything is committed.
const fixedDate = "2026-01-31T12:00:00Z"

// git runs the real git in a folder of the workspace; it has to succeed.
func (b *bench) git(dir string, args ...string) string {
	b.t.Helper()
	cmd := rawGit(filepath.Join(b.dir, dir), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// repo makes a repository with one commit on main.
func (b *bench) repo() (head string) {
	b.t.Helper()
	b.write("repo/README.md", "hello\n")
	b.git("repo", "init", "-q", "-b", "main")
	b.git("repo", "add", "-A")
	b.git("repo", "commit", "-q", "-m", "first")
	return b.git("repo", "rev-parse", "HEAD")
}

// commitAll commits everything by the real git and returns the id.
func (b *bench) commitAll(message string) string {
	b.t.Helper()
	b.git("repo", "add", "-A")
	b.git("repo", "commit", "-q", "-m", message)
	return b.git("repo", "rev-parse", "HEAD")
}

// at follows a path of members and indexes in decoded JSON.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			v = v.(map[string]any)[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				t.Fatalf("no element %d in %v", key, v)
			}
			v = list[key]
		}
	}
	return v
}
