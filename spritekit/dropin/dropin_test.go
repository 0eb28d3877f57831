package dropin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// folder makes a folder with files, by name relative to it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestListFindsWhatCanBeUsed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"greet.person/skill.json":        `{"name":"greet.person","exec":["python3","main.py"]}`,
		"greet.twice/skill.json":         `{"name":"greet.twice"}`,
		"greet.other/skill.json":         `{"name":"greet.else"}`,
		"greet.broken/skill.json":        `{"name":`,
		"fs.read/skill.json":             `{"name":"fs.read"}`,
		"greet.empty/readme":             ``,
		"Unnamed/skill.json":             `{"name":"un.named"}`,
		"manifests/greet.all/skill.json": `{"name":"greet.all"}`,
		"greet.plain":                    `no program`,
	})
	if err := os.WriteFile(filepath.Join(dir, "greet.all"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "greet.fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "greet.fifo", "skill.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	var names, warnings []string
	for _, s := range List(dir, func(err error) { warnings = append(warnings, err.Error()) }) {
		names = append(names, s.Name+" "+strings.TrimPrefix(strings.Join(s.Command(), " "), dir))
	}
	if got, want := strings.Join(names, "; "), "greet.all /greet.all; greet.person python3 main.py; greet.twice /greet.twice/run"; got != want {
		t.Errorf("List() = %s, want %s", got, want)
	}
	told := strings.Join(warnings, "\n")
	for _, want := range []string{"built-in skill fs.read wins", "greet.broken", "manifest of greet.else", "no such skill", "no regular file"} {
		if !strings.Contains(told, want) {
			t.Errorf("warnings %q lack %q", told, want)
		}
	}
}

func TestLoadRefusesNamesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"greet.person/skill.json": `{"name":"greet.person"}`})
	for _, name := range []string{"", "..", "../greet.person", "greet", "greet.person/..", "/etc"} {
		if _, err := Load(dir, name); !errors.Is(err, ErrNone) {
			t.Errorf("Load(%q) = %v, want ErrNone", name, err)
		}
	}
	if _, err := Load(dir, "greet.person"); err != nil {
		t.Error(err)
	}
}
