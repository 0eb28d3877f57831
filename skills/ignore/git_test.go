package ignore

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rounds of random trees; each costs a few calls of git.
const rounds = 20

// TestLikeGit compares the whole with git on random trees with random pattern files: path by path with check-ignore,
// and as a walk with what ls-files and status show.
func TestLikeGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git to compare with: %v", err)
	}
	seed := rand.Uint64()
	r := &random{rand.New(rand.NewPCG(seed, 1))}
	for range rounds {
		dir := t.TempDir()
		run(t, dir, "", "init", "-q")
		files, folders := r.tree(t, dir)
		tree := NewTree(New(file(dir, ".git/info/exclude")), func(name string) []byte { return file(dir, name) })

		ignored := map[string]bool{}
		for name := range strings.SplitSeq(run(t, dir, strings.Join(slices.Concat(files, folders), "\x00"), "check-ignore", "-z", "--no-index", "--stdin"), "\x00") {
			ignored[name] = true
		}
		var kept, lost []string
		for i, name := range slices.Concat(files, folders) {
			got := tree.Ignored(name, i >= len(files))
			if got != ignored[name] {
				t.Errorf("Ignored(%q) = %t, git says %t", name, got, ignored[name])
			}
			if i < len(files) && !got {
				kept = append(kept, name)
			} else if i < len(files) {
				lost = append(lost, name)
			}
		}
		compare(t, "ls-files", kept, strings.Split(run(t, dir, "", "ls-files", "-oz", "--exclude-standard"), "\x00"))
		var status []string
		for line := range strings.SplitSeq(run(t, dir, "", "status", "--porcelain", "-z", "-uall", "--ignored"), "\x00") {
			if name, ok := strings.CutPrefix(line, "!! "); ok && !strings.HasSuffix(name, "/") {
				status = append(status, name)
			}
		}
		for _, name := range status {
			if !slices.Contains(lost, name) {
				t.Errorf("git status calls %q ignored", name)
			}
		}
		if t.Failed() {
			for _, name := range append(files, ".git/info/exclude") {
				if path.Base(name) == File || path.Base(name) == "exclude" {
					t.Logf("%s: %q", name, file(dir, name))
				}
			}
			t.Fatalf("seed %d", seed)
		}
	}
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, %s says %q", got, what, want)
	}
}

func file(dir, name string) []byte {
	data, _ := os.ReadFile(filepath.Join(dir, name)) // most folders have none
	return data
}

func run(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || args[0] != "check-ignore" || exit.ExitCode() != 1) {
		t.Fatalf("git %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// random makes names and patterns of so few letters that they often match.
type random struct{ *rand.Rand }

func (r *random) of(all ...string) string { return all[r.IntN(len(all))] }

func (r *random) name() string {
	name := ""
	for range 1 + r.IntN(3) {
		name += r.of("a", "b", "c", "a", "b", ".o", "[", "\\", "-", "]", "A", "1", "ä", " ", "!")
	}
	if name == ".git" {
		return "a"
	}
	return name
}

func (r *random) element() string {
	switch r.IntN(6) {
	case 0:
		return "**"
	case 1:
		return "*"
	case 2:
		return r.name()
	}
	text := ""
	for range 1 + r.IntN(4) {
		text += r.of("a", "b", "c", ".o", "*", "**", "***", "?", "[ab]", "[!a]", "[^-b]", "[a-c]", "[]]", "[a-]", "[[:alpha:]]", "[[:punct:]b]", "[[:x:]]",
			"[[:a]", "[a", "[\\]]", "[+--]", "[a/b]", "\\", "\\a", "\\*", "\\[", "\\/", " ", "\\ ", "ä", "A", "1", "!", "-", "]")
	}
	return text
}

func (r *random) pattern() string {
	text := r.of("", "", "", "", "/", "!", "!", "!/", "#", "\\#", "\\!", "**/")
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			text += r.of("/", "/", "/", "//")
		}
		text += r.element()
	}
	return text + r.of("", "", "", "/", "/", "/**", " ", "  ", "\\ ", "\t")
}

func (r *random) patterns() []byte {
	text := r.of("", "", "\uFEFF")
	for range r.IntN(8) {
		text += r.pattern() + r.of("\n", "\n", "\n", "\r\n", "\n\n", "\r\r\n")
	}
	return []byte(text + r.of("", r.pattern(), r.pattern()+"\r"))
}

// tree makes a tree of files below dir and returns its names, sorted by kind.
func (r *random) tree(t *testing.T, dir string) (files, folders []string) {
	t.Helper()
	write := func(name string, data []byte) bool {
		err := os.WriteFile(filepath.Join(dir, name), data, 0o644)
		return err == nil
	}
	var fill func(at string, depth int)
	fill = func(at string, depth int) {
		for range 2 + r.IntN(5) {
			name := path.Join(at, r.name())
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if depth > 0 && r.IntN(2) == 0 {
				if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
				folders = append(folders, name)
				fill(name, depth-1)
			} else if write(name, nil) {
				files = append(files, name)
			}
		}
		if name := path.Join(at, File); r.IntN(2) == 0 && write(name, r.patterns()) {
			files = append(files, name)
		}
	}
	fill("", 3)
	if err := os.MkdirAll(filepath.Join(dir, ".git/info"), 0o755); err != nil || !write(".git/info/exclude", r.patterns()) {
		t.Fatalf("write .git/info/exclude: %v", err)
	}
	return files, folders
}
