package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"golang.org/x/sys/unix"
)

// readFile reads a file of the box as the host does.
func readFile(t *testing.T, box *sandbox.Box, name string) (string, error) {
	t.Helper()
	f, size, err := box.Files().Open(t.Context(), name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	must(t, err)
	return string(data), nil
}

// writeFile replaces a file of the box.
func writeFile(t *testing.T, box *sandbox.Box, name, text string) error {
	t.Helper()
	content, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer content.Close()
	_, err = content.WriteString(text)
	must(t, err)
	_, err = box.Files().Write(t.Context(), name, content, int64(len(text)), nil)
	return err
}

// said does an operation and returns the names that it emits.
func said(t *testing.T, box *sandbox.Box, op files.Op) (names []string, err error) {
	t.Helper()
	err = box.Files().Do(t.Context(), op, func(e files.Entry) error {
		names = append(names, e.Rel)
		return nil
	})
	return names, err
}

func TestFiles(t *testing.T) {
	box, cfg := start(t, false)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(cfg.Root.Dir), "secret"), []byte("host"), 0o666))
	run(t, box, `cd /workspace; printf in > f; printf '#!/bin/sh' > run; chmod 750 run; ln -s /workspace/f good; ln -s /etc/passwd users; mkfifo p
		mkdir -p d/sub shut; echo x > d/sub/x; chmod 0 shut; ln -s /proc/self/exe exe; ln -s /proc/1/root root; ln -s /proc/self/fd/3 control; ln -s /dev/zero zero; touch "$(printf 'by\377te')"; touch unreadable; chmod 0 unreadable`)
	t.Run("read", func(t *testing.T) {
		for name, want := range map[string]any{
			"/workspace/f":                 "in",
			"/workspace/good":              "in",
			"/workspace/by\xffte":          "",
			"/workspace/../tmp/x":          syscall.ENOENT,
			"/workspace/d":                 syscall.EISDIR,
			"/workspace/p":                 syscall.EINVAL,
			"/workspace/zero":              syscall.EINVAL,
			"/workspace/none":              fs.ErrNotExist,
			"/workspace/f/x":               syscall.ENOTDIR,
			"/workspace/unreadable":        syscall.EACCES,
			"/workspace/shut/x":            syscall.EACCES,
			"/workspace/exe":               syscall.ELOOP,
			"/workspace/control":           syscall.ELOOP,
			"/proc/1/mem":                  syscall.EACCES,
			"/proc/1/environ":              syscall.EACCES,
			cfg.Root.Dir:                   fs.ErrNotExist, // a name of the host's
			"/" + strings.Repeat("n", 300): syscall.ENAMETOOLONG,
		} {
			got, err := readFile(t, box, name)
			if target, failed := want.(error); failed {
				if !errors.Is(err, target) {
					t.Errorf("read %.40q = %q, %v, want %v", name, got, err, target)
				}
			} else if err != nil || got != want {
				t.Errorf("read %q = %q, %v, want %q", name, got, err, want)
			}
		}
		// The sprite's own view, not the host's.
		if got, err := readFile(t, box, "/workspace/users"); err != nil || !strings.Contains(got, "sprite:x:1000") {
			t.Errorf("the sprite's users = %q, %v", got, err)
		}
		if got, err := readFile(t, box, "/proc/sys/kernel/hostname"); err != nil || got != "sprite\n" {
			t.Errorf("a file that the kernel makes up = %q, %v", got, err)
		}
	})
	t.Run("write", func(t *testing.T) {
		for name, want := range map[string]error{
			"/workspace/new/dirs/f": nil, "/workspace/good": nil, "/home/sprite/f": nil, "/tmp/f": nil,
			"/workspace/users": fs.ErrPermission, "/skills/hello": syscall.EROFS, "/workspace/p": syscall.EINVAL, "/workspace/d": syscall.EISDIR,
			"/usr/bin/true": syscall.EROFS, "/workspace/exe": syscall.ELOOP, "/proc/1/comm": syscall.EACCES, "/workspace/f/x": syscall.ENOTDIR, "/workspace/shut/x": syscall.EACCES,
		} {
			err := writeFile(t, box, name, "written")
			if want == nil && err != nil || want != nil && !errors.Is(err, want) && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("write %s = %v, want %v", name, err, want)
			}
			if got, failed := readFile(t, box, name); err == nil && (got != "written" || failed != nil) {
				t.Errorf("%s is %q after writing, %v", name, got, failed)
			}
		}
		if out, _ := run(t, box, `cd /workspace; stat -c '%a %U' f new/dirs/f new; test -L good`); out != "644 sprite\n644 sprite\n755 sprite" {
			t.Errorf("what was written is %s", out)
		}
	})
	t.Run("operations", func(t *testing.T) {
		for name, try := range map[string]struct {
			op   files.Op
			want error
		}{
			"list":                 {files.Op{Kind: files.List, Path: []byte("/workspace/d"), Recursive: true}, nil},
			"list what is shut":    {files.Op{Kind: files.List, Path: []byte("/workspace/shut")}, syscall.EACCES},
			"take the root away":   {files.Op{Kind: files.Remove, Path: []byte("/"), Recursive: true}, syscall.EPERM},
			"take the system away": {files.Op{Kind: files.Remove, Path: []byte("/usr/bin"), Recursive: true}, syscall.EROFS},
			"give to another":      {files.Op{Kind: files.Chown, Path: []byte("/workspace/f"), User: "nobody"}, syscall.EPERM},
			"give to oneself":      {files.Op{Kind: files.Chown, Path: []byte("/workspace/f"), User: "sprite", Group: "1000"}, nil},
			"change lattice":       {files.Op{Kind: files.Chmod, Path: []byte("/workspace/exe"), Mode: 0}, syscall.ELOOP},
			"copy lattice":         {files.Op{Kind: files.Copy, Path: []byte("/workspace/exe"), Dest: []byte("/workspace/lattice")}, syscall.ELOOP},
			"copy":                 {files.Op{Kind: files.Copy, Path: []byte("/workspace/d"), Dest: []byte("/workspace/e"), Recursive: true}, nil},
		} {
			if _, err := said(t, box, try.op); try.want == nil && err != nil || try.want != nil && !errors.Is(err, try.want) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s = %v, want %v", name, err, try.want)
			}
		}
		// As mv does: a rename across file systems copies.
		if _, err := said(t, box, files.Op{Kind: files.Rename, Path: []byte("/workspace/e"), Dest: []byte("/var/cache/sprite/e")}); err != nil {
			t.Errorf("rename across file systems = %v", err)
		}
		out, _ := run(t, box, `test -e /var/cache/sprite/e/sub/x && test ! -e /workspace/e && test -e /workspace/f && test -d /workspace/d/sub && echo whole`)
		if out != "whole" {
			t.Error("an operation that was refused took something away")
		}
	})
	t.Run("the error of whoever listens", func(t *testing.T) {
		enough := errors.New("enough")
		err := box.Files().Do(t.Context(), files.Op{Kind: files.List, Path: []byte("/usr"), Recursive: true}, func(files.Entry) error { return enough })
		if !errors.Is(err, enough) {
			t.Errorf("Do = %v", err)
		}
	})
	t.Run("the caller goes away", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := box.Files().Do(ctx, files.Op{Kind: files.List, Path: []byte("/usr"), Recursive: true}, func(files.Entry) error { cancel(); return nil })
		if err == nil {
			t.Error("Do went on")
		}
		if _, err := readFile(t, box, "/workspace/f"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// While a sprite turns a folder into a link and back, as fast as it can, no call reads or writes outside it.
func TestFilesRace(t *testing.T) {
	box, cfg := start(t, false)
	outside := filepath.Join(filepath.Dir(cfg.Root.Dir), "outside")
	must(t, os.Mkdir(outside, 0o777))
	must(t, os.Chmod(outside, 0o777))
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("host"), 0o666))
	run(t, box, fmt.Sprintf(`cd /workspace; mkdir d; echo sprite > d/f; ln -s %s l`, outside))
	// The host flips the sprite's own files, which is faster than anything in the sprite.
	work := filepath.Join(cfg.Root.Dir, "workspace")
	stop := make(chan struct{})
	var flipper sync.WaitGroup
	flipper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, work+"/d", unix.AT_FDCWD, work+"/l", unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	reached := 0
	for i := range 300 {
		if got, err := readFile(t, box, "/workspace/d/f"); err == nil {
			reached++
			if !strings.HasPrefix(got, "sprite") {
				t.Errorf("read %q", got)
			}
		}
		_ = writeFile(t, box, "/workspace/d/f", "sprite again")
		if _, err := said(t, box, files.Op{Kind: files.Copy, Path: []byte("/workspace/d/f"), Dest: fmt.Appendf(nil, "/workspace/d/%d", i)}); err == nil {
			_, _ = said(t, box, files.Op{Kind: files.Remove, Path: fmt.Appendf(nil, "/workspace/d/%d", i)})
		}
	}
	close(stop)
	flipper.Wait()
	if reached == 0 {
		t.Error("the race was never won: it proves nothing")
	}
	left, err := os.ReadDir(outside)
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(outside, "f")); len(left) != 1 || string(text) != "host" {
		t.Errorf("outside are %v, %q, %v", left, text, err)
	}
}

// Writers at the same file leave one of their texts, whole, and readers see none but whole ones.
func TestFilesAtomic(t *testing.T) {
	box, _ := start(t, false)
	const long = 200 << 10
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), long) }
	must(t, writeFile(t, box, "/workspace/f", text(0)))
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 5 {
				if err := writeFile(t, box, "/workspace/f", text(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		got, err := readFile(t, box, "/workspace/f")
		if err != nil || len(got) != long || strings.Trim(got, got[:1]) != "" {
			t.Errorf("read %d bytes of several texts, %v", len(got), err)
		}
	}
	writers.Wait()
	if out, _ := run(t, box, "ls -A /workspace"); out != "f" {
		t.Errorf("left behind: %s", out)
	}
}

func TestFilesWatch(t *testing.T) {
	box, _ := start(t, false)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	ended := make(chan error, 1)
	go func() {
		ended <- box.Files().Watch(t.Context(), theirs)
		theirs.Close()
	}()
	must(t, json.NewEncoder(ours).Encode(files.Subscription{Paths: [][]byte{[]byte("/workspace")}, Recursive: true}))
	events := json.NewDecoder(ours)
	next := func() (e files.Event) {
		must(t, events.Decode(&e))
		return e
	}
	if e := next(); e.Type != files.Subscribed {
		t.Fatalf("told %+v", e)
	}
	run(t, box, "mkdir -p /workspace/a/b; echo x > /workspace/a/b/c")
	for e := next(); string(e.Path) != "/workspace/a/b/c" || e.Event != "create"; e = next() {
		if e.Type != files.Changed {
			t.Fatalf("told %+v", e)
		}
	}
	ours.Close()
	must(t, <-ended)
}

func BenchmarkFilesOpen(b *testing.B) {
	dir := b.TempDir()
	cfg, err := config(dir, false)
	if err != nil {
		b.Fatal(err)
	}
	box, err := sandbox.Start(cfg)
	if err != nil {
		b.Skip(err)
	}
	defer box.Stop()
	if err := os.WriteFile(filepath.Join(cfg.Root.Dir, "workspace", "f"), []byte("text"), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, _, err := box.Files().Open(b.Context(), "/workspace/f")
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
