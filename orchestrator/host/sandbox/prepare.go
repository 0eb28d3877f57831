package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// prepare makes the folders of the host that the box needs and that are missing, and gives them, not what lies in them, to
// their owners.
func (c Config) prepare() error {
	uid, gid := c.Owner()
	if err := os.MkdirAll(c.Cache, 0o755); err != nil {
		return fmt.Errorf("make sandbox folder: %w", err)
	}
	top := c.Root.Dir
	if top == "" {
		if err := c.Root.emptyWork(); err != nil {
			return err
		}
		top = c.Root.Upper
	}
	if c.Level == LevelRoot {
		rootUID, rootGID := boxRoot(uid, gid)
		if err := errors.Join(os.Lchown(c.Cache, uid, gid), os.Lchown(top, rootUID, rootGID)); err != nil {
			return fmt.Errorf("give sandbox folder to its user: %w", err)
		}
	}
	if c.plain() { // else init makes what is missing
		if err := Skeleton(c.Root.Dir, -1, -1); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(c.Run, "checkpoints")); err != nil { // places of an earlier box
		return fmt.Errorf("make places for checkpoints: %w", err)
	}
	if !c.plain() {
		if err := c.placeSudo(); err != nil {
			return err
		}
	}
	for _, p := range c.Points {
		if err := c.pointPlace(p.ID); err != nil {
			return err
		}
	}
	return nil
}

// placeSudo makes /.sprite/sbin/sudo, and the place over which the program that it starts is shown.
func (c Config) placeSudo() error {
	dir := filepath.Join(c.Run, "sbin")
	script := "#!/bin/sh\nexec /.sprite/sbin/init " + InitArg + " " + stageSudo + " \"$@\"\n"
	if !c.AsRoot || c.Level != LevelRoot {
		why := c.NoRoot
		if why == "" {
			why = "it was made without"
		}
		script = "#!/bin/sh\necho 'sudo: this sprite has no root: " + strings.ReplaceAll(why, "'", "") + "' >&2\nexit 1\n"
	}
	err := os.MkdirAll(dir, 0o755)
	for name, text := range map[string]string{"sudo": script, "init": ""} {
		if err == nil {
			path := filepath.Join(dir, name)
			if is, readErr := os.ReadFile(path); readErr == nil && string(is) == text {
				continue
			}
			err = errors.Join(os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)) // whatever the umask
		}
	}
	if err != nil {
		return fmt.Errorf("make a place for sudo: %w", err)
	}
	return nil
}

// pointPlace makes the folder over which a checkpoint is shown.
func (c Config) pointPlace(id string) error {
	if err := os.MkdirAll(filepath.Join(c.Run, "checkpoints", id), 0o755); err != nil {
		return fmt.Errorf("make a place for checkpoint %s: %w", id, err)
	}
	return nil
}

// emptyWork readies an overlay's work folder. What a box that was killed left there must not be used again; the index of hard
// links belongs to the upper layer, and stays.
func (r Root) emptyWork() error {
	if err := os.Mkdir(r.Work, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the work folder of an overlay: %w", err)
	}
	left := filepath.Join(r.Work, "work")
	if err := os.Chmod(left, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(left); err != nil {
		return fmt.Errorf("empty the work folder of an overlay: %w", err)
	}
	return nil
}

// check refuses a root that is not whole, and paths that mean nothing.
func (r Root) check(level Level) error {
	switch {
	case r.Dir != "" && (r.Upper != "" || len(r.Lower) > 0):
		return errors.New("sandbox: Root is either a tree or an overlay")
	case r.Dir != "":
		return absoluteBelow("Root", r.Dir)
	case level == LevelProcess:
		return errors.New("sandbox: a plain process tree needs Root.Dir: it has no mounts")
	case len(r.Lower) == 0:
		return errors.New("sandbox: Root.Lower names no layer")
	}
	for _, l := range r.Lower {
		if err := absoluteBelow("Root.Lower", l); err != nil {
			return err
		}
	}
	return nil
}

func (r Root) checkWritable(level Level) error {
	if err := r.check(level); err != nil || r.Dir != "" {
		return err
	}
	return errors.Join(absoluteBelow("Root.Upper", r.Upper), absoluteBelow("Root.Work", r.Work))
}

func (p Point) check() error {
	if p.ID == "" || strings.ContainsAny(p.ID, "/\x00") || p.ID == "." || p.ID == ".." {
		return fmt.Errorf("sandbox: %q cannot name a checkpoint", p.ID)
	}
	return p.Root.check(LevelRoot)
}

func absoluteBelow(name, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return fmt.Errorf("sandbox: %s must be an absolute path below /, not %q", name, path)
	}
	return nil
}
