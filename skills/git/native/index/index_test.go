package index

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// made is an index that git wrote: with a folder, a conflict, flags of version 3 and a TREE extension.
func made(t testing.TB, version string) []byte {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git, which writes the indexes of these tests, is not installed")
	}
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q")
	for _, name := range []string{"a", "d/b", "d/e/c", "d0", "intent"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("", "add", "a", "d", "d0")
	git("", "write-tree")
	git("", "add", "-N", "intent")
	git("", "update-index", "--skip-worktree", "a")
	git("", "update-index", "--assume-unchanged", "d0")
	blob := git("x", "hash-object", "-w", "--stdin")
	git("100644 "+blob+" 1\tz\n100644 "+blob+" 3\tz\n", "update-index", "--index-info")
	git("", "update-index", "--index-version", version)
	data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGitsIndexComesOutAsItWent: decoding and encoding what git wrote gives the same bytes.
func TestGitsIndexComesOutAsItWent(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		data := made(t, version)
		x, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Encode(); !bytes.Equal(got, data) {
			t.Errorf("version %s: encoded\n%q\nwant\n%q", version, got, data)
		}
		a, intent, valid := x.Find("a"), x.Find("intent"), x.Find("d0")
		if a == nil || !a.SkipWorktree || intent == nil || !intent.IntentToAdd || valid == nil || !valid.AssumeValid || !x.Unmerged() {
			t.Errorf("version %s: flags were lost: %+v", version, x.Entries)
		}
		if _, known := x.KnownTree("d"); !known {
			t.Errorf("version %s: the trees were lost", version)
		}
	}
}

func TestPutAndRemove(t *testing.T) {
	paths := func(x *Index) string {
		var list []string
		for _, e := range x.Entries {
			list = append(list, e.Path)
		}
		return strings.Join(list, " ")
	}
	x := New()
	for _, p := range []string{"b", "a/x", "a/y/z", "a.c", "a0"} {
		x.Put(Entry{Path: p})
	}
	if got, want := paths(x), "a.c a/x a/y/z a0 b"; got != want {
		t.Errorf("put: %q, want %q", got, want)
	}
	x.Put(Entry{Path: "a"})
	if got, want := paths(x), "a a.c a0 b"; got != want {
		t.Errorf("a file in the place of a folder: %q, want %q", got, want)
	}
	x.Put(Entry{Path: "a/x/y"})
	if got, want := paths(x), "a.c a/x/y a0 b"; got != want {
		t.Errorf("a folder in the place of a file: %q, want %q", got, want)
	}
	x.Entries = append(x.Entries, Entry{Path: "c", Stage: 1}, Entry{Path: "c", Stage: 2})
	x.Put(Entry{Path: "c"})
	if x.Unmerged() || x.Find("c") == nil {
		t.Error("put did not settle the conflict")
	}
	many := New()
	var entries []Entry
	for i := range 300 {
		entries = append(entries, Entry{Path: strings.Repeat("x", i%7+1) + "/" + strings.Repeat("y", i+1)})
	}
	one := New()
	for _, e := range entries {
		one.Put(e)
	}
	many.PutAll(entries)
	if diff := cmp.Diff(one.Entries, many.Entries); diff != "" {
		t.Errorf("PutAll differs from Put of each:\n%s", diff)
	}
	many.RemoveAll(map[string]bool{entries[0].Path: true})
	if many.Has(entries[0].Path) || len(many.Entries) != 299 {
		t.Error("RemoveAll did not remove")
	}
}

// sealed gives a body the checksum that an index has.
func sealed(body string) []byte {
	sum := sha1.Sum([]byte(body))
	return append([]byte(body), sum[:]...)
}

func TestRefusedIndexes(t *testing.T) {
	good := made(t, "2")
	body := string(good[:len(good)-20])
	flipped := bytes.Clone(good)
	flipped[40] ^= 1
	for name, test := range map[string]struct {
		data []byte
		want error
	}{
		"empty":             {nil, ErrCorrupt},
		"short":             {good[:50], ErrCorrupt},
		"flipped bit":       {flipped, ErrCorrupt},
		"version 5":         {sealed("DIRC\x00\x00\x00\x05\x00\x00\x00\x00"), ErrUnsupported},
		"too many entries":  {sealed("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), ErrCorrupt},
		"split":             {sealed(body + "link\x00\x00\x00\x00"), ErrUnsupported},
		"sparse folders":    {sealed(body + "sdir\x00\x00\x00\x00"), ErrUnsupported},
		"extension cut off": {sealed(body + "ABCD\x00\x00\x00\x09"), ErrCorrupt},
		"leads out":         {sealed(strings.Replace(body, "d/e/c", "../ec", 1)), ErrCorrupt},
		"absolute":          {sealed(strings.Replace(body, "d/e/c", "/etcx", 1)), ErrCorrupt},
		"out of order":      {sealed(strings.Replace(body, "d/e/c", "a/e/c", 1)), ErrCorrupt},
	} {
		if _, err := Decode(test.data); !errors.Is(err, test.want) {
			t.Errorf("%s: Decode = %v, want %v", name, err, test.want)
		}
	}
	if _, err := Decode(sealed(body + "ZZZZ\x00\x00\x00\x01x")); err != nil {
		t.Errorf("an optional extension: %v", err)
	}
}

// FuzzDecode: whatever comes is refused, or is an index that stays the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	for _, version := range []string{"2", "4"} {
		data := made(f, version)
		f.Add(data[:len(data)-20])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		x, err := Decode(sealed(string(body)))
		if err != nil {
			return
		}
		again, err := Decode(x.Encode())
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		if x.Version == 3 {
			x.Version = again.Version // 3 becomes 2 where it can
		}
		if again.Version == 3 {
			x.Version = 3
		}
		if diff := cmp.Diff(x.Entries, again.Entries); diff != "" || x.Version != again.Version {
			t.Fatalf("version %d, then %d:\n%s", x.Version, again.Version, diff)
		}
	})
}
