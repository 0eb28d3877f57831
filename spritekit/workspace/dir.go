package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// OpenDir opens a directory, to list it or to open files in it.
func (r *Root) OpenDir(name string) (*os.File, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return nil, err
	}
	d, err := r.rootOf(rel).OpenFile(rel, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	return d, r.explainError(err)
}

// Real returns the path, relative to the root, of name with its symlinks resolved; elements that do not exist are kept. A
// symlink may change a moment later, so the result serves to warn, never to confine.
func (r *Root) Real(name string) (string, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return "", err
	}
	missing := ""
	for p := rel; p != "."; p = path.Dir(p) {
		real, err := filepath.EvalSymlinks(r.Own(p))
		if errors.Is(err, fs.ErrNotExist) {
			if _, lerr := r.rootOf(p).Lstat(p); lerr == nil {
				return "", fmt.Errorf("%w: %s leads nowhere", ErrUnsafe, p)
			}
			missing = path.Join(path.Base(p), missing)
			continue
		}
		if err != nil {
			if _, serr := r.Stat(p); serr != nil {
				return "", serr // the same, with the path, and a loop told as one
			}
			return "", err
		}
		inside, err := filepath.Rel(r.baseOf(p), real)
		if err != nil || !filepath.IsLocal(inside) {
			return "", fmt.Errorf("%w: %s leads out of the workspace", ErrUnsafe, p)
		}
		return path.Join(filepath.ToSlash(inside), missing), nil
	}
	return path.Join(".", missing), nil
}

// Mkdir makes one directory; its parent must exist, and nothing of its name.
func (r *Root) Mkdir(name string, mode fs.FileMode) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	return r.explainError(r.rootOf(rel).Mkdir(rel, mode.Perm()))
}

// Chmod changes the permission bits of the file that name refers to.
func (r *Root) Chmod(name string, mode fs.FileMode) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	return r.explainError(r.rootOf(rel).Chmod(rel, mode.Perm()))
}

// Symlink makes a symlink. Its target is not judged: one that leads out is refused when it is followed.
func (r *Root) Symlink(target, name string) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	return r.explainError(r.rootOf(rel).Symlink(target, rel))
}

// Link gives a file a second name, which must not exist yet. It follows no symlink in the last place.
func (r *Root) Link(from, to string) error {
	a, err := r.Rel(from)
	if err != nil {
		return err
	}
	b, err := r.Rel(to)
	if err != nil {
		return err
	}
	if r.rootOf(a) != r.rootOf(b) {
		return fmt.Errorf("link %s to %s: %w", a, b, syscall.EXDEV)
	}
	return r.explainError(r.rootOf(a).Link(a, b))
}
