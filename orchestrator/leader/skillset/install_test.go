package skillset

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// A kept digest is never that of other content, however a file was changed.
func TestDigestFollowsTheFiles(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "spritekit"), filepath.Join(folder, "spritekit-extra")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(first, "one")
	write(second, "two")
	info, err := os.Stat(second)
	if err != nil {
		t.Fatal(err)
	}
	h := home.Home(t.TempDir())
	paths := []string{first, second}
	check := func(when string, now time.Time) {
		t.Helper()
		want, err := hashFiles(paths...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := digestFiles(h, paths, now); err != nil || got != want {
			t.Errorf("%s: digest = %q, %v, want %q", when, got, err, want)
		}
	}
	later := time.Now().Add(time.Hour)
	check("at first", later)
	check("kept", later)
	write(second, "TWO") // in place
	if err := os.Chtimes(second, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	check("changed with the same size and time", later)
	write(first+".new", "ONE")
	if err := os.Rename(first+".new", first); err != nil {
		t.Fatal(err)
	}
	check("replaced", later)
	write(first, "oNe")
	check("changed a moment ago", time.Now())
	if identifyFiles(paths, time.Now()) != "" {
		t.Error("files that changed a moment ago have a name, though they can change again within the same tick")
	}
	if links, _ := filepath.Glob(h.Skills(".of-*")); len(links) != 3 {
		t.Errorf("%d digests are kept, want those of the three states of which one was asked: %v", len(links), links)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if got, err := digestFiles(h, paths, later); err == nil {
		t.Errorf("digest of a file that is missing = %q", got)
	}
}

// A kept digest is used: the files are not read.
func TestKeptDigestIsUsed(t *testing.T) {
	h, path := home.Home(t.TempDir()), filepath.Join(t.TempDir(), "spritekit")
	if err := os.WriteFile(path, []byte("one"), 0o755); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	link := h.Skills(".of-" + identifyFiles([]string{path}, later))
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept", link); err != nil {
		t.Fatal(err)
	}
	if got, err := digestFiles(h, []string{path}, later); err != nil || got != "kept" {
		t.Errorf("digest = %q, %v, want the kept one", got, err)
	}
}
