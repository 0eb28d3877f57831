package fileapi

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
)

// This file makes rooted a files.Tree, and a fileAccess by it.

// locateChange locates a file for a change.
func (f *rooted) locateChange(name string, last bool) (located, error) {
	at, err := f.locateFile(name, last)
	if err == nil && at.readOnly {
		err = syscall.EROFS
	}
	return at, err
}

// locateReplaceable locates a file for removal or renaming. The places themselves stay.
func (f *rooted) locateReplaceable(name string) (located, error) {
	at, err := f.locateChange(name, false)
	if err == nil && at.isTop() {
		err = syscall.EPERM
	}
	return at, err
}

func (f *rooted) Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	find := f.locateFile
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE) != 0 {
		find = f.locateChange
	}
	at, err := find(name, flag&syscall.O_NOFOLLOW == 0)
	if err != nil {
		return nil, err
	}
	file, err := at.root.OpenFile(at.rel, flag, perm)
	if err == nil && flag&os.O_CREATE != 0 && f.uid >= 0 {
		err = file.Chown(f.uid, f.gid)
	}
	return file, err
}

func (f *rooted) Stat(name string) (fs.FileInfo, error) {
	at, err := f.locateFile(name, true)
	if err != nil {
		return nil, err
	}
	return at.root.Lstat(at.rel)
}

func (f *rooted) Lstat(name string) (fs.FileInfo, error) {
	at, err := f.locateFile(name, false)
	if err != nil {
		return nil, err
	}
	return at.root.Lstat(at.rel)
}

func (f *rooted) Real(name string) (string, error) {
	at, err := f.locateFile(name, true)
	return at.seen, err
}

func (f *rooted) Readlink(name string) (string, error) {
	at, err := f.locateFile(name, false)
	if err != nil {
		return "", err
	}
	return at.root.Readlink(at.rel)
}

func (f *rooted) Mkdir(name string, perm fs.FileMode) error {
	at, err := f.locateChange(name, false)
	if err != nil {
		return err
	}
	if err := at.root.Mkdir(at.rel, perm); err != nil {
		return err
	}
	return f.giveToUser(at.root, at.rel)
}

// Mkfifo has no counterpart in os.Root.
func (f *rooted) Mkfifo(string, fs.FileMode) error { return syscall.ENOSYS }

func (f *rooted) Symlink(target, name string) error {
	at, err := f.locateChange(name, false)
	if err != nil {
		return err
	}
	if err := at.root.Symlink(target, at.rel); err != nil {
		return err
	}
	return f.giveToUser(at.root, at.rel)
}

func (f *rooted) Rename(from, to string) error {
	src, err := f.locateReplaceable(from)
	if err != nil {
		return err
	}
	dst, err := f.locateReplaceable(to)
	if err != nil {
		return err
	}
	if src.root != dst.root {
		return syscall.EXDEV
	}
	return src.root.Rename(src.rel, dst.rel)
}

func (f *rooted) Remove(name string) error {
	at, err := f.locateReplaceable(name)
	if err != nil {
		return err
	}
	return at.root.Remove(at.rel)
}

func (f *rooted) RemoveAll(name string) error {
	at, err := f.locateReplaceable(name)
	if err != nil {
		return err
	}
	return at.root.RemoveAll(at.rel)
}

// Writable knows read-only places only: a write to any other that is not writable fails later.
func (f *rooted) Writable(name string) error {
	_, err := f.locateChange(name, true)
	return err
}

func (f *rooted) Chmod(name string, mode fs.FileMode) error {
	at, err := f.locateChange(name, true)
	if err != nil {
		return err
	}
	return at.root.Chmod(at.rel, mode)
}

func (f *rooted) Lchown(name string, uid, gid int) error {
	at, err := f.locateChange(name, false)
	if err != nil {
		return err
	}
	return at.root.Lchown(at.rel, uid, gid)
}

func (f *rooted) Chtimes(name string, mtime time.Time) error {
	at, err := f.locateChange(name, true)
	if err != nil {
		return err
	}
	return at.root.Chtimes(at.rel, time.Time{}, mtime)
}

// User finds a user of the host: there are no others.
func (f *rooted) User(name string) (int, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, syscall.EINVAL
	}
	return strconv.Atoi(u.Uid)
}

func (f *rooted) Group(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, syscall.EINVAL
	}
	return strconv.Atoi(g.Gid)
}

// hostFiles are the file calls on a tree of the host's.
type hostFiles struct{ tree files.Tree }

func (f hostFiles) Open(_ context.Context, name string) (*os.File, int64, error) {
	file, st, err := files.OpenRegular(f.tree, name)
	if err != nil {
		return nil, 0, err
	}
	return file, st.Size(), nil
}

func (f hostFiles) Write(_ context.Context, name string, content *os.File, size int64, mode *fs.FileMode) (fs.FileMode, error) {
	return files.Write(f.tree, name, io.NewSectionReader(content, 0, size), size, mode)
}

func (f hostFiles) Do(ctx context.Context, op files.Op, emit files.Emit) error {
	return files.Do(ctx, f.tree, op, func(e files.Entry) error {
		if e.Tick {
			return nil
		}
		return emit(e)
	})
}
