package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/install"
)

func TestInstallIsIdempotentAndVerified(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "skills")
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("#!binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifests := map[string][]byte{"a.b": []byte(`{"name":"a.b"}`), "c.d": []byte(`{"name":"c.d"}`)}
	for range 2 {
		if err := install.Install(self, dir, manifests); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(want string) {
		t.Helper()
		got, err := install.Verify(self, dir, manifests)
		if err != nil || !strings.Contains(strings.Join(got, ";"), want) || (want == "") != (got == nil) {
			t.Errorf("Verify = %v, %v, want %q", got, err, want)
		}
	}
	verify("")
	if data, err := os.ReadFile(filepath.Join(dir, "a.b")); err != nil || string(data) != "#!binary" {
		t.Errorf("a.b = %q, %v", data, err)
	}
	for want, spoil := range map[string]func() error{
		"spritekit is missing": func() error { return os.WriteFile(filepath.Join(dir, "spritekit"), []byte("other"), 0o755) },
		"a.b is no link": func() error {
			link := filepath.Join(dir, "a.b")
			return errors.Join(os.Remove(link), os.Symlink("/bin/sh", link))
		},
		"manifest of a.b": func() error { // what the sprite put there blocks nobody
			manifest := filepath.Join(dir, "manifests/a.b/skill.json")
			return errors.Join(os.Remove(manifest), syscall.Mkfifo(manifest, 0o644))
		},
		"manifest of c.d": func() error { return os.Remove(filepath.Join(dir, "manifests/c.d/skill.json")) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		verify(want)
		if err := install.Install(self, dir, manifests); err != nil {
			t.Fatal(err)
		}
		verify("")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("the folder holds %v, %v; want spritekit, two links, manifests", entries, err)
	}
}
