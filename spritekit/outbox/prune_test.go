package outbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// A link in the place of the folder leads to files of the user's: nothing there is counted or removed.
func TestPruneSpillFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	mine := filepath.Join(dir, "mine", "file")
	err = errors.Join(os.MkdirAll(filepath.Dir(mine), 0o755), os.WriteFile(mine, []byte("x"), 0o644),
		os.Mkdir(filepath.Join(dir, protocol.Dir), 0o755), os.Symlink("../mine", filepath.Join(dir, outbox.SpillDir)))
	if err != nil {
		t.Fatal(err)
	}
	none := func() (map[string]bool, error) { return nil, nil }
	if err := outbox.PruneSpill(root, 0, 0, none); !errors.Is(err, workspace.ErrPlanted) {
		t.Errorf("PruneSpill = %v, want ErrPlanted", err)
	}
	if _, err := os.Lstat(mine); err != nil {
		t.Errorf("the user's file is gone: %v", err)
	}
}

func TestPruneSpill(t *testing.T) {
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var names []string // oldest first
	for i, letter := range []string{"a", "b", "c", "d", "e"} {
		ref, err := outbox.Spill(root, []byte(strings.Repeat(letter, 1000)))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, ref.Path), at, at); err != nil {
			t.Fatal(err)
		}
		names = append(names, ref.SHA256)
	}
	asked := 0
	pinned := func() (map[string]bool, error) { asked++; return map[string]bool{names[0]: true}, nil }
	if err := outbox.PruneSpill(root, 5000, 1, pinned); err != nil || asked != 0 {
		t.Errorf("within its budget: %v, asked %d times what must stay", err, asked)
	}
	if err := outbox.PruneSpill(root, 1500, 2, pinned); err != nil {
		t.Fatal(err)
	}
	left := ""
	for i, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, outbox.SpillDir, name)); err == nil {
			left += string(rune('a' + i))
		}
	}
	if left != "ade" {
		t.Errorf("%q stay, want the pinned one and the two newest", left)
	}
	// What is spilled again is as good as new: somebody is about to read it.
	if _, err := outbox.Spill(root, []byte(strings.Repeat("d", 1000))); err != nil {
		t.Fatal(err)
	}
	if err := outbox.PruneSpill(root, 0, 1, func() (map[string]bool, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, outbox.SpillDir, names[3])); err != nil {
		t.Errorf("what was spilled again is gone: %v", err)
	}
}
