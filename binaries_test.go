package lattice_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestBinariesAreStatic proves of the built binaries that they bring all they need: sprites have no libc to offer.
func TestBinariesAreStatic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux links statically")
	}
	for _, path := range []string{"bin/spritekit", "bin/spritekit-extra", "bin/lattice"} {
		f, err := elf.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("%s is not built: make static builds it first", path)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s has a %v segment: it is linked dynamically", path, p.Type)
			}
		}
		if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
			t.Errorf("%s needs %v", path, libs)
		}
	}
}

// TestBinarySize: spritekit is copied into every sprite, and each skill's start pays for its pages. The Makefile builds it
// lean; a plain go build is larger.
func TestBinarySize(t *testing.T) {
	for path, limit := range map[string]int64{"bin/spritekit": 8 << 20, "bin/spritekit-extra": 16 << 20} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("%s is not built: make static builds it first", path)
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > limit {
			t.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), limit)
		}
		t.Logf("%s: %.1f of %d MiB", path, float64(info.Size())/(1<<20), limit>>20)
	}
}

// TestInitSize: a sandbox executes its init twice, so that what it costs to start grows with the size of that program. A
// lattice that make has built carries one of its own, and it is what sandboxes have.
func TestInitSize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes with an init")
	}
	const limit = 9 << 19 // 4.5 MiB
	lattice, err := filepath.Abs("bin/lattice")
	if err == nil {
		_, err = os.Stat(lattice)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/lattice is not built: make static builds it first")
	}
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	show := exec.Command(lattice, "sprite", "create", "s")
	show.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	if out, err := show.CombinedOutput(); err != nil {
		t.Fatalf("lattice sprite create: %v\n%s", err, out)
	}
	inits, err := filepath.Glob(filepath.Join(home, ".local/state/lattice/sprites/init-*"))
	if err != nil || len(inits) != 1 {
		t.Fatalf("lattice keeps %v as the init of sandboxes, want one file (%v)", inits, err)
	}
	info, err := os.Stat(inits[0])
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > limit {
		t.Errorf("the init of sandboxes has %d bytes, the limit is %d", info.Size(), limit)
	}
	for _, line := range []string{"test -d /workspace", "[ ! -s /.sprite/sbin/init ] || [ $(stat -c %s /.sprite/sbin/init) = " + strconv.FormatInt(info.Size(), 10) + " ]"} {
		inside := exec.Command(lattice, "sprite", "exec", "s", "--", "sh", "-c", line)
		inside.Env = show.Env
		if out, err := inside.CombinedOutput(); err != nil {
			t.Errorf("in a sprite, %s: %v\n%s", line, err, out)
		}
	}
}

// TestBinaryStart: what packages initialise when lattice starts is paid by every command. Patterns are compiled when
// they are first used.
func TestBinaryStart(t *testing.T) {
	const limit = 1500 // of our own packages
	cmd := exec.Command("bin/lattice", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/lattice is not built: make static builds it first")
	} else if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(trace.String()) {
		var name string
		var at, clock float64
		var size, count int
		if _, err := fmt.Sscanf(line, "init %s @%g ms, %g ms clock, %d bytes, %d allocs", &name, &at, &clock, &size, &count); err != nil {
			continue
		}
		if strings.HasPrefix(name, "github.com/spritekit/lattice/") {
			sum += count
			t.Logf("%5d allocations: %s", count, name)
		}
	}
	if sum == 0 || sum > limit {
		t.Errorf("our packages make %d allocations when lattice starts; the limit is %d, and none means that the trace is not read", sum, limit)
	}
}
