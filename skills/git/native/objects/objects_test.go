package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs git in a folder.
func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git, the judge of these tests, is not installed")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b",
	}
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, &diag)
	}
	return string(out)
}

// packed is a repository with chains of deltas in one pack.
func packed(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "-b", "main")
	text := ""
	for i := range 14 {
		text += fmt.Sprintf("line %d of a file that grows, which makes deltas worth their while\n", i)
		for name, content := range map[string]string{"a": text, "d/b": strings.Repeat(text, 3), "empty": ""} {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git(t, dir, "", "add", "-A")
		git(t, dir, "", "commit", "-q", "-m", fmt.Sprint(i))
	}
	git(t, dir, "", "gc", "-q")
	return dir
}

// all lists every object of a repository as "id type size".
func all(t testing.TB, dir string) string {
	t.Helper()
	return git(t, dir, "", "cat-file", "--batch-check", "--batch-all-objects")
}

func TestReadsWhatGitPacked(t *testing.T) {
	dir := packed(t)
	s, err := Open(filepath.Join(dir, ".git", "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for line := range strings.Lines(all(t, dir)) {
		f := strings.Fields(line)
		id, _ := ParseID(f[0])
		typ, data, err := s.Object(id)
		if err != nil || typ.String() != f[1] || fmt.Sprint(len(data)) != f[2] {
			t.Fatalf("Object(%s) = %s, %d bytes, %v; want %s of %s", id, typ, len(data), err, f[1], f[2])
		}
		if typ, err := s.TypeOf(id); err != nil || typ.String() != f[1] {
			t.Errorf("TypeOf(%s) = %s, %v", id, typ, err)
		}
		if want := git(t, dir, "", "cat-file", f[1], f[0]); f[1] != "tree" && want != string(data) {
			t.Errorf("Object(%s) is not what git reads", id)
		}
		found, err := s.Abbreviated(f[0][:12])
		if err != nil || len(found) != 1 || found[0] != id {
			t.Errorf("Abbreviated(%s) = %v, %v", f[0][:12], found, err)
		}
	}
	if _, _, err := s.Object(ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an object that is not there: %v", err)
	}
}

// TestPacksTravel sends everything as one pack and receives it: with its deltas, and as git itself checks it.
func TestPacksTravel(t *testing.T) {
	dir := packed(t)
	from, err := Open(filepath.Join(dir, ".git", "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var ids []ID
	for line := range strings.Lines(all(t, dir)) {
		id, _ := ParseID(line[:40])
		ids = append(ids, id)
	}
	var pack bytes.Buffer
	if err := from.Send(&pack, ids, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from.packs[0].name + ".pack")
	if err != nil || int64(pack.Len()) > 2*info.Size() {
		t.Errorf("the pack has %d bytes, git's %d: deltas were not kept", pack.Len(), info.Size())
	}
	other := t.TempDir()
	git(t, other, "", "init", "-q")
	to, err := Open(filepath.Join(other, ".git", "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	checked := 0
	receipt, err := to.Receive(context.Background(), bytes.NewReader(append(pack.Bytes(), "what follows in the stream"...)), Intake{
		MaxObjects: int64(len(ids)), Check: func(Type, []byte) error { checked++; return nil },
	})
	if err != nil || receipt.Objects != int64(len(ids)) || checked < 28 {
		t.Fatalf("Receive = %+v, %v; %d checked", receipt, err, checked)
	}
	if got, want := all(t, other), all(t, dir); got != want {
		t.Error("the objects that arrived are not those that left")
	}
	git(t, other, "", "fsck", "--strict", "--full")
}

// TestBrokenPacksLeaveNothing: neither pack nor index nor a temporary file.
func TestBrokenPacksLeaveNothing(t *testing.T) {
	dir := packed(t)
	matches, err := filepath.Glob(filepath.Join(dir, ".git", "objects", "pack", "*.pack"))
	if err != nil || len(matches) != 1 {
		t.Fatal(matches, err)
	}
	good, err := os.ReadFile(matches[0])
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, to byte) []byte {
		data := bytes.Clone(good)
		data[at] ^= to
		return data
	}
	for name, test := range map[string]struct {
		data []byte
		in   Intake
	}{
		"empty":              {nil, Intake{}},
		"no pack":            {[]byte("hello, world, this is no pack"), Intake{}},
		"cut off":            {good[:len(good)/2], Intake{}},
		"without checksum":   {good[:len(good)-20], Intake{}},
		"a bit":              {change(len(good)/2, 1), Intake{}},
		"a bit of the sum":   {change(len(good)-1, 1), Intake{}},
		"more objects":       {change(11, 1), Intake{}},
		"too many objects":   {good, Intake{MaxObjects: 3}},
		"too many bytes":     {good, Intake{MaxBytes: 100}},
		"refused by a check": {good, Intake{Check: func(Type, []byte) error { return ErrHostile }}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "objects")
			s, err := Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Receive(context.Background(), bytes.NewReader(test.data), test.in); err == nil {
				t.Error("it was taken in")
			}
			if left, _ := filepath.Glob(filepath.Join(folder, "pack", "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestWrittenObjectsAppearWhole: not before Flush, and not at all when the store is closed first.
func TestWrittenObjectsAppearWhole(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	open := func() *Store {
		s, err := Open(filepath.Join(dir, ".git", "objects"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for i := range 40 {
		if _, err := s.Write(Blob, []byte(fmt.Sprint("dropped ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := all(t, dir); got != "" {
		t.Errorf("objects that were not flushed are there:\n%s", got)
	}
	s = open()
	defer s.Close()
	var last ID
	for i := range 40 {
		var err error
		if last, err = s.Write(Blob, []byte(fmt.Sprint("kept ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Read(last, Blob); err != nil {
		t.Errorf("the store does not see what it wrote: %v", err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(all(t, dir), "\n"); n != 40 {
		t.Errorf("%d objects are there, want 40", n)
	}
	if _, err := s.WriteFrom(Blob, 10, strings.NewReader("short")); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that shrank: %v", err)
	}
	if _, err := s.WriteFrom(Blob, 2, strings.NewReader("longer")); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that grew: %v", err)
	}
	git(t, dir, "", "fsck", "--strict", "--full")
}
