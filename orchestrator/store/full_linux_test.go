package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

func init() { roles["tmpfs"] = onFullDisk }

// Every durable step on a disk that is full: refused as that, nothing lost, nothing doubled, nothing left behind; and
// the same process goes on when there is room again.
func TestFullDiskAtEveryStep(t *testing.T) {
	c := child(t, "tmpfs", t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := c.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), err != nil && strings.HasPrefix(string(out), "mount: "):
		t.Skipf("this user may not mount a small disk here: %v %s", err, out)
	case err != nil:
		t.Errorf("%v: %s", err, out)
	}
}

// disk is a small file system of the child's own.
type disk struct{ dir string }

func mountDisk(dir string) (disk, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return disk{}, fmt.Errorf("mount: private: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return disk{}, fmt.Errorf("mount: tmpfs: %w", err)
	}
	return disk{dir}, nil
}

func (d disk) store() string { return filepath.Join(d.dir, "store.db") }

// fill leaves no room.
func (d disk) fill() error {
	f, err := os.OpenFile(filepath.Join(d.dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (d disk) free() error { return os.Remove(filepath.Join(d.dir, "filler")) }

// left fails when anything but the store is there.
func (d disk) left(want ...string) error {
	files, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if !slices.Equal(names, want) {
		return fmt.Errorf("there is %v, want %v", names, want)
	}
	return nil
}

// wantFull fails unless err says that the disk is full.
func wantFull(what string, err error) error {
	if !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%s on a full disk: %v, want ErrFull", what, err)
	}
	return nil
}

func onFullDisk(dir string) error {
	d, err := mountDisk(dir)
	if err != nil {
		return err
	}
	if err := d.fill(); err != nil {
		return err
	}
	if _, err := store.Open(d.store()); wantFull("Open", err) != nil {
		return wantFull("Open", err)
	}
	if err := errors.Join(d.left("filler"), d.free()); err != nil {
		return err
	}
	s, err := store.Open(d.store())
	if err != nil {
		return err
	}
	if err := errors.Join(fullCreate(d, s), fullAppend(d, s), fullCopies(d, s), d.left("store.db")); err != nil {
		return errors.Join(err, s.Close())
	}
	problems, err := s.Check(context.Background(), nil)
	if err != nil || len(problems) > 0 {
		return fmt.Errorf("check: %v, %w", problems, err)
	}
	// A store that is there opens on a full disk, too: people must be able to look at their runs.
	if err := errors.Join(s.Close(), d.fill()); err != nil {
		return err
	}
	if s, err = store.Open(d.store()); err != nil {
		return err
	}
	if _, err := s.Runs(); err != nil {
		return err
	}
	return s.Close()
}

func fullCreate(d disk, s *store.Store) error {
	if err := d.fill(); err != nil {
		return err
	}
	run := store.RunRecord{ID: "run_a", Secret: secret, Program: make([]byte, 100_000)}
	if err := wantFull("Create", s.Create(context.Background(), run)); err != nil {
		return err
	}
	if all, err := s.Runs(); err != nil || len(all) != 0 {
		return fmt.Errorf("after a Create that was refused: %v, %w", all, err)
	}
	return errors.Join(d.free(), s.Create(context.Background(), run))
}

// fullAppend fills the disk again and again under a run, and counts what was acknowledged.
func fullAppend(d disk, s *store.Store) error {
	var last lattice.Seq
	acknowledged := 0
	text := strings.Repeat("x", 3000)
	kinds := map[string]func(n int) []lattice.Entry{
		"events": func(n int) []lattice.Entry {
			return []lattice.Entry{{Run: "run_a", Kind: lattice.EntryEvent, Type: "INFO", Body: fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, text), Dedupe: fmt.Sprint(n)}}
		},
		"a fact with its state": func(n int) []lattice.Entry {
			body := fmt.Sprintf(`{"n":%d,"text":%q}`, n, text)
			return []lattice.Entry{fact("run_a", body), state("run_a", body)}
		},
	}
	for kind, entries := range kinds {
		if err := d.fill(); err != nil {
			return err
		}
		var err error
		for n := 0; n < 200 && err == nil; n++ { // pages that lie free are used up first
			var seq lattice.Seq
			if seq, err = s.Append(context.Background(), "run_a", last, entries(acknowledged)); err == nil {
				last = seq
				acknowledged++
			}
		}
		if err := wantFull("Append of "+kind, err); err != nil {
			return err
		}
		all, err := s.Entries("run_a", 0, 0)
		if err != nil || len(all) != acknowledged {
			return fmt.Errorf("%s: %d entries, %w; %d were acknowledged", kind, len(all), err, acknowledged)
		}
		if err := d.free(); err != nil {
			return err
		}
		if last, err = s.Append(context.Background(), "run_a", last, entries(acknowledged)); err != nil {
			return fmt.Errorf("%s: with room again: %w", kind, err)
		}
		acknowledged++
	}
	return nil
}

func fullCopies(d disk, s *store.Store) error {
	if err := d.fill(); err != nil {
		return err
	}
	_, _, err := s.Compact(context.Background(), nil)
	if err := errors.Join(wantFull("Compact", err), wantFull("CopyTo", s.CopyTo(filepath.Join(d.dir, "copy"))), d.left("filler", "store.db"), d.free()); err != nil {
		return err
	}
	_, _, err = s.Compact(context.Background(), nil)
	return err
}

// After an fsync that failed, nobody knows what is on disk: what the file says counts, not what memory says.
func TestFailedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	create(t, s, "run_a")
	last, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `1`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		void(t, path)
		entry := []lattice.Entry{fact("run_a", `2`)}
		if _, err := s.Append(t.Context(), "run_a", last, entry); !errors.Is(err, syscall.EINVAL) || entry[0].Seq != 0 {
			t.Fatalf("Append whose fsync failed = %v, sequence %d", err, entry[0].Seq)
		}
		facts, _, at, err := load(s, "run_a")
		if err != nil || len(facts) != int(last) || at != last {
			t.Fatalf("after it: %d facts, last %d, %v; want %d", len(facts), at, err, last)
		}
		if last, err = s.Append(t.Context(), "run_a", last, []lattice.Entry{fact("run_a", `2`)}); err != nil {
			t.Fatalf("Append after it: %v", err)
		}
	}
}

// void makes the store's file descriptor one that takes writes and cannot sync.
func void(t *testing.T, path string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("this system does not show descriptors: %v", err)
	}
	for _, fd := range fds {
		var n int
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || to != path {
			continue
		}
		if _, err := fmt.Sscan(fd.Name(), &n); err != nil {
			t.Fatal(err)
		}
		if err := unix.Dup3(int(null.Fd()), n, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the store is not open")
}
