package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// shown is all that lies in a tree but the runtime's own: name=content, sorted.
func shown(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		switch {
		case err != nil:
			return err
		case rel == ".lattice":
			return fs.SkipDir
		case d.IsDir():
			all = append(all, rel+"/")
		case d.Type().IsRegular():
			data, err := os.ReadFile(name)
			all = append(all, rel+"="+string(data))
			return err
		default:
			all = append(all, rel+"?")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestReplaceTogether(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*workspace.Root, string) {
		dir := t.TempDir()
		err := errors.Join(
			os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o755), os.WriteFile(filepath.Join(dir, "b"), []byte("2"), 0o644),
			os.MkdirAll(filepath.Join(dir, "full/x"), 0o755), os.Symlink("a", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		)
		if err != nil {
			t.Fatal(err)
		}
		r, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r, dir
	}
	const before = "/ a=1 b=2 full/ full/x/ link? pipe?"
	write := func(name, data string) workspace.Change { return workspace.Change{Name: name, Data: []byte(data)} }
	remove := func(name string) workspace.Change { return workspace.Change{Name: name, Remove: true} }
	for _, tc := range []struct {
		name    string
		changes []workspace.Change
		want    string // "" when nothing may change
	}{
		{"all", []workspace.Change{write("a", "x"), remove("b"), write("new/deep/c", "y")}, "/ a=x full/ full/x/ link? new/ new/deep/ new/deep/c=y pipe?"},
		{"a rename", []workspace.Change{remove("a"), write("z", "1")}, "/ b=2 full/ full/x/ link? pipe? z=1"},
		{"the last is a folder", []workspace.Change{write("a", "x"), remove("b"), write("new/deep/c", "y"), write("full", "z")}, ""},
		{"a removed one is a folder", []workspace.Change{write("a", "x"), write("new/c", "y"), remove("full")}, ""},
		{"a FIFO", []workspace.Change{write("new/c", "y"), write("pipe", "x")}, ""},
		{"a removed FIFO", []workspace.Change{write("new/c", "y"), remove("pipe")}, ""},
		{"a symlink", []workspace.Change{write("a", "x"), write("link", "x")}, ""},
		{"a file in the way", []workspace.Change{write("new/c", "y"), write("a/b", "x")}, ""},
		{"a name that is too long", []workspace.Change{remove("a"), write(strings.Repeat("x", 300), "x")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, dir := start(t)
			err := r.ReplaceTogether(tc.changes)
			want := tc.want
			if want == "" {
				want = before
			}
			if (err == nil) != (tc.want != "") || shown(t, dir) != want {
				t.Errorf("ReplaceTogether = %v, and left %s, want %s", err, shown(t, dir), want)
			}
			if info, err := os.Stat(filepath.Join(dir, "a")); err == nil && info.Mode().Perm() != 0o755 {
				t.Errorf("the mode is %v", info.Mode())
			}
			if left, err := os.ReadDir(filepath.Join(dir, workspace.TempDir)); err == nil && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestReal(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	for link, target := range map[string]string{"l": "repo", "l2": "l/sub", "out": "/etc", "gone": "nowhere", "round": "round"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "repo/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		".": ".", "repo": "repo", "l/a": "repo/a", "l2/x/y": "repo/sub/x/y", "new/x": "new/x", "l": "repo", dir + "/l": "repo",
		"out": "", "out/x": "", "gone": "", "gone/x": "", "round": "", "..": "",
	} {
		if got, err := r.Real(name); got != want || (err != nil) != (want == "") {
			t.Errorf("Real(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}
