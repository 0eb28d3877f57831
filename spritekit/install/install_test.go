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
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "skills")
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("#!binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifests := map[string][]byte{"a.b": []byte(`{"name":"a.b"}`), "c.d": []byte(`{"name":"c.d"}`)}
	for range 2 {
		if err := install.Install(install.Kit{Self: self, Manifests: manifests}, dir, false); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(want string) {
		t.Helper()
		got, err := install.Verify(install.Kit{Self: self, Manifests: manifests}, dir)
		if err != nil || !strings.Contains(strings.Join(got, ";"), want) || (want == "") != (got == nil) {
			t.Errorf("Verify = %v, %v, want %q", got, err, want)
		}
	}
	verify("")
	if data, err := os.ReadFile(filepath.Join(dir, "a.b")); err != nil || string(data) != "#!binary" {
		t.Errorf("a.b = %q, %v", data, err)
	}
	for want, spoil := range map[string]func() error{
		"spritekit is missing": func() error {
			binary := filepath.Join(dir, "spritekit")
			return errors.Join(os.Remove(binary), os.WriteFile(binary, []byte("other"), 0o755))
		},
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
		if err := install.Install(install.Kit{Self: self, Manifests: manifests}, dir, false); err != nil {
			t.Fatal(err)
		}
		verify("")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("the folder holds %v, %v; want spritekit, two links, manifests", entries, err)
	}
}

func TestInstallLeavesFilesOfOthersAlone(t *testing.T) {
	t.Parallel()
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("#!binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifests := map[string][]byte{"a.b": []byte(`{"name":"a.b"}`)}
	for _, name := range []string{"spritekit", "a.b", "manifests/a.b/skill.json"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "skills")
			foreign := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(foreign), 0o755), os.WriteFile(foreign, []byte("mine"), 0o644)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			var refused *install.ForeignError
			if err := install.Install(install.Kit{Self: self, Manifests: manifests}, dir, false); !errors.As(err, &refused) || len(refused.Paths) != 1 || refused.Paths[0] != name {
				t.Fatalf("Install = %v, want a refusal that names %s", err, name)
			}
			if after := tree(t, dir); after != before {
				t.Errorf("a refused install left %s, was %s", after, before)
			}
			if err := install.Install(install.Kit{Self: self, Manifests: manifests}, dir, true); err != nil {
				t.Fatal(err)
			}
			if differences, err := install.Verify(install.Kit{Self: self, Manifests: manifests}, dir); err != nil || differences != nil {
				t.Errorf("Verify = %v, %v", differences, err)
			}
		})
	}
}

func TestInstallReplacesNoFolder(t *testing.T) {
	t.Parallel()
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("#!binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifests := map[string][]byte{"a.b": []byte(`{"name":"a.b"}`)}
	for _, name := range []string{"spritekit", "a.b", "manifests/a.b/skill.json"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		var refused *install.ForeignError
		if err := install.Install(install.Kit{Self: self, Manifests: manifests}, dir, true); !errors.As(err, &refused) || refused.Paths[0] != name {
			t.Errorf("Install over the folder %s = %v", name, err)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("a refused install left %s, was %s", after, before)
		}
	}
	if err := install.Install(install.Kit{Self: self, Manifests: manifests}, self, true); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Install into a file = %v", err)
	}
}

func TestInstalledFilesAreReadOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "skills")
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte("#!binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := install.Install(install.Kit{Self: self, Manifests: map[string][]byte{"a.b": []byte(`{"name":"a.b"}`)}}, dir, false); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Type()&os.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s has mode %v, want nobody to write it", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists all files with their content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		b.WriteString(name + "=" + string(data) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The second file goes with the binary, and one that went missing is noticed also by a binary that has none beside it.
func TestInstallSecondFile(t *testing.T) {
	t.Parallel()
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "skills")
	self := filepath.Join(from, "spritekit-linux-arm64")
	extra := filepath.Join(from, "spritekit-extra-linux-arm64")
	if err := errors.Join(os.WriteFile(self, []byte("binary"), 0o755), os.WriteFile(extra, []byte("extra"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := install.FindExtra(self); got != extra {
		t.Fatalf("FindExtra = %q, want %q", got, extra)
	}
	whole := install.Kit{Self: self, Extra: extra}
	if err := install.Install(whole, dir, false); err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(dir, "spritekit-extra")
	info, err := os.Stat(installed)
	if err != nil || info.Mode().Perm() != 0o555 {
		t.Fatalf("the second file: %v, %v", info, err)
	}
	check := func(k install.Kit, want string) {
		t.Helper()
		if got, err := install.Verify(k, dir); err != nil || strings.Join(got, "; ") != want {
			t.Errorf("Verify = %v, %v; want %q", got, err, want)
		}
	}
	check(whole, "")
	check(install.Kit{Self: self}, "")
	if err := errors.Join(os.Remove(installed), os.WriteFile(installed, []byte("other"), 0o555)); err != nil {
		t.Fatal(err)
	}
	check(whole, "spritekit-extra is missing or another version")
	if err := os.Remove(installed); err != nil {
		t.Fatal(err)
	}
	check(install.Kit{Self: self}, "spritekit-extra is missing")
}
