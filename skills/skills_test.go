package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/agent/schema"
	"github.com/spritekit/lattice/skills/git/native"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// TestMain lets this binary stand in for spritekit: called by the name of a skill it is that skill.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if manifest, ok := manifests.Lookup(name); ok {
		all := All()
		i := slices.IndexFunc(all, func(k skill.Skill) bool { return k.Name == name })
		code := skill.Serve(context.Background(), all[i], manifest, skill.ParseEnv(os.Environ()), skill.IO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
		if file := os.Getenv(peakEnv); file != "" {
			status, _ := os.ReadFile("/proc/self/status")
			if err := os.WriteFile(file, status, 0o600); err != nil {
				panic(err)
			}
		}
		os.Exit(code)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(buildDir())
		os.Exit(code)
	}))
}

func TestEverySkillHasItsManifest(t *testing.T) {
	var names, want []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	for _, m := range manifests.Skills() {
		want = append(want, m.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("All() = %v, want the skills of the manifests, %v", names, want)
	}
}

// sprite is a workspace in which skills are called through the real runtime.
type sprite struct {
	t   *testing.T
	dir string
	env skill.Env
	all []skill.Skill
	tee io.Writer // sees stdout as it is written; may be nil
}

func newSprite(t *testing.T) *sprite {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := skill.ParseEnv([]string{
		"LATTICE_WORKSPACE=" + dir, "LATTICE_SPRITE_ID=s1", "LATTICE_WORK_ITEM_ID=w1", "LATTICE_RUN_ID=r1",
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCACHE=" + goCache(t), "GOFLAGS=-mod=mod", "GOPROXY=off", "SECRET=s3cr3t", "ALLOWED=yes",
	})
	env.Socket = ""
	return &sprite{t: t, dir: dir, env: env, all: (&Set{Match: matchHere, Git: native.Engine{}}).All()}
}

// on is s for a sub-test.
func (s *sprite) on(t *testing.T) *sprite {
	sub := *s
	sub.t = t
	return &sub
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// outcome is what a caller of a skill sees.
type outcome struct {
	exit   int
	result protocol.Result
	events []protocol.Event
	stdout string
}

func (s *sprite) call(name, input string) outcome {
	s.t.Helper()
	return s.callCtx(s.t.Context(), name, input)
}

func (s *sprite) callCtx(ctx context.Context, name, input string) outcome {
	s.t.Helper()
	i := slices.IndexFunc(s.all, func(k skill.Skill) bool { return k.Name == name })
	m, ok := manifests.Lookup(name)
	if i < 0 || !ok {
		s.t.Fatalf("no skill %s", name)
	}
	var stdout bytes.Buffer
	shown := io.Writer(&stdout)
	if s.tee != nil {
		shown = io.MultiWriter(&stdout, s.tee)
	}
	exit := skill.Serve(ctx, s.all[i], m, s.env, skill.IO{Stdin: strings.NewReader(input), Stdout: shown, Stderr: s.t.Output()})
	o := outcome{exit: exit, stdout: stdout.String()}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	for _, line := range lines {
		if body, ok := strings.CutPrefix(line, protocol.Prefix); ok {
			e, problems, ok := protocol.Decode([]byte(body))
			if !ok || len(problems) > 0 {
				s.t.Errorf("%s emitted a bad event %s: %v", name, body, problems)
			}
			o.events = append(o.events, e)
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &o.result); err != nil {
		s.t.Fatalf("%s: the last line is no result: %v\n%s", name, err, o.stdout)
	}
	return o
}

// must is call that has to succeed, with the data decoded.
func (s *sprite) must(name, input string) map[string]any {
	s.t.Helper()
	o := s.call(name, input)
	if o.exit != 0 || !o.result.OK {
		s.t.Fatalf("%s %s = exit %d, %s", name, input, o.exit, o.stdout)
	}
	return o.data(s.t)
}

func (o outcome) data(t *testing.T) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(o.result.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// fails is call that has to fail with this exit and code.
func (s *sprite) fails(name, input string, exit int, code string) *protocol.Fault {
	s.t.Helper()
	o := s.call(name, input)
	if o.result.Error == nil {
		s.t.Fatalf("%s %s = exit %d, %s, want code %s", name, input, o.exit, o.stdout, code)
	}
	if o.exit != exit || o.result.Error.Code != code {
		s.t.Errorf("%s %s = exit %d, %s, want exit %d, code %s", name, input, o.exit, o.stdout, exit, code)
	}
	return o.result.Error
}

func (s *sprite) write(name, content string) {
	s.t.Helper()
	full := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sprite) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// git runs the real git in a folder of the workspace, as a person would.
func (s *sprite) git(dir string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(s.dir, dir)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// origin makes a repository with one commit on main, and its bundle as the orchestrator seeds it.
func (s *sprite) origin() (head string) {
	s.t.Helper()
	s.write("origin/README.md", "hello\n")
	s.git("origin", "init", "-q", "-b", "main")
	s.git("origin", "add", "-A")
	s.git("origin", "commit", "-q", "-m", "first")
	s.write(protocol.SeedFile, "")
	s.git("origin", "bundle", "create", filepath.Join(s.dir, protocol.SeedFile), "HEAD", "main")
	return s.git("origin", "rev-parse", "HEAD")
}

func quote(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// matchHere makes comparisons without a second file.
func matchHere(_ context.Context, c answer.Comparison) (v answer.Verdict, err error) {
	v.NoSchema, v.Mismatch = schema.Match(c.Schema, c.Value)
	return v, nil
}
