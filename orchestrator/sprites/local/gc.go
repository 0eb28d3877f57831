package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/sprites/local/tree"
)

// sweep makes the host's folders and removes what host.db does not refer to.
func (h *Host) sweep() error {
	for _, wiped := range []string{"tmp", "trash", "run"} {
		if err := removeAll(filepath.Join(h.cfg.Dir, wiped)); err != nil {
			return err
		}
	}
	for _, name := range []string{"trees", "tmp", "trash", "run", "cache"} {
		if err := os.MkdirAll(filepath.Join(h.cfg.Dir, name), 0o711); err != nil {
			return err
		}
	}
	trees, ids, err := h.store.referenced()
	if err != nil {
		return err
	}
	if err := h.removeUnknown("trees", trees); err != nil {
		return err
	}
	return h.removeUnknown("cache", ids)
}

func (h *Host) removeUnknown(folder string, known map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(h.cfg.Dir, folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		if err := removeAll(filepath.Join(h.cfg.Dir, folder, e.Name())); err != nil {
			return err
		}
		h.cfg.Log.Debug().Str("folder", folder).Str("name", e.Name()).Msg("removed what nothing refers to")
	}
	return nil
}

func removeAll(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return tree.Remove(dir)
}

// newTree makes an empty tree, complete and durable, and returns its name.
func (h *Host) newTree() (string, error) {
	uid, gid := h.owner()
	return h.buildTree(func(dir string) error {
		for _, d := range []struct {
			name string
			mode os.FileMode
		}{
			{".", 0o755}, {"workspace", 0o755}, {"home", 0o755}, {"home/sprite", 0o755}, {"tmp", 0o777 | os.ModeSticky},
		} {
			path := filepath.Join(dir, d.name)
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			if err := os.Lchown(path, uid, gid); err != nil {
				return err
			}
			// Again, because the umask took part above.
			if err := os.Chmod(path, d.mode); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyTree makes a durable copy of a tree and returns its name. Processes may write to the tree meanwhile: what they
// write then may be in the copy or not.
func (h *Host) copyTree(ctx context.Context, from string) (string, error) {
	return h.buildTree(func(dir string) error { return tree.Copy(ctx, h.treeDir(from), dir) })
}

// buildTree has fill make a tree in tmp/, then syncs it and moves it to trees/. Nothing stays behind after an error.
func (h *Host) buildTree(fill func(dir string) error) (name string, err error) {
	name = ulid.Make().String()
	staged, final := filepath.Join(h.cfg.Dir, "tmp", name), h.treeDir(name)
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(staged), removeAll(final))
		}
	}()
	if err := fill(staged); err != nil {
		return "", fmt.Errorf("make tree: %w", err)
	}
	h.step("filled")
	if err := tree.Sync(staged); err != nil {
		return "", fmt.Errorf("sync tree: %w", err)
	}
	if err := os.Rename(staged, final); err != nil {
		return "", fmt.Errorf("place tree: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(final)); err != nil {
		return "", fmt.Errorf("place tree: %w", err)
	}
	h.step("placed")
	return name, nil
}

// degraded says why the files of a sprite or checkpoint cannot be used, "" when they can.
func (h *Host) degraded(treeName string) string {
	if _, err := os.Lstat(filepath.Join(h.treeDir(treeName), "workspace")); err != nil {
		return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
	}
	return ""
}
