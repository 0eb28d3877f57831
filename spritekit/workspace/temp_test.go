package workspace_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// What a dead writer left is swept by the next process that writes; what a live one holds is not, and nothing that is no
// temporary file is touched.
func TestSweep(t *testing.T) {
	t.Parallel()
	_, dir, secret := open(t)
	temp := filepath.Join(dir, workspace.TempDir)
	live := filepath.Join(temp, "live")
	err := errors.Join(
		os.MkdirAll(filepath.Join(temp, "dead-folder/sub"), 0o755),
		os.WriteFile(filepath.Join(temp, "dead-folder/sub/x"), nil, 0o644),
		os.WriteFile(filepath.Join(temp, "dead"), []byte("half"), 0o600),
		os.WriteFile(live, []byte("half"), 0o600),
		os.Symlink(secret, filepath.Join(temp, "planted-link")),
		syscall.Mkfifo(filepath.Join(temp, "planted-fifo"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(live)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	r, err := workspace.Open(dir) // another process
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.WriteFile("repo/new", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != "live planted-fifo planted-link" {
		t.Errorf("left %q", got)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("what a link points to holds %q, %v", data, err)
	}
}

// Sweeps of many processes never take what another is writing.
func TestWritersAndSweepsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				r, err := workspace.Open(dir) // each sweeps once
				if err != nil {
					t.Error(err)
					return
				}
				if err := r.WriteFile("f", []byte("content"), 0); err != nil {
					t.Error(err)
				}
				scratch, release, err := r.Scratch(".")
				if err != nil {
					t.Error(err)
				} else {
					if _, err := os.Stat(scratch); err != nil {
						t.Errorf("a folder in use was swept: %v", err)
					}
					release()
				}
				r.Close()
			}
		})
	}
	group.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, workspace.TempDir)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestScratchCanBeRenamed(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	scratch, release, err := r.Scratch("repo")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(scratch, "x"), nil, 0o644), os.Rename(scratch, filepath.Join(dir, "repo/made")))
	release()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "repo/made/x")); err != nil {
		t.Errorf("what was renamed is gone: %v", err)
	}
	scratch, release, err = r.Scratch("repo")
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat(scratch); err == nil {
		t.Errorf("%s is left", scratch)
	}
}

// The runtime's own files follow no link, also not one inside the workspace: it leads to a file of the user's.
func TestOpenOwnFollowsNoLink(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	if err := os.Symlink("../repo/a", filepath.Join(dir, ".lattice/outbox")); err != nil {
		t.Fatal(err)
	}
	if f, _, err := r.Runtime().Open(".lattice/outbox"); !errors.Is(err, workspace.ErrUnsafe) {
		t.Errorf("Open = %v, %v, want ErrUnsafe", f, err)
	}
	for i, want := range []bool{true, false} {
		f, made, err := r.Runtime().Open(".lattice/calls/x")
		if err != nil || made != want {
			t.Fatalf("Open, time %d = made %v, %v", i, made, err)
		}
		if _, err := f.WriteString("line\n"); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			data, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
			if err != nil || string(data) != "line\nline\n" {
				t.Errorf("it holds %q, %v", data, err)
			}
		}
		f.Close()
	}
	// Nor does a folder of theirs.
	if err := os.Symlink("../repo", filepath.Join(dir, ".lattice/spill")); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteFile(".lattice/spill/new", nil, 0); !errors.Is(err, workspace.ErrPlanted) {
		t.Errorf("WriteFile = %v, want ErrPlanted", err)
	}
	// Replacing one replaces the link.
	if err := r.WriteFile(".lattice/outbox", []byte("mine"), 0); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "repo/a")); err != nil || string(data) != "0123456789" {
		t.Errorf("the user's file holds %q, %v", data, err)
	}
}
