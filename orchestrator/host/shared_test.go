package host

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// sharing is a world whose sprites share a Go cache that lies in the returned folder. Only the smallest of packages are
// compiled into it.
func sharing(t *testing.T) (w *world, dir string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	w = newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Plain {
		t.Skip("no namespaces here")
	}
	dir = filepath.Join(t.TempDir(), "shared")
	w.host.core.Config.Shared = dir
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	if goroot := strings.TrimSpace(string(root)); !strings.HasPrefix(goroot, "/usr/") {
		w.host.core.Config.Tools = []string{goroot}
	}
	return w, dir
}

func (w *world) sh(name, script string) (string, int) {
	w.Helper()
	var out strings.Builder
	code, err := w.client.Exec(w.Context(), name, sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out, Dir: "/workspace"})
	if err != nil {
		w.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out.String()), code
}

func (w *world) sprite(name string) {
	w.Helper()
	if _, err := w.client.Create(w.Context(), sprites.Create{Name: name}); err != nil {
		w.Fatal(err)
	}
}

// compiled counts the packages that a build has to compile.
const compiled = "go build -x internal/goarch internal/byteorder 2>&1 | grep -c /compile"

// vetted counts the packages that the first test in a sprite vets; it imports one of those that are shared.
const vetted = `mkdir -p /tmp/v && cd /tmp/v && printf 'module v\n' >go.mod && printf 'package v\nimport _ "errors"\n' >v.go &&
printf 'package v\nimport "testing"\nfunc TestV(*testing.T) {}\n' >v_test.go && go test -x . 2>&1 | grep -c 'cat >.*/vet.cfg'`

func TestSharedGoCache(t *testing.T) {
	w, dir := sharing(t)
	w.sprite("before")
	if n, _ := w.sh("before", compiled); n == "0" {
		t.Fatalf("a sprite without a shared cache compiles %s packages", n)
	}
	// Of toolchains that are long gone, one is still used.
	for name, age := range map[string]time.Duration{"go1.1-old": 2 * share.UnusedAfter, "go1.2-used": share.UnusedAfter / 2} {
		readme, used := filepath.Join(dir, "go-build", name, "README"), time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Dir(readme), 0o755), os.WriteFile(readme, nil, 0o644), os.Chtimes(readme, used, used)); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	toolchain, err := w.host.WarmGo(t.Context(), &said, "internal/goarch", "internal/byteorder", "errors", "testing")
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if folder, name := share.SharedGo(dir); name != toolchain || !strings.HasPrefix(name, "go1.") || folder == "" {
		t.Fatalf("SharedGo = %q, %q, want %q", folder, name, toolchain)
	}
	if again, err := w.host.WarmGo(t.Context(), &said, "no/such/package"); again != toolchain || err != nil {
		t.Errorf("WarmGo again = %q, %v, want nothing to do", again, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "go-build")); err != nil || len(left) != 3 { // the cache, the used one, and the lock
		t.Errorf("the shared folder holds %v, %v", left, err)
	}
	w.sprite("after")
	if n, _ := w.sh("after", compiled); n != "0" {
		t.Errorf("a sprite with a shared cache compiles %s packages", n)
	}
	if n, _ := w.sh("after", vetted); n != "1" {
		t.Errorf("the first test in a sprite with a shared cache vets %s packages, want its own alone", n)
	}
	if _, err := w.client.Fork(t.Context(), "after", sprites.Current, "forked"); err != nil {
		t.Fatal(err)
	}
	if n, _ := w.sh("forked", "rm -rf /tmp/v; "+compiled); n != "0" {
		t.Errorf("a fork compiles %s packages that are shared", n)
	}
	if n, _ := w.sh("forked", vetted); n != "1" {
		t.Errorf("the first test in a fork vets %s packages, want its own alone", n)
	}
	// What a sprite compiles itself is its own, and kept.
	w.sh("after", "go build internal/cpu")
	if out, code := w.sh("after", "go build -x internal/cpu 2>&1 | grep -c /compile"); out != "0" || code != 1 {
		t.Errorf("a package that was compiled is compiled again: %s", out)
	}
	// Neither checkpoints nor restores see any of it.
	p, err := w.client.Checkpoint(t.Context(), "after", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.client.Restore(t.Context(), "after", p.ID); err != nil {
		t.Fatal(err)
	}
	if n, _ := w.sh("after", compiled); n != "0" {
		t.Errorf("after a restore a sprite compiles %s packages", n)
	}
	trees, err := exec.Command("du", "-sk", filepath.Join(w.dir, "trees")).Output()
	if size, _, _ := strings.Cut(string(trees), "\t"); err != nil || len(size) > 3 {
		t.Errorf("trees take %s KiB, %v", size, err)
	}

	old, _ := share.SharedGo(dir)
	t.Run("under attack", func(t *testing.T) { attackSharedGo(t, w, old) }) // to make a shared cache takes long
	// A new toolchain's cache takes the place of the old one's links; without any, none dangle.
	if err := os.Rename(old, filepath.Join(dir, "go-build", "go1.0-next")); err != nil {
		t.Fatal(err)
	}
	if err := w.host.fleet.Running()[0].Stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.host.fleet.Running() {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := w.sh("after", compiled); n != "0" {
		t.Errorf("with the next toolchain's cache a sprite compiles %s packages", n)
	}
	if err := os.RemoveAll(filepath.Join(dir, "go-build")); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.host.fleet.Running() {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := w.sh("after", "go build internal/goarch && ! find /var/cache/sprite -type l | grep ."); code != 0 {
		t.Errorf("without the shared cache: %s", out)
	}
}

// attackSharedGo checks that a sprite changes nothing that another reads in the shared folder, and cannot have the host write elsewhere.
func attackSharedGo(t *testing.T, w *world, folder string) {
	before := fingerprint(t, folder)
	w.sprite("evil")
	link := "f=$(find /var/cache/sprite/go-build -type l -name '*-d' | head -n 1); test -n \"$f\" || exit 0; "
	for name, script := range map[string]string{
		"write through a link":     link + "echo evil >>$f",
		"truncate through a link":  link + ": >$f",
		"mode through a link":      link + "chmod 777 $f",
		"time through a link":      link + "touch -d 2001-01-01 $f",
		"write the shared folder":  "echo evil >/var/cache/shared/00/evil",
		"make a folder there":      "mkdir /var/cache/shared/evil",
		"remove what is there":     "rm -rf /var/cache/shared/??/* 2>&1 | grep -q . && false",
		"move it away":             "mv /var/cache/shared /tmp/shared",
		"mount over it":            "mount --bind /tmp /var/cache/shared",
		"remount it":               "mount -o remount,rw /var/cache/shared",
		"hard link, then write":    link + "ln -L $f /tmp/hard && echo evil >>/tmp/hard",
		"through the file's /proc": link + "exec 3<$f; echo evil >/proc/self/fd/3",
	} {
		if out, code := w.sh("evil", "("+script+") 2>&1"); code == 0 {
			t.Errorf("%s succeeds: %s", name, out)
		}
	}
	if after := fingerprint(t, folder); after != before {
		t.Errorf("the shared cache changed:\n%s\nwas:\n%s", after, before)
	}

	// Its own cache now leads out of it: the host, which makes the links, follows nothing.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.Mkdir(outside, 0o777), os.Chmod(outside, 0o777)); err != nil {
		t.Fatal(err)
	}
	w.sh("evil", "rm -rf /var/cache/sprite/go-build; ln -s "+outside+" /var/cache/sprite/go-build")
	for _, s := range w.host.fleet.Running() {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	w.sh("evil", "true")
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("the host wrote %v outside, %v", left, err)
	}
	w.sprite("good")
	if out, code := w.sh("good", "go build -x internal/goarch 2>&1 | grep -c /compile"); out != "0" || code != 1 {
		t.Errorf("after the attack another sprite compiles %s packages", out)
	}
}

// fingerprint is the names, sizes and times of a folder's files.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && d.Type().IsRegular() {
			all.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil || all.Len() == 0 {
		t.Fatalf("look through %s: %v", dir, err)
	}
	return all.String()
}

func TestWarmGoRefusals(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.host.WarmGo(t.Context(), new(bytes.Buffer), "std"); !errors.Is(err, share.ErrNoShared) {
		t.Errorf("WarmGo without a place = %v", err)
	}
	w.host.core.Config.Shared = t.TempDir()
	w.host.confiner.Confined = func() confine.Confinement { return confine.Confinement{Plain: true} }
	if _, err := w.host.WarmGo(t.Context(), new(bytes.Buffer), "std"); !errors.Is(err, share.ErrPlain) {
		t.Errorf("WarmGo without namespaces = %v", err)
	}
}

// TestWarmGoSoon: the shared cache is made in the background, and a host that closes meanwhile does not wait for it.
func TestWarmGoSoon(t *testing.T) {
	w, dir := sharing(t)
	w.host.WarmGoSoon()
	w.host.WarmGoSoon()
	deadline := time.Now().Add(time.Minute)
	for func() bool {
		_, err := os.Lstat(filepath.Join(dir, "go-build", ".warming", "cache", "go-build", "README"))
		return err != nil
	}() {
		if time.Now().After(deadline) {
			t.Fatal("nothing is made in the background")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := w.host.Close(); err != nil {
		t.Error(err)
	}
	if _, toolchain := share.SharedGo(dir); toolchain != "" {
		t.Errorf("a cache that is not finished is shared for %s", toolchain)
	}
}
