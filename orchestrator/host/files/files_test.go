//go:build linux

package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plant fills dir: "d/" makes a folder, "l -> t" a link, "f=text" a file.
func plant(t *testing.T, dir string, specs ...string) {
	t.Helper()
	for _, s := range specs {
		name, target, isLink := strings.Cut(s, " -> ")
		name, text, _ := strings.Cut(name, "=")
		at := filepath.Join(dir, name)
		var err error
		switch {
		case isLink:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		case strings.HasSuffix(name, "|"):
			err = syscall.Mkfifo(strings.TrimSuffix(at, "|"), 0o644)
		default:
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// do does op below dir and returns what it said.
func do(t *testing.T, dir string, op Op) (said []string, err error) {
	t.Helper()
	op.Path = []byte(filepath.Join(dir, string(op.Path)))
	if op.Dest != nil {
		op.Dest = []byte(filepath.Join(dir, string(op.Dest)))
	}
	err = Do(context.Background(), Kernel{}, op, func(e Entry) error {
		if !e.Tick {
			said = append(said, e.Rel)
		}
		return nil
	})
	return said, err
}

func find(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", strings.TrimPrefix(p, dir+"/"), st.Mode())
		if st.Mode().IsRegular() {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += " " + string(text)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func TestDo(t *testing.T) {
	fixture := []string{"d/", "d/sub/", "d/sub/x=one", "d/a.go=a", "d/b.txt=b", "d/l -> a.go", "f=file", "to-d -> d", "to-f -> f", "dangling -> none", "p|"}
	for name, try := range map[string]struct {
		op   Op
		said string // joined by spaces
		err  error
	}{
		"list":                                {Op{Kind: List, Path: []byte("d")}, "a.go b.txt l sub", nil},
		"list through a link":                 {Op{Kind: List, Path: []byte("to-d")}, "a.go b.txt l sub", nil},
		"list recursively":                    {Op{Kind: List, Path: []byte("d"), Recursive: true}, "a.go b.txt l sub sub/x", nil},
		"list by pattern":                     {Op{Kind: List, Path: []byte("d"), Recursive: true, Pattern: []byte("*.go")}, "a.go", nil},
		"list by pattern of a path":           {Op{Kind: List, Path: []byte("d"), Recursive: true, Pattern: []byte("sub/*")}, "sub/x", nil},
		"list by a bad pattern":               {Op{Kind: List, Path: []byte("d"), Pattern: []byte("[")}, "", syscall.EINVAL},
		"list a file":                         {Op{Kind: List, Path: []byte("f")}, "", nil},
		"list a missing one":                  {Op{Kind: List, Path: []byte("none")}, "", fs.ErrNotExist},
		"list below a file":                   {Op{Kind: List, Path: []byte("f/x")}, "", syscall.ENOTDIR},
		"list a dangling link":                {Op{Kind: List, Path: []byte("dangling")}, "", fs.ErrNotExist},
		"remove a full folder":                {Op{Kind: Remove, Path: []byte("d")}, "", syscall.ENOTEMPTY},
		"remove recursively":                  {Op{Kind: Remove, Path: []byte("d"), Recursive: true}, "a.go b.txt l sub/x sub ", nil},
		"remove a link, not its folder":       {Op{Kind: Remove, Path: []byte("to-d"), Recursive: true}, "", nil},
		"remove a missing one":                {Op{Kind: Remove, Path: []byte("none"), Recursive: true}, "", fs.ErrNotExist},
		"rename":                              {Op{Kind: Rename, Path: []byte("d"), Dest: []byte("e")}, "", nil},
		"rename onto a full folder":           {Op{Kind: Rename, Path: []byte("d/sub"), Dest: []byte("d")}, "", syscall.ENOTEMPTY},
		"rename a file onto a folder":         {Op{Kind: Rename, Path: []byte("f"), Dest: []byte("d")}, "", syscall.EISDIR},
		"rename into itself":                  {Op{Kind: Rename, Path: []byte("d"), Dest: []byte("d/sub/d")}, "", syscall.EINVAL},
		"copy a file":                         {Op{Kind: Copy, Path: []byte("f"), Dest: []byte("new/dir/f")}, "", nil},
		"copy a link as what it means":        {Op{Kind: Copy, Path: []byte("to-f"), Dest: []byte("g")}, "", nil},
		"copy a folder":                       {Op{Kind: Copy, Path: []byte("d"), Dest: []byte("e")}, "", syscall.EISDIR},
		"copy recursively":                    {Op{Kind: Copy, Path: []byte("d"), Dest: []byte("e"), Recursive: true}, "a.go b.txt l sub/x sub ", nil},
		"copy a folder into itself":           {Op{Kind: Copy, Path: []byte("d"), Dest: []byte("d/sub/d"), Recursive: true}, "", syscall.EINVAL},
		"copy a folder into itself by a link": {Op{Kind: Copy, Path: []byte("d"), Dest: []byte("to-d/new"), Recursive: true}, "", syscall.EINVAL},
		"copy a file onto itself":             {Op{Kind: Copy, Path: []byte("f"), Dest: []byte("to-f")}, "", syscall.EINVAL},
		"copy a file onto a folder":           {Op{Kind: Copy, Path: []byte("f"), Dest: []byte("d")}, "", syscall.EISDIR},
		"chmod":                               {Op{Kind: Chmod, Path: []byte("d"), Mode: 0o700}, "", nil},
		"chmod recursively":                   {Op{Kind: Chmod, Path: []byte("d"), Mode: 0o700, Recursive: true}, "a.go b.txt sub/x sub ", nil},
		"chmod a missing one":                 {Op{Kind: Chmod, Path: []byte("none"), Mode: 0o700}, "", fs.ErrNotExist},
		"chown to nobody":                     {Op{Kind: Chown, Path: []byte("f")}, "", syscall.EINVAL},
		"chown to a stranger":                 {Op{Kind: Chown, Path: []byte("f"), User: "no-such-user"}, "", syscall.EINVAL},
		"chown to oneself":                    {Op{Kind: Chown, Path: []byte("f"), User: fmt.Sprint(os.Getuid()), Group: fmt.Sprint(os.Getgid())}, "", nil},
		"what is no operation":                {Op{Kind: "eat", Path: []byte("f")}, "", syscall.ENOSYS},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, fixture...)
			before := find(t, dir)
			said, err := do(t, dir, try.op)
			if !errors.Is(err, try.err) || strings.Join(said, " ") != try.said {
				t.Errorf("Do = %q, %v, want %q, %v", said, err, try.said, try.err)
			}
			if after := find(t, dir); try.err != nil && after != before {
				t.Errorf("a failure changed the files:\n%s\nwere\n%s", after, before)
			}
		})
	}
	t.Run("relative names are refused", func(t *testing.T) {
		err := Do(context.Background(), Kernel{}, Op{Kind: List, Path: []byte("d")}, func(Entry) error { return nil })
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Do = %v", err)
		}
	})
}

func TestCopyKeeps(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "d/", "d/run=#!", "d/l -> /nowhere", "d/p|", "d/shut/")
	long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, err := range []error{os.Chmod(dir+"/d/run", 0o750|fs.ModeSetuid), os.Chtimes(dir+"/d/run", long, long), os.Chmod(dir+"/d/shut", 0o500)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sparse, err := os.Create(dir + "/d/sparse")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sparse.WriteAt([]byte("end"), 64<<20); err != nil {
		t.Fatal(err)
	}
	sparse.Close()
	if _, err := do(t, dir, Op{Kind: Copy, Path: []byte("d"), Dest: []byte("e"), Recursive: true, Preserve: true}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(dir + "/e/run")
	if err != nil || st.Mode() != 0o750 || !st.ModTime().Equal(long) {
		t.Errorf("a copied program is %v, %v, %v", st.Mode(), st.ModTime(), err)
	}
	for name, want := range map[string]string{"e/l": "Lrwxrwxrwx", "e/p": "prw-r--r--", "e/shut": "dr-x------"} {
		if st, err := os.Lstat(dir + "/" + name); err != nil || st.Mode().String() != want {
			t.Errorf("%s = %v, %v, want %s", name, st.Mode(), err, want)
		}
	}
	if st, err := os.Stat(dir + "/e/sparse"); err != nil || st.Size() != 64<<20+3 || st.Sys().(*syscall.Stat_t).Blocks > 4096 {
		t.Errorf("the copy of a sparse file takes %d blocks, %v", st.Sys().(*syscall.Stat_t).Blocks, err)
	}
}

func TestWrite(t *testing.T) {
	private := fs.FileMode(0o600)
	for name, try := range map[string]struct {
		name string
		mode *fs.FileMode
		want string // where it lies then, and its mode
		err  error
	}{
		"new":                    {"new", nil, "new -rw-r--r--", nil},
		"new in new folders":     {"a/b/c", nil, "a/b/c -rw-r--r--", nil},
		"private":                {"new", &private, "new -rw-------", nil},
		"keeps its mode":         {"run", nil, "run -rwxr-xr-x", nil},
		"through a link":         {"to-run", nil, "run -rwxr-xr-x", nil},
		"through a dangling":     {"dangling", nil, "d/made -rw-r--r--", nil},
		"a folder":               {"d", nil, "", syscall.EISDIR},
		"below a file":           {"run/x", nil, "", syscall.ENOTDIR},
		"a FIFO":                 {"p", nil, "", syscall.EINVAL},
		"a loop of links":        {"loop", nil, "", syscall.ELOOP},
		"what /proc makes up":    {"exe", nil, "", syscall.ELOOP},
		"below what it makes up": {"self/x", nil, "", syscall.ELOOP},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, "d/", "run=old", "p|", "to-run -> run", "dangling -> d/made", "loop -> loop", "exe -> /proc/self/exe", "self -> /proc/self/cwd")
			if err := os.Chmod(dir+"/run", 0o755); err != nil {
				t.Fatal(err)
			}
			given, err := Write(Kernel{}, filepath.Join(dir, try.name), strings.NewReader("content and more"), 7, try.mode)
			if !errors.Is(err, try.err) {
				t.Fatalf("Write = %v, want %v", err, try.err)
			}
			if try.err != nil {
				return
			}
			at, mode, _ := strings.Cut(try.want, " ")
			got, err := os.ReadFile(filepath.Join(dir, at))
			st, _ := os.Lstat(filepath.Join(dir, at))
			if err != nil || string(got) != "content" || st.Mode().String() != mode || given != st.Mode().Perm() {
				t.Errorf("%s = %q, %v, %v; Write says %v", at, got, err, st, given)
			}
			if left := find(t, dir); strings.Contains(left, ".upload-") {
				t.Errorf("left behind: %s", left)
			}
		})
	}
	t.Run("content that is too short", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "f=old")
		if _, err := Write(Kernel{}, dir+"/f", strings.NewReader("new"), 9, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Write = %v", err)
		}
		if got := find(t, dir); got != "f -rw-r--r-- old" {
			t.Errorf("left %s", got)
		}
	})
}

// What init itself has open is not handed out, nor changed, under the names that /proc makes up for it.
func TestMagicLinks(t *testing.T) {
	held, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	dir := t.TempDir()
	for name, target := range map[string]string{"exe": "/proc/self/exe", "fd": fmt.Sprintf("/proc/self/fd/%d", held.Fd())} {
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
		if f, _, err := OpenRegular(Kernel{}, dir+"/"+name); err == nil {
			f.Close()
			t.Errorf("%s was opened", target)
		}
		if _, err := do(t, dir, Op{Kind: Chmod, Path: []byte(name), Mode: 0o777}); err == nil {
			t.Errorf("%s was changed", target)
		}
		if _, err := do(t, dir, Op{Kind: Copy, Path: []byte(name), Dest: []byte("stolen")}); err == nil {
			t.Errorf("%s was copied", target)
		}
	}
	if st, err := held.Stat(); err != nil || st.Mode() != 0o600 {
		t.Errorf("the open file is %v, %v", st.Mode(), err)
	}
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "d/", "f=text", "p|", "l -> f", "zero -> /dev/zero")
	for name, want := range map[string]error{"f": nil, "l": nil, "d": syscall.EISDIR, "p": syscall.EINVAL, "zero": syscall.EINVAL, "none": fs.ErrNotExist, "f/x": syscall.ENOTDIR} {
		f, _, err := OpenRegular(Kernel{}, filepath.Join(dir, name))
		if !errors.Is(err, want) {
			t.Errorf("OpenRegular(%s) = %v, want %v", name, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestStream(t *testing.T) {
	want := []Entry{
		{Rel: "", Mode: fs.ModeDir | 0o755, ModTime: time.Unix(1, 5)},
		{Rel: "by\xfft\ne", Mode: fs.ModeSymlink | 0o777, Size: 1 << 40, ModTime: time.Unix(-5, 0)},
	}
	var buf bytes.Buffer
	e := NewEncoder(&buf)
	for _, err := range []error{e.Entry(want[0]), e.Entry(tick), e.Entry(want[1]), e.Entry(Entry{Rel: strings.Repeat("n", maxName+1), ModTime: time.Unix(1, 0)}), e.End()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := buf.Bytes()
	var got []Entry
	keep := func(x Entry) error { got = append(got, x); return nil }
	if err := Decode(bytes.NewReader(append(slices.Clone(whole), "rest"...)), keep); err != nil || !slices.Equal(got, want) {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	for n := range whole {
		if err := Decode(bytes.NewReader(whole[:n]), keep); !errors.Is(err, ErrCut) {
			t.Errorf("Decode of %d bytes = %v", n, err)
		}
	}
	enough := errors.New("enough")
	if err := Decode(bytes.NewReader(whole), func(Entry) error { return enough }); err != enough {
		t.Errorf("Decode = %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{recordEnd})
	f.Add([]byte{recordTick, recordEntry, 1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := Decode(bytes.NewReader(data), func(Entry) error { return nil }); err != nil && !errors.Is(err, ErrCut) {
			t.Error(err)
		}
	})
}

// A walk of a folder with very many entries holds but a part of their names.
func TestLargeFolder(t *testing.T) {
	dir := t.TempDir()
	const n = sorted + 100
	for i := range n {
		if err := unix.Mknod(fmt.Sprintf("%s/%06d", dir, i), unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := do(t, dir, Op{Kind: List}); err != nil || len(said) != n {
		t.Errorf("List = %d entries, %v", len(said), err)
	}
	if said, err := do(t, dir, Op{Kind: Remove, Recursive: true}); err != nil || len(said) != n+1 {
		t.Errorf("Remove = %d entries, %v", len(said), err)
	}
}

// Deeper than names are long.
func TestDeepTree(t *testing.T) {
	dir := t.TempDir()
	at, err := unix.Open(dir, unix.O_PATH, 0)
	for i := 0; i < 60 && err == nil; i++ {
		name := strings.Repeat("d", 200)
		if err = unix.Mkdirat(at, name, 0o755); err == nil {
			var next int
			next, err = unix.Openat(at, name, unix.O_PATH, 0)
			unix.Close(at)
			at = next
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(at)
	if said, err := do(t, dir, Op{Kind: List, Recursive: true}); err != nil || len(said) == 0 {
		t.Errorf("List = %d, %v", len(said), err)
	}
	if _, err := do(t, dir, Op{Kind: Remove, Path: []byte(strings.Repeat("d", 200)), Recursive: true}); err != nil {
		t.Errorf("Remove = %v", err)
	}
	if got := find(t, dir); got != "" {
		t.Errorf("left %.40s…", got)
	}
}

// TestEntriesOfAnyTime checks that a file with any modification time is listed, and that a tick is not.
func TestEntriesOfAnyTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry Entry
		come  bool
	}{
		{Entry{Rel: "usual", ModTime: time.Unix(1_700_000_000, 0)}, true},
		{Entry{Rel: "epoch", ModTime: time.Unix(0, 0)}, true},
		{Entry{Rel: "year one", ModTime: time.Time{}}, true},
		{Entry{Rel: "far", ModTime: time.Unix(1<<40, 0)}, true},
		{Entry{ModTime: time.Time{}}, true}, // the listed file itself
		{tick, false},
	} {
		var stream bytes.Buffer
		out := NewEncoder(&stream)
		if err := errors.Join(out.Entry(c.entry), out.End()); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := Decode(&stream, func(e Entry) error { got = append(got, e.Rel); return nil })
		if err != nil || len(got) > 1 || (len(got) == 1) != c.come || c.come && got[0] != c.entry.Rel {
			t.Errorf("%+v arrives as %q, %v", c.entry, got, err)
		}
	}
}
