package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// prepareFolders makes missing folders of the host that the box needs, and gives the folders, but not their entries, to their owners.
func prepareFolders(c spec.Config) error {
	uid, gid := c.Owner()
	if err := os.MkdirAll(c.Cache, 0o755); err != nil {
		return fmt.Errorf("make sandbox folder: %w", err)
	}
	top := c.Root.Dir
	if top == "" {
		if err := emptyWork(c.Root); err != nil {
			return err
		}
		if local, ok := c.Local(); ok {
			if err := errors.Join(emptyWork(*local), c.MakeLocal()); err != nil {
				return err
			}
		}
		top = c.Root.Upper
	}
	if c.Level == spec.LevelRoot {
		rootUID, rootGID := spec.BoxRoot(uid, gid)
		if err := errors.Join(os.Lchown(c.Cache, uid, gid), os.Lchown(top, rootUID, rootGID)); err != nil {
			return fmt.Errorf("give sandbox folder to its user: %w", err)
		}
	}
	if c.Root.Dir != "" && !c.Plain() && c.HasLocal() {
		if err := c.MakeLocal(); err != nil {
			return err
		}
	}
	if c.Plain() { // else init makes missing ones
		if err := spec.Skeleton(c.Root.Dir, -1, -1); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(c.Run, "checkpoints")); err != nil { // places of an earlier box
		return fmt.Errorf("make places for checkpoints: %w", err)
	}
	if !c.Plain() {
		if err := placeSudo(c); err != nil {
			return err
		}
	}
	for _, p := range c.Points {
		if err := placePoint(c, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// placeSudo makes /.sprite/sbin/sudo, and the place over which the program that it starts is shown.
func placeSudo(c spec.Config) error {
	dir := filepath.Join(c.Run, "sbin")
	why := strings.ReplaceAll(cmp.Or(c.NoRoot, "it was made without"), "'", "")
	script := "#!/bin/sh\nexec /.sprite/sbin/init " + spec.InitArg + " " + spec.StageSudo
	switch {
	case c.LoneRoot():
		script += " " + spec.AloneArg + " '" + why + "' \"$@\"\n"
	case c.Rooted():
		script += " \"$@\"\n"
	default:
		script = "#!/bin/sh\necho 'sudo: this sprite has no root: " + why + "' >&2\nexit 1\n"
	}
	err := os.MkdirAll(dir, 0o755)
	for name, text := range map[string]string{"sudo": script, "init": ""} {
		if err == nil {
			path := filepath.Join(dir, name)
			if is, readErr := os.ReadFile(path); readErr == nil && string(is) == text {
				continue
			}
			err = errors.Join(os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)) // regardless of the umask
		}
	}
	if err != nil {
		return fmt.Errorf("make a place for sudo: %w", err)
	}
	return nil
}

// placePoint makes the folder over which a checkpoint is shown.
func placePoint(c spec.Config, id string) error {
	if err := os.MkdirAll(filepath.Join(c.Run, "checkpoints", id), 0o755); err != nil {
		return fmt.Errorf("make a place for checkpoint %s: %w", id, err)
	}
	return nil
}

// emptyWork readies an overlay's work folder. The remains of a box that was killed must not be used again; the index of hard
// links belongs to the upper layer, and stays.
func emptyWork(r spec.Root) error {
	if err := os.Mkdir(r.Work, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the work folder of an overlay: %w", err)
	}
	left := filepath.Join(r.Work, "work")
	if err := os.Chmod(left, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := tree.Remove(left); err != nil {
		return fmt.Errorf("empty the work folder of an overlay: %w", err)
	}
	return nil
}
