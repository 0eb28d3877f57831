package fileapi

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// TestTakeBack checks that a download continues from a copy when another call needs the sprite alone, and that the copy takes no more of
// the disk than the file.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	const hole = 256 << 20
	for name, c := range map[string]struct {
		data    string // at the beginning of the file, and at its end
		size    int64
		at, end int64
		want    string // that is read
		holes   int64  // at the start of that
		err     error
	}{
		"whole":               {"begin", 10, 0, 10, "beginbegin", 0, nil},
		"from the middle":     {"begin", 10, 7, 10, "gin", 0, nil},
		"up to the middle":    {"begin", 10, 0, 7, "beginbe", 0, nil},
		"a hole in it":        {"begin", hole, hole - 8, hole, "\x00\x00\x00begin", 0, nil},
		"behind the data":     {"begin", hole, 5, hole, "begin", hole - 10, nil},
		"shorter than told":   {"begin", 10, 7, math.MaxInt64, "gin", 0, io.ErrUnexpectedEOF},
		"it ends before that": {"begin", 10, 20, 30, "", 0, io.ErrUnexpectedEOF},
	} {
		dir := t.TempDir()
		file, err := os.Create(dir + "/file")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, c.size - int64(len(c.data))} {
			if _, err := file.WriteAt([]byte(c.data), at); err != nil {
				t.Fatal(err)
			}
		}
		l := &lent{dir: dir, file: file, at: c.at, end: c.end}
		if err := l.takeBack(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st, err := l.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if kept := st.Sys().(*syscall.Stat_t).Blocks * 512; kept > 1<<20 {
			t.Errorf("%s: the copy takes %d bytes of the disk", name, kept)
		}
		if _, err := io.CopyN(io.Discard, l, c.holes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := io.ReadAll(l)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: read %q, %v, want %q, %v", name, got, err, c.want, c.err)
		}
		l.close()
	}
}

// TestWatchedNames checks that a short message cannot ask for names that take far more memory than the message.
func TestWatchedNames(t *testing.T) {
	t.Parallel()
	many := func(n int) []string { return make([]string, n) }
	for name, c := range map[string]struct {
		paths []string
		dir   string
		want  int // names, -1 for a refusal
	}{
		"none":                     {nil, "", 0},
		"absolute and relative":    {[]string{"/a", "b"}, "/workspace", 2},
		"many":                     {many(1000), "/workspace", 1000},
		"a long folder":            {many(2), strings.Repeat("x", 300<<10), 2},
		"a long folder, many":      {many(100_000), strings.Repeat("x", 500<<10), -1},
		"a short folder, too many": {many(300_000), "/", -1},
	} {
		names, ok := watchedNames(c.paths, c.dir)
		if ok != (c.want >= 0) || ok && len(names) != c.want {
			t.Errorf("%s: %d names, %t, want %d", name, len(names), ok, c.want)
		}
	}
}

// TestListsAreBounded checks that a list of files ends at the number of entries, and of bytes, that one answer may have.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int
		strict bool
		bytes  int64
		rel    string
		err    error
	}{
		"few":            {10, true, 1 << 20, "a", nil},
		"too many":       {9, true, 1 << 20, "a", syscall.EFBIG},
		"enough of them": {9, false, 1 << 20, "a", nil},
		"long names":     {10, true, 4 << 10, strings.Repeat("\x01", 4<<10), wire.ErrLongAnswer},
	} {
		kept := &wire.Spool{Dir: t.TempDir(), Most: c.bytes}
		count, err := collectEntries(kept, "entries", c.most, c.strict, func(e files.Entry) any { return fileInfo("/", e) }, func(emit files.Emit) error {
			for range 10 {
				if err := emit(files.Entry{Rel: c.rel, ModTime: time.Unix(1, 0)}); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, c.err) || err == nil && count != 10 {
			t.Errorf("%s: %d, %v, want %v", name, count, err, c.err)
		}
		kept.Close()
	}
}
