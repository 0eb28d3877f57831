package workspace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/spritekit/durable"
)

// WriteFile replaces a file atomically: a temporary file (see temp.go), fsync, rename, fsync of the directory, which must
// exist. mode 0 keeps the mode of the file that is replaced, 0644 for a new one. A symlink in the last place is followed
// inside the root. When it fails, for want of space for example, the old file is as it was and nothing is left behind.
//
// The runtime's own folders, below .lattice, are made. Only a stranger would put a symlink there: one in the place of the
// file is replaced, one in the place of a folder refused.
func (r *Root) WriteFile(name string, data []byte, mode fs.FileMode) error {
	_, err := r.WriteFrom(name, bytes.NewReader(data), mode)
	return err
}

// WriteFrom is WriteFile with the content of src, and returns its size. When src fails the old file stays.
func (r *Root) WriteFrom(name string, src io.Reader, mode fs.FileMode) (int64, error) {
	rel, err := r.Rel(name)
	switch {
	case err != nil:
	case isOwn(rel):
		err = r.Runtime().makeDir(path.Dir(rel))
	default:
		rel, err = r.resolveTarget(name)
	}
	if err != nil {
		return 0, err
	}
	if info, err := r.rootOf(rel).Lstat(rel); err == nil && (!isOwn(rel) || info.Mode()&fs.ModeSymlink == 0) {
		if !info.Mode().IsRegular() {
			if info.IsDir() {
				return 0, &fs.PathError{Op: "write", Path: rel, Err: syscall.EISDIR}
			}
			return 0, fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, name)
		}
		if mode == 0 {
			mode = info.Mode().Perm()
		}
	}
	mode = cmp.Or(mode, 0o644)
	return r.replaceFile(rel, src, mode)
}

// resolveTarget follows a symlink in the last place, so that writing through a link replaces its target.
func (r *Root) resolveTarget(name string) (string, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return "", err
	}
	for range 40 { // as many as the kernel follows
		info, err := r.rootOf(rel).Lstat(rel)
		if errors.Is(err, fs.ErrNotExist) {
			return rel, nil
		}
		if err != nil {
			return "", r.explainError(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return rel, nil
		}
		link, err := r.rootOf(rel).Readlink(rel)
		if err != nil {
			return "", r.explainError(err)
		}
		if path.IsAbs(link) {
			return "", fmt.Errorf("%w: %s is a symlink to the absolute path %s", ErrUnsafe, name, link)
		}
		// ".." of the link counts from the real parent. os.Root judges the outcome again when it is used.
		parent, err := filepath.EvalSymlinks(r.Own(path.Dir(rel)))
		if err != nil {
			return "", err
		}
		if rel, err = r.Rel(filepath.Join(parent, link)); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: %s is a loop of symlinks", ErrUnsafe, name)
}

// replaceFile needs two fsyncs, and gets no more: that of the content, or power loss after the rename could leave a file of
// zeroes under the name, and that of the directory, or the result that tells of the file could outlive it.
func (r *Root) replaceFile(rel string, src io.Reader, mode fs.FileMode) (n int64, err error) {
	t, err := r.temps.createFile(path.Dir(rel))
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			r.rootOf(t.name).Remove(t.name) // best effort: the first error is the one to tell
		}
	}()
	n, err = io.Copy(t.file, src)
	if err == nil {
		err = t.file.Chmod(mode.Perm())
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err == nil { // under the lock, or a sweep could take it for a dead writer's
		err = r.explainError(r.rootOf(t.name).Rename(t.name, rel))
	}
	if err = errors.Join(err, t.file.Close()); err != nil {
		return n, fmt.Errorf("write %s: %w", rel, err)
	}
	return n, r.SyncDir(path.Dir(rel))
}

// SyncDir makes the names in a directory durable.
func (r *Root) SyncDir(name string) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	d, err := r.rootOf(rel).OpenFile(rel, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return r.explainError(err)
	}
	return durable.CloseDir(d)
}

// MkdirAll makes a directory and its parents, 0755 where they are missing.
func (r *Root) MkdirAll(name string) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	return r.explainError(r.rootOf(rel).MkdirAll(rel, 0o755))
}

// Remove removes a file, a symlink or an empty directory.
func (r *Root) Remove(name string) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	return r.explainError(r.rootOf(rel).Remove(rel))
}

// RemoveAll removes a tree, never following a symlink. The root itself is refused.
func (r *Root) RemoveAll(name string) error {
	rel, err := r.Rel(name)
	if err != nil {
		return err
	}
	if rel == "." {
		return fmt.Errorf("%w: %s is the workspace itself", ErrUnsafe, name)
	}
	return r.explainError(r.rootOf(rel).RemoveAll(rel))
}

// Rename moves a file or directory inside the root.
func (r *Root) Rename(from, to string) error {
	a, err := r.Rel(from)
	if err != nil {
		return err
	}
	b, err := r.Rel(to)
	if err != nil {
		return err
	}
	if r.rootOf(a) != r.rootOf(b) {
		return fmt.Errorf("move %s to %s: %w", a, b, syscall.EXDEV)
	}
	return r.explainError(r.rootOf(a).Rename(a, b))
}
