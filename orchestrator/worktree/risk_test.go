package worktree

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Decoys of one kind hide no other: each kind has one line with its number, the most dangerous first.
func TestWarningsNameEveryKind(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, _, _ := w.sprite(url, "x")
	const dir = "sprite-x"
	for n := range 25 {
		if err := os.Symlink("/etc/passwd", w.path(fmt.Sprintf("%s/a%02d", dir, n))); err != nil {
			t.Fatal(err)
		}
		w.write(fmt.Sprintf("%s/b%02d.txt", dir, n), "decoy\n")
	}
	w.write(dir+"/.github/workflows/release.yml", "on: push\n")
	w.write(dir+"/.gitlab-ci.yml", "x:\n")
	w.write(dir+"/.gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = https://example.org/s\n")
	w.write(dir+"/sub/.gitattributes", "* -text\n")
	w.write(dir+"/.vscode/tasks.json", "{}\n")
	w.write(dir+"/logo.png", "\x89PNG\x00\x00")
	w.in(dir, "add", "-A")
	w.in(dir, "update-index", "--add", "--cacheinfo", "160000,"+base+",s")
	w.in(dir, "commit", "-q", "-m", "everything")
	head := w.in(dir, "rev-parse", "HEAD")
	w.in(dir, "bundle", "create", "-q", w.path("b.bundle"), base+"..x")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: w.path("b.bundle"), Branch: "x", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"submodule: s",
		"symbolic link that leaves the tree (25): a00 → /etc/passwd, a01 → /etc/passwd, a02 → /etc/passwd, a03 → /etc/passwd, a04 → /etc/passwd, and 20 more",
		"binary file: logo.png",
	}
	if diff := cmp.Diff(want, p.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestLongNamesKeepBothEnds(t *testing.T) {
	got := riskBinary.warningLine([]string{".github/" + strings.Repeat("x", 1000) + "/evil.yml"})
	if len(got) > 250 || !strings.Contains(got, ".github/xx") || !strings.HasSuffix(got, "/evil.yml") {
		t.Errorf("line = %q", got)
	}
}
