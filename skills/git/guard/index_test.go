package guard

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 62) + "\x00a\x00"))
	f.Fuzz(func(t *testing.T, index []byte) {
		for _, long := range []bool{false, true} {
			eachEntry(index, long, func(_ uint32, name []byte) { isBadName(name) })
		}
	})
}
