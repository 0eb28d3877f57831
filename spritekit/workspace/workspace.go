// Package workspace confines the file access of a skill to one directory tree, usually /workspace. Look at Root first.
//
// A path is relative to the root, or absolute below it: "/workspace/repo/a" and "repo/a" name the same file. "..",
// absolute paths elsewhere and symlinks that leave the tree are refused with an error that wraps ErrUnsafe, as is
// reading from anything but a regular file: a planted FIFO or device never blocks a skill. Files are replaced
// atomically, so that a reader sees the old content or the new one.
//
// The package keeps no state but the open directory, and never changes the working directory of the process. The
// runtime's own files live below .lattice in the same tree; skills that write for a caller ask Reserved first.
package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrUnsafe is wrapped by every refusal of a path that is outside of the root or not a regular file.
var ErrUnsafe = errors.New("unsafe path")

// ErrTooLarge is wrapped when a file is larger than the caller's limit.
var ErrTooLarge = errors.New("file too large")

// Root confines all file access to one directory tree. Its methods may be called concurrently.
type Root struct {
	dir    string // absolute, symlinks resolved
	given  string // absolute, as the caller named it
	root   *os.Root
	state  *os.Root // of the runtime's own files where they lie in another tree, else nil
	held   string   // the directory of state, absolute, symlinks resolved
	escape error    // the error of os.Root for paths that leave it
	temps  temps
}

// Open opens dir as a workspace root. dir must exist.
func Open(dir string) (*Root, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	real, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	// The sentinel of os.Root is not exported; asking for the parent makes it show itself.
	_, escape := root.Lstat("..")
	if perr, ok := errors.AsType[*fs.PathError](escape); ok {
		escape = perr.Err
	}
	r := &Root{dir: real, given: given, root: root, escape: escape}
	r.temps.root = r
	return r, nil
}

// OpenWithState is Open of a workspace whose .lattice, the runtime's own files, lies in the directory state instead, so that
// nothing of the runtime's is left in a folder of the user's. An empty state is Open; a missing one is made.
func OpenWithState(dir, state string) (*Root, error) {
	r, err := Open(dir)
	if err != nil || state == "" {
		return r, err
	}
	if err = os.MkdirAll(state, 0o700); err == nil {
		if state, err = filepath.Abs(state); err == nil {
			if state, err = filepath.EvalSymlinks(state); err == nil {
				r.held = state
				r.state, err = os.OpenRoot(state)
			}
		}
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("open the state of a workspace: %w", err)
	}
	return r, nil
}

// Close releases the directories.
func (r *Root) Close() error {
	err := r.root.Close()
	if r.state != nil {
		err = errors.Join(err, r.state.Close())
	}
	return err
}

// rootOf is the tree that a path relative to the root lies in.
func (r *Root) rootOf(rel string) *os.Root {
	if r.state != nil && isOwn(rel) {
		return r.state
	}
	return r.root
}

// baseOf is the directory of that tree.
func (r *Root) baseOf(rel string) string {
	if r.state != nil && isOwn(rel) {
		return r.held
	}
	return r.dir
}

// Own returns the absolute path of one relative to the root, such as that of one of the runtime's own files, below .lattice.
func (r *Root) Own(rel string) string {
	return filepath.Join(r.baseOf(rel), filepath.FromSlash(rel))
}

// State is the directory that holds .lattice where that is not Dir, else "".
func (r *Root) State() string { return r.held }

// Dir is the absolute path of the root, symlinks resolved, for child processes.
func (r *Root) Dir() string { return r.dir }

// Rel turns a caller's path into a clean one relative to the root, "." for the root itself. It judges the text only;
// the other methods also refuse symlinks that lead out.
func (r *Root) Rel(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: the path is empty", ErrUnsafe)
	}
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: %q contains a NUL byte", ErrUnsafe, name)
	}
	clean := filepath.Clean(name)
	if filepath.IsAbs(clean) {
		inside := ""
		for _, base := range []string{r.dir, r.given} {
			if rel, err := filepath.Rel(base, clean); err == nil && filepath.IsLocal(rel) {
				inside = rel
				break
			}
		}
		if rel, err := filepath.Rel(r.held, clean); inside == "" && r.state != nil && err == nil && isOwn(rel) {
			inside = rel
		}
		if inside == "" {
			return "", fmt.Errorf("%w: %s is outside the workspace %s", ErrUnsafe, name, r.given)
		}
		clean = inside
	}
	if !filepath.IsLocal(clean) {
		return "", fmt.Errorf("%w: %s is outside the workspace %s", ErrUnsafe, name, r.given)
	}
	return filepath.ToSlash(clean), nil
}

// Abs is Rel as an absolute path below Dir, for child processes. The path may still be a symlink.
func (r *Root) Abs(name string) (string, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return "", err
	}
	return r.Own(rel), nil
}

// Reserved reports whether a path is the runtime's own: .lattice or below, also by way of a symlink. Skills refuse to
// write there for a caller. A path that cannot be judged counts as reserved.
func (r *Root) Reserved(name string) bool {
	rel, err := r.Rel(name)
	if err != nil {
		return true
	}
	if isOwn(rel) {
		return true
	}
	// Resolve the part of the path that exists.
	for p := rel; p != "."; p = path.Dir(p) {
		real, err := filepath.EvalSymlinks(r.Own(p))
		if errors.Is(err, fs.ErrNotExist) {
			if _, lerr := r.rootOf(p).Lstat(p); lerr == nil {
				return true // a dangling symlink: where it would lead is not known to be ours to write
			}
			continue
		}
		if err != nil {
			return true
		}
		target, err := filepath.Rel(r.baseOf(p), real)
		return err != nil || isOwn(filepath.ToSlash(target))
	}
	return false
}

// Stat describes the file at a path. It follows symlinks inside the root.
func (r *Root) Stat(name string) (fs.FileInfo, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return nil, err
	}
	info, err := r.rootOf(rel).Stat(rel)
	return info, r.explainError(err)
}

// Lstat is Stat that does not follow a final symlink.
func (r *Root) Lstat(name string) (fs.FileInfo, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return nil, err
	}
	info, err := r.rootOf(rel).Lstat(rel)
	return info, r.explainError(err)
}

// Readlink returns the target of a symlink, unjudged.
func (r *Root) Readlink(name string) (string, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return "", err
	}
	target, err := r.rootOf(rel).Readlink(rel)
	return target, r.explainError(err)
}

// Open opens a regular file for reading.
func (r *Root) Open(name string) (*os.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens a regular file like os.OpenFile, never following a symlink out of the root and never blocking on a
// FIFO or device. It is for files that grow or are locked; WriteFile replaces whole files.
func (r *Root) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return nil, err
	}
	f, err := r.rootOf(rel).OpenFile(rel, flag|syscall.O_NONBLOCK, mode)
	if err != nil {
		if errors.Is(err, syscall.ENXIO) { // a FIFO without reader, or a socket
			return nil, fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, name)
		}
		return nil, r.explainError(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			err = &fs.PathError{Op: "open", Path: rel, Err: syscall.EISDIR}
		} else {
			err = fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, name)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile reads a whole regular file of at most limit bytes; a larger one is ErrTooLarge.
func (r *Root) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, name, limit)
	}
	return data, nil
}

// ReadRange reads up to length bytes from offset, less at the end of the file, and reports the size of the whole.
func (r *Root) ReadRange(name string, offset, length int64) (data []byte, size int64, err error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	data, err = io.ReadAll(io.NewSectionReader(f, offset, length))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	return data, info.Size(), nil
}

// List returns the entries of a directory, sorted by name.
func (r *Root) List(name string) ([]fs.DirEntry, error) {
	rel, err := r.Rel(name)
	if err != nil {
		return nil, err
	}
	d, err := r.rootOf(rel).OpenFile(rel, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, r.explainError(err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// explainError marks the refusals of os.Root as ErrUnsafe.
func (r *Root) explainError(err error) error {
	if err != nil && r.escape != nil && errors.Is(err, r.escape) {
		return fmt.Errorf("%w: %w (a symlink leads out of the workspace)", ErrUnsafe, err)
	}
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%w: %w (symlinks that lead to each other)", ErrUnsafe, err)
	}
	return err
}
