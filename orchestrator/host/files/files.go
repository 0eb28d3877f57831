// Package files implements the file calls of the Sprites API for both places in which they run: inside a sandbox, by its
// init, where names are resolved as for a process of the sprite; and, where there are no namespaces, on the host,
// confined to the sprite's folders.
//
// Start at [Tree], through which all accesses go, and [Do]. Operations work on names, which are absolute and clean. They
// hold no lock: the sprite's own processes may change files at any time, and such a race has the same outcome as if a
// process of the sprite had done the operation. Memory is bounded regardless of the size of a tree: an operation on many
// files emits their entries one by one ([Entry], [Encoder], [Decode]).
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/durable"
)

// Tree is a tree of files as one user sees it. Errors are those of the system calls.
type Tree interface {
	// Open is os.OpenFile: links are followed. It must not wait for the other end of a FIFO.
	Open(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// Real resolves all links of a name. Missing elements at its end stay unchanged.
	Real(name string) (string, error)
	Readlink(name string) (string, error)
	Mkdir(name string, perm fs.FileMode) error
	Mkfifo(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Rename(from, to string) error
	Remove(name string) error    // a file, a link or an empty folder
	RemoveAll(name string) error // at any depth
	// Writable tells why a file that exists may not be written, or a folder not be changed.
	Writable(name string) error
	Chmod(name string, mode fs.FileMode) error // a link is followed
	Lchown(name string, uid, gid int) error    // -1 leaves one as it is
	Chtimes(name string, mtime time.Time) error
	// User and Group find the number of a name.
	User(name string) (int, error)
	Group(name string) (int, error)
}

// Entry describes one file that an operation listed or changed, in its new state.
type Entry struct {
	Rel     string // below the operation's path; "" for that itself
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
	Tick    bool // not a file: it only says that a long operation is still running
}

// Emit takes one entry. An error ends the operation.
type Emit func(Entry) error

// tick is the entry that says nothing.
var tick = Entry{Tick: true}

// Kind names an operation.
type Kind string

// The operations that Do does.
const (
	List   Kind = "list"   // emits the entries of a folder, in order of their names; of anything else the one entry
	Remove Kind = "remove" // emits the removed files
	Rename Kind = "rename" // Path to Dest, as mv: across file systems, too
	Copy   Kind = "copy"   // emits the files it made
	Chmod  Kind = "chmod"  // emits the changed files
	Chown  Kind = "chown"  // emits the changed files
)

// Op is one operation. Names travel as bytes: they need not be UTF-8.
type Op struct {
	Kind      Kind        `json:"kind"`
	Path      []byte      `json:"path"`
	Dest      []byte      `json:"dest,omitempty"`    // of Rename and Copy
	Pattern   []byte      `json:"pattern,omitempty"` // of List: a glob of path.Match for an entry's name or path below Path
	Recursive bool        `json:"recursive,omitempty"`
	Preserve  bool        `json:"preserve,omitempty"` // of Copy: times, too
	Mode      fs.FileMode `json:"mode,omitempty"`     // of Chmod
	User      string      `json:"user,omitempty"`     // of Chown: a number or a name; "" leaves it
	Group     string      `json:"group,omitempty"`
}

// Do performs one operation. Changes made before an error stay.
func Do(ctx context.Context, t Tree, op Op, emit Emit) error {
	name, dest := string(op.Path), string(op.Dest)
	if err := checkNames(op); err != nil {
		return err
	}
	w := walker{ctx: ctx, t: t, top: name, emit: emit}
	switch op.Kind {
	case List:
		return w.listFolder(string(op.Pattern), op.Recursive)
	case Remove:
		return w.removeEntry(op.Recursive)
	case Rename:
		return renameOrCopy(ctx, t, name, dest, emit)
	case Copy:
		return copyTo(ctx, t, name, dest, op, emit)
	case Chmod:
		return w.changeEntries(op.Recursive, func(name string) error { return t.Chmod(name, op.Mode) })
	case Chown:
		uid, gid, err := parseOwner(t, op)
		if err != nil {
			return err
		}
		return w.changeEntries(op.Recursive, func(name string) error { return t.Lchown(name, uid, gid) })
	}
	return fmt.Errorf("file operation %q: %w", op.Kind, syscall.ENOSYS)
}

func checkNames(op Op) error {
	if _, err := path.Match(string(op.Pattern), ""); err != nil {
		return syscall.EINVAL
	}
	names := [][]byte{op.Path}
	if op.Kind == Rename || op.Kind == Copy {
		names = append(names, op.Dest)
	}
	for _, n := range names {
		if !path.IsAbs(string(n)) {
			return syscall.EINVAL
		}
	}
	return nil
}

// OpenRegular opens a regular file for reading, and nothing else: a FIFO would block, a device could do anything.
func OpenRegular(t Tree, name string) (*os.File, fs.FileInfo, error) {
	file, err := t.Open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := file.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = syscall.EISDIR
	case !st.Mode().IsRegular():
		err = syscall.EINVAL
	default:
		return file, st, nil
	}
	return nil, nil, errors.Join(err, file.Close())
}

// MkdirAll makes the folders of a name that are missing.
func MkdirAll(t Tree, name string) error {
	switch st, err := t.Stat(name); {
	case err == nil && !st.IsDir():
		return syscall.ENOTDIR
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist) || name == "/":
		return err
	}
	if err := MkdirAll(t, path.Dir(name)); err != nil {
		return err
	}
	if err := t.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Write replaces a file atomically with size bytes of content: a reader finds the whole old or the whole new content. When
// it returns, content and name are on disk. It makes missing folders. A nil mode keeps the file's own, or gives 0644 to a new
// file. Files that a process of the sprite could not write to are refused. If the folder permits no new file, Write
// overwrites the file in place, as a shell would.
func Write(t Tree, name string, content io.Reader, size int64, mode *fs.FileMode) (given fs.FileMode, err error) {
	name, err = t.Real(name)
	if err != nil {
		return 0, err
	}
	given = 0o644
	st, err := t.Lstat(name)
	exists := err == nil
	switch {
	case exists && st.IsDir():
		return 0, syscall.EISDIR
	case exists && !st.Mode().IsRegular():
		return 0, syscall.EINVAL
	case exists:
		if err := t.Writable(name); err != nil {
			return 0, err
		}
		given = st.Mode().Perm()
	case errors.Is(err, fs.ErrNotExist):
		if err := MkdirAll(t, path.Dir(name)); err != nil {
			return 0, err
		}
	default:
		return 0, err
	}
	if mode != nil {
		given = *mode
	}
	temp, file, err := createBeside(t, name)
	if exists && err != nil && t.Writable(path.Dir(name)) != nil {
		return given, overwriteFile(t, name, content, size, mode)
	}
	if err != nil {
		return 0, err
	}
	if err = fillFile(file, content, size, &given); err == nil {
		err = t.Rename(temp, name)
	}
	if err != nil {
		return 0, errors.Join(err, t.Remove(temp))
	}
	return given, syncFolder(t, path.Dir(name))
}

// syncFolder puts the names in a folder on the disk. One that the caller may not read is left to the next checkpoint.
func syncFolder(t Tree, name string) error {
	dir, err := t.Open(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.CloseDir(dir)
}

// overwriteFile writes into the file itself.
func overwriteFile(t Tree, name string, content io.Reader, size int64, mode *fs.FileMode) error {
	file, err := t.Open(name, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return fillFile(file, content, size, mode)
}

// fillFile writes and closes a file. It is then on the disk.
func fillFile(file *os.File, content io.Reader, size int64, mode *fs.FileMode) error {
	n, err := io.Copy(file, io.LimitReader(content, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if mode != nil {
		err = errors.Join(err, file.Chmod(*mode))
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// createBeside makes an empty file in the folder of name, to take its place.
func createBeside(t Tree, name string) (temp string, file *os.File, err error) {
	temp = tempBeside(name)
	file, err = t.Open(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	return temp, file, err
}
