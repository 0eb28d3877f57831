package workspace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
)

// Change is one file of several that change together.
type Change struct {
	Name   string
	Data   []byte
	Mode   fs.FileMode // 0 keeps the mode of the file that is replaced, 0644 for a new one
	Remove bool        // the file goes away; Data and Mode do not count
}

// ReplaceTogether makes all changes or none. All new content is on disk before the first name changes, so that a full
// disk changes nothing; when a later step fails, the names that changed are changed back, and folders that were made are
// removed. A reader may see some files changed and others not yet, and a process that is killed in between leaves it so.
// Names are of regular files, each once; symlinks are not followed. Missing folders are made.
func (r *Root) ReplaceTogether(changes []Change) (err error) {
	var undo []func() error
	var temps []temp
	defer func() {
		if err != nil {
			for _, back := range slices.Backward(undo) {
				err = errors.Join(err, back())
			}
		}
		for _, t := range temps {
			r.rootOf(t.name).Remove(t.name) // missing if it was renamed; a sweep removes the rest
			t.file.Close()
		}
	}()
	staged := make([]temp, len(changes)) // without a file for those that remove
	for i, c := range changes {
		if c.Remove {
			continue
		}
		made, err := r.makeParents(c.Name)
		undo = append(undo, made)
		if err != nil {
			return err
		}
		t, err := r.stageChange(c)
		if t.file != nil {
			temps = append(temps, t)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", c.Name, err)
		}
		staged[i] = t
	}
	folders := map[string]bool{}
	for i, c := range changes {
		dir := path.Dir(c.Name)
		folders[dir] = true
		old, err := r.setAside(c.Name, dir, c.Remove)
		if err != nil {
			return err
		}
		if old.file != nil {
			temps = append(temps, old)
			undo = append(undo, func() error { return r.rootOf(old.name).Rename(old.name, c.Name) })
		}
		if c.Remove {
			continue
		}
		if err := r.rootOf(staged[i].name).Rename(staged[i].name, c.Name); err != nil {
			return fmt.Errorf("write %s: %w", c.Name, r.explainError(err))
		}
		if old.file == nil {
			undo = append(undo, func() error { return r.rootOf(c.Name).Remove(c.Name) })
		}
	}
	for dir := range folders {
		// A folder that became empty may be removed by another; its names are then no concern.
		if err := r.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// stageChange writes the new content where it can be renamed from.
func (r *Root) stageChange(c Change) (temp, error) {
	mode := c.Mode
	switch info, err := r.rootOf(c.Name).Lstat(c.Name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return temp{}, r.explainError(err)
	case !info.Mode().IsRegular():
		return temp{}, fmt.Errorf("%w: %s is %s", ErrUnsafe, c.Name, kindOf(info.Mode()))
	case mode == 0:
		mode = info.Mode().Perm()
	}
	mode = cmp.Or(mode, 0o644)
	t, err := r.temps.createFile(path.Dir(c.Name))
	if err != nil {
		return temp{}, err
	}
	_, err = bytes.NewReader(c.Data).WriteTo(t.file)
	if err == nil {
		err = t.file.Chmod(mode.Perm())
	}
	if err == nil {
		err = t.file.Sync()
	}
	return t, err
}

// setAside gives the file at name a temporary name, from which it can come back: instead of its own with away, in addition
// to it otherwise. The temp has no file if name does not exist. The file stays open and locked, because a sweep removes
// files without a lock.
func (r *Root) setAside(name, dir string, away bool) (temp, error) {
	f, err := r.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return temp{}, nil
	}
	if err != nil {
		return temp{}, err
	}
	place, prefix, err := r.temps.findPlace(dir)
	if err == nil {
		// A file that another process has locked is held as well.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		t := temp{f, path.Join(place, prefix+randomName())}
		if !away {
			err = r.rootOf(name).Link(name, t.name)
		}
		if away || err != nil { // not every file system has links
			err = r.rootOf(name).Rename(name, t.name)
		}
		if err == nil {
			return t, nil
		}
	}
	return temp{}, errors.Join(fmt.Errorf("keep %s: %w", name, r.explainError(err)), f.Close())
}

// makeParents makes the parent folders of name, and returns a function that removes the new ones.
func (r *Root) makeParents(name string) (undo func() error, err error) {
	var made []string
	undo = func() error {
		for _, dir := range made {
			r.rootOf(dir).Remove(dir) // not empty if another process uses it
		}
		return nil
	}
	var missing []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := r.rootOf(dir).Stat(dir); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return undo, r.explainError(err)
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := r.rootOf(dir).Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return undo, r.explainError(err)
		}
		made = slices.Insert(made, 0, dir)
	}
	return undo, nil
}
