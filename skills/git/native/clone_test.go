package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/system"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// grow gives a bench commits, branches, tags, modes, symlinks, folders and deltas.
func grow(b *bench) {
	b.Helper()
	long := strings.Repeat("a line that compresses\n", 400)
	b.write("long", long)
	b.write("d/e/f", "deep\n")
	b.write("run", "#!/bin/sh\n")
	os.Chmod(filepath.Join(b.dir, "run"), 0o755)
	os.Symlink("d/e/f", filepath.Join(b.dir, "link"))
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "first")
	b.git("tag", "light")
	b.git("branch", "other")
	for i := range 5 {
		b.write("long", long+strings.Repeat("more\n", i+1))
		b.git("commit", "-q", "-a", "-m", "next")
	}
	b.git("tag", "-a", "v1", "-m", "annotated")
	b.git("gc", "-q")
	b.git("checkout", "-q", "other")
	b.write("o", "o\n")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "on other")
	b.git("checkout", "-q", "main")
}

// serve offers the folder of repositories over HTTP.
func serve(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=ada", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	})
	t.Cleanup(s.Close)
	return s
}

// TestClonesAreGitsOwn clones in all ways with both engines: equal answers, equal refs, index and files.
func TestClonesAreGitsOwn(t *testing.T) {
	b := newBench(t)
	grow(b)
	first := b.git("rev-parse", "light")
	bundle, headOnly := filepath.Join(b.root.Dir(), "all.bundle"), filepath.Join(b.root.Dir(), "head.bundle")
	b.git("bundle", "create", "-q", bundle, "--all")
	b.git("bundle", "create", "-q", headOnly, "HEAD")
	server := serve(t, b.root.Dir())
	http := engine.Source{URL: server.URL + "/repo/.git", Protocol: "http"}
	path := engine.Source{URL: b.dir, Protocol: "file", Local: true}
	file := engine.Source{URL: bundle, Protocol: "file", Local: true, Bundle: true}
	for name, spec := range map[string]engine.CloneSpec{
		"http":                   {From: http},
		"http tags":              {From: http, Tags: true},
		"http branch":            {From: http, Branch: "other"},
		"http commit":            {From: http, Ref: first},
		"http tag":               {From: http, Ref: "v1"},
		"path":                   {From: path},
		"path light tag, branch": {From: path, Ref: "light", Branch: "new"},
		"path branch":            {From: path, Branch: "other"},
		"path, branch by ref":    {From: path, Ref: "other"},
		"bundle":                 {From: file},
		"bundle tags":            {From: file, Tags: true},
		"bundle branch":          {From: file, Branch: "other"},
		"bundle tag":             {From: file, Ref: "v1"},
		"bundle with HEAD alone": {From: engine.Source{URL: headOnly, Protocol: "file", Local: true, Bundle: true}, Branch: "work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec.RemoteURL, spec.Root = "https://example.com/x.git", b.root
			systemEngine, err := system.Find(context.Background(), new(proc.Reaper), os.Getenv("PATH"))
			if err != nil {
				t.Fatal(err)
			}
			var state [2]string
			var done [2]engine.Cloned
			for i, e := range []engine.Engine{systemEngine, Engine{}} {
				spec.Dir = filepath.Join(b.root.Dir(), strings.ReplaceAll(name, " ", "-"), e.Name())
				if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if done[i], err = e.Clone(context.Background(), spec); err != nil {
					t.Fatalf("%s: %v", e.Name(), err)
				}
				done[i].Objects, done[i].Bytes, done[i].Files = 0, 0, 0
				c := &bench{t, b.root, spec.Dir}
				c.sound()
				if out := c.git("status", "--porcelain"); out != "" {
					t.Errorf("%s: the clone is not clean:\n%s", e.Name(), out)
				}
				if log := c.git("log", "-g", "--format=%gs", "HEAD"); !strings.Contains(log, "clone: from ") {
					t.Errorf("%s: HEAD's log is %q", e.Name(), log)
				}
				head, _ := tryGit(spec.Dir, "symbolic-ref", "HEAD")
				state[i] = head + c.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)") + "\n" + c.git("ls-files", "-s") +
					"\n" + c.git("config", "--get-regexp", "^(remote|branch)")
			}
			if diff := cmp.Diff(done[0], done[1]); diff != "" {
				t.Errorf("answers (-system +native):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Split(state[0], "\n"), strings.Split(state[1], "\n")); diff != "" {
				t.Errorf("repositories (-system +native):\n%s", diff)
			}
		})
	}
}

// TestClonesThatAreRefused: what go-git would do in its own way is refused, and the remedy is said.
func TestClonesThatAreRefused(t *testing.T) {
	b := newBench(t)
	grow(b)
	from := engine.Source{URL: b.dir, Protocol: "file", Local: true}
	shallow := filepath.Join(b.root.Dir(), "shallow")
	b.git("clone", "-q", "--depth=1", "file://"+b.dir, shallow)
	for name, spec := range map[string]engine.CloneSpec{
		"depth":                               {From: from, Depth: 1},
		"one branch":                          {From: from, SingleBranch: true},
		"a repository that is shallow":        {From: engine.Source{URL: shallow, Protocol: "file", Local: true}},
		"a partial clone":                     {From: from, Filter: "blob:none"},
		"objects borrowed from another clone": {From: from, Reference: b.dir},
	} {
		spec.Root, spec.RemoteURL, spec.Dir = b.root, "https://example.com/x.git", filepath.Join(t.TempDir(), "to")
		_, err := Engine{}.Clone(context.Background(), spec)
		if e, ok := errors.AsType[*skill.Error](err); !ok || e.Exit != protocol.ExitUnsupported || !strings.Contains(e.Hint, "an image that has git") {
			t.Errorf("%s: clone = %v, want unsupported and the remedy", name, err)
		}
	}
}

// TestClonesOfOddConfigurations: a configuration that does not end, or is none, makes the clone fail at once.
func TestClonesOfOddConfigurations(t *testing.T) {
	for name, plant := range map[string]func(config string) error{
		"a FIFO":                  func(config string) error { return syscall.Mkfifo(config, 0o600) },
		"a device without end":    func(config string) error { return os.Symlink("/dev/zero", config) },
		"a file of another place": func(config string) error { return os.Symlink("/etc/passwd", config) },
		"a huge file": func(config string) error {
			return errors.Join(os.WriteFile(config, nil, 0o600), os.Truncate(config, 1<<40))
		},
		"a folder": func(config string) error { return os.Mkdir(config, 0o700) },
	} {
		b := newBench(t)
		base(b)
		config := filepath.Join(b.dir, ".git/config")
		if err := errors.Join(os.Remove(config), plant(config)); err != nil {
			t.Fatal(err)
		}
		from := engine.Source{URL: b.dir, Protocol: "file", Local: true}
		_, err := Engine{}.Clone(context.Background(), engine.CloneSpec{Root: b.root, From: from, RemoteURL: "x", Dir: filepath.Join(b.root.Dir(), "to")})
		if err == nil || strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: clone = %v", name, err)
		}
	}
}

// TestCloneOfManyRefs: a bundle of many refs does not take quadratic time.
func TestCloneOfManyRefs(t *testing.T) {
	b := newBench(t)
	base(b)
	file, dest := filepath.Join(b.root.Dir(), "many.bundle"), filepath.Join(b.root.Dir(), "clone")
	b.git("bundle", "create", "-q", file, "main")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	header, pack, _ := strings.Cut(string(data), "\n\n")
	id := b.git("rev-parse", "main")
	var refs strings.Builder
	const n = 1 << 18
	for i := range n {
		fmt.Fprintf(&refs, "\n%s refs/heads/branch-%d", id, i)
	}
	if err := os.WriteFile(file, []byte(header+refs.String()+"\n\n"+pack), 0o600); err != nil {
		t.Fatal(err)
	}
	from := engine.Source{URL: file, Protocol: "file", Local: true, Bundle: true}
	if _, err := (Engine{}).Clone(context.Background(), engine.CloneSpec{Root: b.root, From: from, Branch: "main", RemoteURL: file, Dir: dest}); err != nil {
		t.Fatal(err)
	}
	c := &bench{t, b.root, dest}
	if got := strings.Count(c.git("for-each-ref", "--format=%(refname)", "refs/remotes/origin"), "\n") + 1; got != n+1 {
		t.Errorf("the clone has %d remote branches, want %d", got, n+1)
	}
}

// TestCloneOfABrokenBundle: a bundle that is cut off or changed is a failure of the clone, never of this program.
func TestCloneOfABrokenBundle(t *testing.T) {
	b := newBench(t)
	grow(b)
	whole := filepath.Join(b.root.Dir(), "whole.bundle")
	b.git("bundle", "create", "-q", whole, "--all")
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(data, []byte("PACK"))
	broken := map[string][]byte{"in the header": data[:start/2]}
	for _, at := range []int{start, start + 6, start + 12, start + 20, (start + len(data)) / 2, len(data) - 30, len(data) - 1} {
		broken[fmt.Sprintf("cut at %d", at-start)] = data[:at]
		if at >= start+12 {
			changed := slices.Clone(data)
			changed[at] ^= 0xff
			broken[fmt.Sprintf("changed at %d", at-start)] = changed
		}
	}
	n := 0
	for name, content := range broken {
		n++
		file, dest := filepath.Join(b.root.Dir(), "broken.bundle"), filepath.Join(b.root.Dir(), fmt.Sprint("clone", n))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		from := engine.Source{URL: file, Protocol: "file", Local: true, Bundle: true}
		_, err := Engine{}.Clone(context.Background(), engine.CloneSpec{Root: b.root, From: from, RemoteURL: file, Dir: dest})
		if e := exitOf(err); e != protocol.ExitFailed && e != protocol.ExitNotFound {
			t.Errorf("%s: clone = %v (exit %d)", name, err, e)
		}
	}
}
