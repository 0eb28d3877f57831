package dropin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, "/run") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func greet(t *testing.T) Skill {
	t.Helper()
	dir := write(t, t.TempDir(), map[string]string{
		"greet.person/skill.json": `{"name":"greet.person"}`, "greet.person/run": "#!/bin/sh\n", "greet.person/lib/words": "hello",
	})
	if err := os.Symlink("lib/words", filepath.Join(dir, "greet.person/words")); err != nil {
		t.Fatal(err)
	}
	s, err := Read(filepath.Join(dir, "greet.person"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReadRefusesWhatIsNoSkill(t *testing.T) {
	t.Parallel()
	dir := write(t, t.TempDir(), map[string]string{
		"a.b/skill.json": `{"name":"c.d"}`, "fs.read/skill.json": `{"name":"fs.read"}`, "e.f/run": "", "g.h/skill.json": `{`, "file": "",
	})
	for name, want := range map[string]string{
		"a.b": "holds the skill c.d", "fs.read": "built-in", "e.f": "not a folder with a skill.json", "g.h": "invalid skill manifest",
		"gone": "not a folder with", "file": "not a folder with",
	} {
		_, err := Read(filepath.Join(dir, name))
		if fault.As(err) == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s) = %v, want a fault that says %q", name, err, want)
		}
	}
}

func TestKeepIsByContentAndReadOnly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	first, err := Keep(root, greet(t))
	if err != nil {
		t.Fatal(err)
	}
	same, err := Keep(root, greet(t))
	if err != nil || same != first {
		t.Errorf("the same content is kept at %s and %s, %v", first, same, err)
	}
	copied, err := Read(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Keep(root, copied); err != nil || again != first {
		t.Errorf("a copy's copy is at %s, %v, want %s", again, err, first)
	}
	other := greet(t)
	write(t, other.Dir, map[string]string{"lib/words": "good day"})
	if changed, err := Keep(root, other); err != nil || changed == first {
		t.Errorf("other content is kept at %s, %v", changed, err)
	}
	for name, mode := range map[string]os.FileMode{"run": 0o555, "skill.json": 0o444} {
		if info, err := os.Stat(filepath.Join(first, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, mode)
		}
	}
}

func TestKeepTakesNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"leads out":      func(dir string) error { return os.Symlink("../../x", filepath.Join(dir, "x")) },
		"leads out ":     func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "x")) },
		"neither a file": func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "x"), 0o644) },
	} {
		s := greet(t)
		if err := spoil(s.Dir); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		if kept, err := Keep(root, s); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: kept as %s, %v", name, kept, err)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("%s: a refused copy leaves %v, %v", name, left, err)
		}
	}
}

func TestComposePutsSkillsBesideOurs(t *testing.T) {
	t.Parallel()
	base := write(t, t.TempDir(), map[string]string{"spritekit": "binary", "manifests/fs.read/skill.json": "{}"})
	if err := os.Symlink("spritekit", filepath.Join(base, "fs.read")); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	kept, err := Keep(root, greet(t))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "deep", "skills")
	for range 2 {
		if err := Compose(base, []string{kept}, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"fs.read": "binary", "greet.person/words": "hello", "manifests/fs.read/skill.json": "{}"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}
