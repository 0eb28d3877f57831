package refs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestValidName judges names as git check-ref-format does, where git is there to ask.
func TestValidName(t *testing.T) {
	_, err := exec.LookPath("git")
	for _, name := range []string{
		"refs/heads/main", "refs/heads/a/b", "refs/heads/ü", "refs/heads/a.b", "refs/heads/-a", "refs/heads/a@b", "refs/heads/@", "refs/heads/a{b",
		"refs/heads/", "refs/heads//a", "refs/heads/.a", "refs/heads/a.", "refs/heads/a..b", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a b", "refs/heads/a~b",
		"refs/heads/a^", "refs/heads/a:b", "refs/heads/a?", "refs/heads/a*", "refs/heads/a[", "refs/heads/a\\b", "refs/heads/a@{b", "refs/heads/a\x7f", "refs/heads/a\nb",
		"refs/heads/../../config", "refs/heads/./a",
	} {
		want := err != nil || exec.Command("git", "check-ref-format", name).Run() == nil
		if got := ValidName(name); got != want && err == nil {
			t.Errorf("ValidName(%q) = %t, git: %t", name, got, want)
		}
	}
	for name, want := range map[string]bool{"HEAD": true, "FETCH_HEAD": true, "config": false, "index": false, "": false, "heads/main": false, "/refs/heads/a": false} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %t", name, got)
		}
	}
}

// fresh opens the refs of an empty repository.
func fresh(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"HEAD":        "ref: refs/heads/main\n",
		"packed-refs": "# pack-refs with: peeled fully-peeled sorted \n" + strings.Repeat("1", 40) + " refs/heads/old\n" + strings.Repeat("2", 40) + " refs/tags/t\n^" + strings.Repeat("3", 40) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func TestUpdatesCompareAndSwap(t *testing.T) {
	s, dir := fresh(t)
	one, two := ID{1}, ID{2}
	if err := s.Update(Change{Name: "refs/heads/main", New: one, Old: new(ID), By: "A <a@b> 1 +0000", Why: "commit (initial): x\ny"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(Change{Name: "refs/heads/main", New: two, Old: new(ID)}); !errors.Is(err, ErrMoved) {
		t.Errorf("a ref that is there: %v", err)
	}
	if err := s.Update(Change{Name: "refs/heads/main", New: two, Old: &one}); err != nil {
		t.Error(err)
	}
	if r, err := s.Resolve(Head); err != nil || r.ID != two || r.Name != "refs/heads/main" {
		t.Errorf("HEAD = %+v, %v", r, err)
	}
	for _, name := range []string{"refs/heads/main/below", "refs/heads/old/below", "refs/heads"} {
		if err := s.Update(Change{Name: name, New: one}); err == nil {
			t.Errorf("%s could be made", name)
		}
	}
	for _, log := range []string{"HEAD", "refs/heads/main"} {
		data, err := os.ReadFile(filepath.Join(dir, "logs", log))
		if want := (ID{}).String() + " " + one.String() + " A <a@b> 1 +0000\tcommit (initial): x y\n"; err != nil || string(data) != want {
			t.Errorf("log of %s = %q, %v; want %q", log, data, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "refs", "heads", "*.lock")); len(left) > 0 {
		t.Errorf("locks are left: %v", left)
	}
}

func TestDeletingUnpacks(t *testing.T) {
	s, dir := fresh(t)
	if err := s.Update(Change{Name: "refs/heads/old", New: ID{7}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("refs/heads/old", &ID{7}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Read("refs/heads/old"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the packed value came back: %+v, %v", r, err)
	}
	if err := s.Delete("refs/tags/t", nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil || strings.Contains(string(data), "^") || !strings.HasPrefix(string(data), "#") {
		t.Errorf("packed-refs = %q, %v", data, err)
	}
}
