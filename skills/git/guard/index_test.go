package guard

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// An index of any version names what git says that it names.
func TestIndexesAreRead(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, format := range []string{"sha1", "sha256"} {
		run("init", "-q", "--object-format="+format)
		for _, name := range []string{"a", "ab", "a.b", "dir/x", "dir/xy", "dir/" + strings.Repeat("long", 60), "z z", "intent"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		run("add", "-N", "intent") // needs extended flags
		run("add", "a", "ab", "a.b", "dir", "z z")
		run("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", map[string]int{"sha1": 40, "sha256": 64}[format])+",module")
		want := strings.Split(strings.TrimSuffix(run("ls-files", "-z"), "\x00"), "\x00")
		for _, version := range []string{"3", "4", "2"} {
			run("update-index", "--index-version", version)
			index, err := os.ReadFile(filepath.Join(dir, ".git/index"))
			if err != nil {
				t.Fatal(err)
			}
			var names, links []string
			ok := eachEntry(index, format == "sha256", func(mode uint32, name []byte) {
				names = append(names, string(name))
				if mode == modeLink {
					links = append(links, string(name))
				}
			})
			if !ok || !slices.Equal(names, want) || !slices.Equal(links, []string{"module"}) {
				t.Errorf("%s, version %d: %t %q, links %q, want %q", format, binary.BigEndian.Uint32(index[4:]), ok, names, links, want)
			}
			for cut := range index { // a torn one is read as far as it goes, or refused
				eachEntry(index[:cut], format == "sha256", func(uint32, []byte) {})
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
	}
}

// entryOf returns an entry of an index of version 2 for a name, with length in its flags.
func entryOf(name string, length int) []byte {
	entry := make([]byte, indexStat+20)
	entry = binary.BigEndian.AppendUint16(entry, uint16(length))
	entry = append(entry, name...)
	return append(entry, make([]byte, 8-len(entry)%8)...)
}

// indexOf returns an index of version 2 with entries.
func indexOf(count uint32, entries ...[]byte) []byte {
	index := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), count)
	return append(index, slices.Concat(entries...)...)
}

// TestLengthsOfNamesAreThoseOfGit checks that an index is refused if a length in the flags is not the length of the name, since git uses the flags.
func TestLengthsOfNamesAreThoseOfGit(t *testing.T) {
	t.Parallel()
	decoy := entryOf("b", 1)
	for _, tc := range []struct {
		name  string
		index []byte
		known bool
	}{
		{"plain", indexOf(2, entryOf("a", 1), entryOf("b", 1)), true},
		{"without a name, of a split index", indexOf(1, entryOf("", 0)), true},
		{"long", indexOf(1, entryOf(strings.Repeat("a", 5000), flagLength)), true},
		{"longer than to its NUL", indexOf(2, entryOf("a", 2+len(decoy)), decoy, entryOf("../../evil", 10)), false},
		{"shorter than to its NUL", indexOf(1, entryOf("abc", 1)), false},
	} {
		if known := eachEntry(tc.index, false, func(uint32, []byte) {}); known != tc.known {
			t.Errorf("%s: known is %t", tc.name, known)
		}
	}
}

// TestSharedIndexesAreChecked checks that the shared part of a split index is found if the name of the folder has [ or *.
func TestSharedIndexesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "re[po]", "a*", `a\b`} {
		dir := t.TempDir()
		root, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		gitDir := filepath.Join(root.Dir(), name, ".git")
		if err := os.MkdirAll(gitDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(gitDir, "sharedindex.1"), indexOf(1, entryOf("../../evil", 10)), 0o644); err != nil {
			t.Fatal(err)
		}
		at := engine.Location{Root: root, Name: name, Dir: filepath.Dir(gitDir), GitDir: gitDir, CommonDir: gitDir, Config: gitconfig.Config{}}
		if err := CheckIndex(at, false); !fault.HasCode(err, "unsafe_path") {
			t.Errorf("CheckIndex in %q = %v, want unsafe_path", name, err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 62) + "\x00a\x00"))
	f.Fuzz(func(t *testing.T, index []byte) {
		for _, long := range []bool{false, true} {
			eachEntry(index, long, func(_ uint32, name []byte) { isBadName(name) })
		}
	})
}
