package store_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

var update = flag.Bool("update", false, "write the golden store of the present schema")

// filled makes a store of two runs with so many steps, closed, and returns its bytes.
func filled(t *testing.T, steps int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "run_a", "run_b")
	for _, id := range []string{"run_a", "run_b"} {
		var last lattice.Seq
		for step := range steps {
			body := fmt.Sprintf(`{"step":%d,"text":%q}`, step, strings.Repeat("x", 20*step))
			var err error
			last, err = s.Append(t.Context(), id, last, []lattice.Entry{event(id, fmt.Sprint(step)), fact(id, body), state(id, body)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// useDamaged does with a file whatever a leader would. It reports whether anything was found wrong with it.
func useDamaged(t *testing.T, path string) (found bool) {
	t.Helper()
	problems, err := store.CheckPages(path, nil)
	found = err != nil || len(problems) > 0
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("Open = %v, want ErrDamaged", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("a refused store was written to: %v", err)
		}
		return true
	}
	note := func(err error) {
		if err != nil {
			found = true
		}
	}
	logical, err := s.Check(t.Context(), nil)
	note(err)
	found = found || len(logical) > 0
	_, err = s.Runs()
	note(err)
	for _, id := range []string{"run_a", "run_b"} {
		_, _, last, err := load(s, id)
		note(err)
		_, err = s.Append(t.Context(), id, last, []lattice.Entry{fact(id, `{}`), state(id, `{}`)})
		note(err)
	}
	if !found { // else it is refused for the same reason
		_, _, err = s.Compact(t.Context(), nil)
		note(err)
	}
	_ = s.Close() // of a file that is known to be damaged
	return found
}

// However a file is damaged, it is refused or served in part, and the process lives.
func TestDamagedFiles(t *testing.T) {
	whole := filled(t, 30)
	page := os.Getpagesize()
	dir, err := os.MkdirTemp("/dev/shm", "lattice-test-") // thousands of files, none of which is to last
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	try := func(name string, raw []byte) bool {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		return useDamaged(t, path)
	}
	if try("whole", whole) {
		t.Fatal("a whole file is found damaged")
	}
	used := int(binary.NativeEndian.Uint64(newerMeta(whole, page)[40:])) // the rest of the file is slack
	for n := range used {
		if !try("cut", whole[:n*page]) {
			t.Errorf("nobody notices that the file ends before page %d of %d", n, used)
		}
		if !try("torn", whole[:n*page+page/3]) {
			t.Errorf("nobody notices that the file ends within page %d of %d", n, used)
		}
	}
	missed := 0
	for n := 2; n < used; n++ {
		for _, at := range []int{0, 8, 10, 12, 16, 20, 24, 28} { // header and first elements
			for _, flip := range []byte{0x01, 0x80} {
				raw := bytes.Clone(whole)
				raw[n*page+at] ^= flip
				if !try("flipped", raw) {
					missed++
				}
			}
		}
	}
	if missed > used*8 { // free pages hold anything
		t.Errorf("%d of %d damages were not noticed", missed, used*16)
	}
	for name, raw := range map[string][]byte{
		"empty":           {},
		"text":            []byte("this is no store\n"),
		"long text":       bytes.Repeat([]byte("this is no store\n"), 10_000),
		"zeroes":          make([]byte, 16*page),
		"no heads":        append(make([]byte, 2*page), whole[2*page:]...),
		"pages exchanged": bytes.Join([][]byte{whole[:3*page], whole[4*page : 5*page], whole[3*page : 4*page], whole[5*page:]}, nil),
		"a loop":          looped(whole, page),
	} {
		if !try("file", raw) {
			t.Errorf("%s: nobody notices", name)
		}
	}
}

// newerMeta is the head that counts.
func newerMeta(raw []byte, page int) []byte {
	a, b := raw[16:], raw[page+16:]
	if binary.NativeEndian.Uint64(a[48:]) > binary.NativeEndian.Uint64(b[48:]) {
		return a
	}
	return b
}

// looped makes every branch page lead back to itself.
func looped(whole []byte, page int) []byte {
	raw := bytes.Clone(whole)
	for at := 2 * page; at+page <= len(raw); at += page {
		if binary.NativeEndian.Uint16(raw[at+8:]) == 1 {
			binary.NativeEndian.PutUint64(raw[at+24:], uint64(at/page))
		}
	}
	return raw
}

// A file that is damaged while it is open ends nothing but the request.
func TestDamagedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filled(t, 60), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := load(s, "run_a"); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Load = %v, want ErrDamaged", err)
	}
	for range 2 {
		if _, err := s.Append(t.Context(), "run_a", 120, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("Append = %v, want ErrDamaged", err)
		}
	}
	_ = s.Close() // its outcome is as open as the file was
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(filepath.Join(dir, "folder")); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Open of a folder = %v, want ErrDamaged", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(pipe); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Open of a pipe = %v, want ErrDamaged", err)
	}
	if problems, err := store.CheckPages(pipe, nil); err != nil || len(problems) == 0 {
		t.Errorf("CheckPages of a pipe = %v, %v", problems, err)
	}
	if _, err := store.OpenReadOnly(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReadOnly of nothing = %v, want ErrNotExist", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(filepath.Join(dir, "file", "store.db")); err == nil {
		t.Error("Open made a store below a file")
	}
	names, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// A file that may not be written, and a folder in which none may be made, are refused as that. Root may do everything,
// so the child is nobody.
func TestOpenNeedsPermission(t *testing.T) {
	dir := t.TempDir()
	for d := dir; strings.Contains(d, "Test"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "store.db")
	if err := os.WriteFile(path, filled(t, 60), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	for _, path := range []string{path, filepath.Join(dir, "new.db")} {
		c := child(t, "denied", path)
		if os.Getuid() == 0 {
			c.Path = "/proc/self/exe" // which needs no way to it
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func openDenied(path string) error {
	before, _ := os.ReadFile(path)
	s, err := store.Open(path)
	if err == nil {
		return errors.Join(errors.New("it was opened"), s.Close())
	}
	if after, _ := os.ReadFile(path); !errors.Is(err, fs.ErrPermission) || !bytes.Equal(before, after) {
		return fmt.Errorf("%w, want a refusal for lack of permission", err)
	}
	return nil
}

// Stores that former versions wrote are read for ever.
func TestGoldenStores(t *testing.T) {
	golden := filepath.Join("testdata", fmt.Sprintf("schema%d.db.gz", store.SchemaVersion))
	if *update {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(filled(t, 60)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), os.WriteFile(golden, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := filepath.Glob("testdata/schema*.db.gz")
	if err != nil || len(all) != store.SchemaVersion {
		t.Fatalf("golden stores: %v, %v; want one for each of %d schemas", all, err, store.SchemaVersion)
	}
	for _, name := range all {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		facts, snapshot, last, err := load(s, "run_b")
		if err != nil || len(facts) != 60 || last != 240 || !strings.HasPrefix(string(snapshot), `{"step":59,`) {
			t.Errorf("%s: %d facts, last %d, state %.20s, %v", name, len(facts), last, snapshot, err)
		}
		if run, err := s.Run("run_a"); err != nil || string(run.Secret) != string(secret) {
			t.Errorf("%s: run_a = %+v, %v", name, run, err)
		}
		if _, err := s.Append(t.Context(), "run_b", last, []lattice.Entry{fact("run_b", `{}`)}); err != nil {
			t.Errorf("%s: append: %v", name, err)
		}
	}
}

// TestCompactNeverEnlarges holds that what a compaction leaves is at most what was there, on the disk and as told, however
// often it is done, and that all that was kept before there were seals has one then.
func TestCompactNeverEnlarges(t *testing.T) {
	raw := filled(t, 60)
	for _, size := range []int{len(raw), int(binary.NativeEndian.Uint64(newerMeta(raw, os.Getpagesize())[40:])) * os.Getpagesize()} {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, raw[:size], 0o600); err != nil { // with what bbolt adds ahead of use, and without
			t.Fatal(err)
		}
		s := open(t, path)
		want, err := told(s)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			before, after, err := s.Compact(t.Context(), nil)
			if err != nil || before != info.Size() || after > before {
				t.Errorf("Compact = %d, %d, %v; the file had %d bytes", before, after, err, info.Size())
			}
			if info, err = os.Stat(path); err != nil || info.Size() != after {
				t.Errorf("the file has %d bytes, told were %d, %v", info.Size(), after, err)
			}
		}
		if got, err := told(s); err != nil || got != want {
			t.Errorf("the store tells something else than before, %v", err)
		}
	}
}

// Compacting changes the file and nothing in it, under readers and writers.
func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filled(t, 60), 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, path, func(tx *bbolt.Tx) error { // a page's worth of what is not there any more
		if err := tx.Bucket([]byte("meta")).Put([]byte("filler"), make([]byte, 1<<20)); err != nil {
			return err
		}
		return nil
	})
	edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("filler")) })
	s := open(t, path)
	facts, snapshot, last, err := load(s, "run_a")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		at := lattice.Seq(240)
		for step := range 50 {
			var err error
			if at, err = s.Append(context.Background(), "run_b", at, []lattice.Entry{fact("run_b", fmt.Sprint(step))}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	before, after, err := s.Compact(t.Context(), nil)
	if err != nil || after >= before {
		t.Errorf("Compact = %d, %d, %v; want less", before, after, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Append beside Compact: %v", err)
	}
	facts2, snapshot2, last2, err := load(s, "run_a")
	if diff := cmp.Diff(facts, facts2); err != nil || diff != "" || !bytes.Equal(snapshot, snapshot2) || last != last2 {
		t.Errorf("after Compact: %v, %s, %d (-before +after):\n%s", err, snapshot2, last2, diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Compact(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Compact when stopped = %v, want context.Canceled", err)
	}
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := s.CopyTo(copied); err != nil {
		t.Fatal(err)
	}
	c, err := store.OpenReadOnly(copied)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, c)
	if _, err := c.Append(t.Context(), "run_a", last, nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Append to a copy that is open for reading = %v, want ErrReadOnly", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
