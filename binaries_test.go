package lattice_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
)

// TestBinariesAreStatic proves of the built binaries that they bring all they need: sprites have no libc to offer.
func TestBinariesAreStatic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux links statically")
	}
	for _, path := range []string{"bin/spritekit", "bin/lattice"} {
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
	const limit = 12 << 20
	info, err := os.Stat("bin/spritekit")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/spritekit is not built: make static builds it first")
	}
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > limit {
		t.Errorf("bin/spritekit has %d bytes, the limit is %d", info.Size(), limit)
	}
	t.Logf("bin/spritekit: %.1f of %d MiB", float64(info.Size())/(1<<20), limit>>20)
}
