package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// piece is how much is copied before a copy looks whether it is still wanted.
const piece = 8 << 20

// renameOrCopy is mv: where a folder of a lower layer, or another file system, cannot be renamed, it is copied and removed.
func renameOrCopy(ctx context.Context, t Tree, from, to string, emit Emit) error {
	err := t.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	// Looked at before anything is copied: at the end the old name has to go.
	if err := t.Writable(path.Dir(from)); err != nil {
		return err
	}
	temp := tempBeside(to)
	quiet := func(Entry) error { return emit(tick) }
	c := copier{walker: walker{ctx: ctx, t: t, emit: quiet}, preserve: true}
	err = c.copyEntry(from, temp, "")
	if err == nil {
		err = t.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, ignoreNotExist(t.RemoveAll(temp)))
	}
	return t.RemoveAll(from)
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copier copies a tree, links as links. Entries other than files, folders, links and FIFOs are left out.
type copier struct {
	walker
	preserve bool
	made     fs.FileInfo // the folder that is being filled: it is not copied into itself
}

func copyTo(ctx context.Context, t Tree, from, to string, op Op, emit Emit) error {
	from, err := t.Real(from) // the target of a link is copied, as cp does
	if err != nil {
		return err
	}
	src, err := t.Lstat(from)
	if err != nil {
		return err
	}
	if src.IsDir() && !op.Recursive {
		return syscall.EISDIR
	}
	if to, err = t.Real(to); err != nil {
		return err
	}
	dst, err := t.Lstat(to)
	switch {
	case err == nil && (os.SameFile(src, dst) || src.IsDir() && strings.HasPrefix(to, strings.TrimSuffix(from, "/")+"/")):
		return syscall.EINVAL
	case err == nil && dst.IsDir() && !src.IsDir():
		return syscall.EISDIR
	case err == nil && !dst.IsDir() && src.IsDir():
		return syscall.ENOTDIR
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil && src.IsDir() && strings.HasPrefix(to, strings.TrimSuffix(from, "/")+"/"):
		return syscall.EINVAL
	case err != nil:
		if err := MkdirAll(t, path.Dir(to)); err != nil {
			return err
		}
	}
	c := copier{walker: walker{ctx: ctx, t: t, emit: emit}, preserve: op.Preserve}
	return c.copyEntry(from, to, "")
}

// copyEntry makes to a copy of from. rel is the path of from below the copy's top.
func (c *copier) copyEntry(from, to, rel string) error {
	st, err := c.t.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case st.IsDir():
		return c.copyFolder(from, to, rel, st)
	case st.Mode().IsRegular():
		err = c.copyFile(from, to, st)
	case st.Mode()&fs.ModeSymlink != 0:
		err = c.copyLink(from, to)
	case st.Mode()&fs.ModeNamedPipe != 0:
		err = c.t.Mkfifo(to, st.Mode().Perm())
	case rel == "":
		return syscall.EINVAL
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return c.emit(Entry{Rel: rel, Mode: st.Mode(), Size: st.Size(), ModTime: st.ModTime()})
}

func (c *copier) copyFolder(from, to, rel string, st fs.FileInfo) error {
	if c.made != nil && os.SameFile(st, c.made) {
		return syscall.EINVAL // the copy itself, which was moved below the original
	}
	made := c.t.Mkdir(to, 0o700) == nil
	if !made { // there is one already, into which the rest goes
		if there, err := c.t.Lstat(to); err != nil {
			return err
		} else if !there.IsDir() {
			return syscall.ENOTDIR
		}
	}
	if c.made == nil {
		top, err := c.t.Lstat(to)
		if err != nil {
			return err
		}
		c.made = top
	}
	err := c.eachName(from, func(name string) error {
		base := path.Base(name)
		return ignoreNotExist(c.copyEntry(name, path.Join(to, base), path.Join(rel, base)))
	})
	if err != nil {
		return err
	}
	if made {
		if err := c.t.Chmod(to, keptMode(st.Mode())); err != nil {
			return err
		}
	}
	if c.preserve {
		if err := c.t.Chtimes(to, st.ModTime()); err != nil {
			return err
		}
	}
	return c.emit(Entry{Rel: rel, Mode: st.Mode(), ModTime: st.ModTime()})
}

func (c *copier) copyLink(from, to string) error {
	target, err := c.t.Readlink(from)
	if err != nil {
		return err
	}
	if st, err := c.t.Lstat(to); err == nil && !st.IsDir() {
		if err := c.t.Remove(to); err != nil {
			return err
		}
	}
	return c.t.Symlink(target, to)
}

// copyFile copies content and permissions into a new file and puts it in its place.
func (c *copier) copyFile(from, to string, st fs.FileInfo) error {
	if there, err := c.t.Lstat(to); err == nil {
		switch {
		case there.IsDir():
			return syscall.EISDIR
		case there.Mode().IsRegular():
			if err := c.t.Writable(to); err != nil {
				return err
			}
		}
	}
	in, _, err := OpenRegular(c.t, from)
	if err != nil {
		return err
	}
	defer in.Close()
	temp, out, err := createBeside(c.t, to)
	if err != nil {
		return err
	}
	err = c.copyContent(out, in)
	err = errors.Join(err, out.Chmod(keptMode(st.Mode())), out.Close())
	if err == nil && c.preserve {
		err = c.t.Chtimes(temp, st.ModTime())
	}
	if err == nil {
		err = c.t.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, c.t.Remove(temp))
	}
	return nil
}

// copyContent copies a file with its holes.
func (c *copier) copyContent(out, in *os.File) error {
	if cloneBlocks(out, in) {
		return nil
	}
	st, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < st.Size(); {
		start, end := NextExtent(in, at, st.Size())
		if _, err := in.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(start, io.SeekStart); err != nil {
			return err
		}
		for at = start; at < end; {
			n, err := io.CopyN(out, in, min(piece, end-at))
			at += n
			if err == io.EOF {
				return out.Truncate(at) // it became shorter during the copy
			}
			if err == nil {
				err = c.ctx.Err()
			}
			if err == nil {
				err = c.emit(tick)
			}
			if err != nil {
				return err
			}
		}
		at = end
	}
	return out.Truncate(st.Size())
}

// keptMode returns the mode bits that a copy keeps: all but setuid and setgid.
func keptMode(mode fs.FileMode) fs.FileMode { return mode & (fs.ModePerm | fs.ModeSticky) }
