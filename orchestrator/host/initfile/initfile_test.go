package initfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "host.db"), nil, 0o600))
	must(os.WriteFile(filepath.Join(dir, prefix+"123.new"), nil, 0o600)) // of a process that was killed
	installed := func(id, program string) (written bool) {
		t.Helper()
		want := filepath.Join(dir, prefix+id)
		before, _ := os.Stat(want)
		path, err := installProgram(dir, id+"\n", program)
		must(err)
		if path != want {
			t.Errorf("path %s, want %s", path, want)
		}
		if all := names(); !slices.Equal(all, []string{"host.db", prefix + id}) {
			t.Errorf("the folder has %v", all)
		}
		after, err := os.Stat(path)
		must(err)
		if text, err := os.ReadFile(path); err != nil || string(text) != program || after.Mode() != 0o755 {
			t.Errorf("%s: %q, %v, %v", path, text, after.Mode(), err)
		}
		return before == nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) // a new file may get the old one's inode
	}
	if !installed("a", "first") {
		t.Error("the first time nothing is written")
	}
	if installed("a", "first") {
		t.Error("what is there is written once more")
	}
	must(os.Chmod(filepath.Join(dir, prefix+"a"), 0o600))
	if !installed("a", "first") {
		t.Error("what cannot be executed stays")
	}
	if !installed("b", "second") {
		t.Error("another version is not written")
	}
	must(os.Remove(filepath.Join(dir, prefix+"b")))
	if path, err := installProgram(dir, "", ""); path != "" || err != nil || len(names()) != 1 {
		t.Errorf("of no program: %q, %v, %v", path, err, names())
	}
	if os.Getuid() != 0 {
		must(os.Chmod(dir, 0o500))
		if path, err := installProgram(dir, "c", "third"); err == nil {
			t.Errorf("a folder that cannot be written has %s", path)
		}
		must(os.Chmod(dir, 0o700))
	}
}
