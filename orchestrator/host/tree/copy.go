package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/subids"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// workers copy at a time. Metadata calls dominate; more gain little and disturb the host's other work.
const workers = 4

// Copy makes dst a faithful copy of the folder src: bytes (shared where the file system can, with holes), modes, times,
// links, hard links among the tree's files, attributes, and owners when the caller is root or has sub-ids. Pipes are made
// again, empty. The marks of an overlay's folders and its whiteouts are copied. Sockets, which are useless without their
// process, and devices are left out. dst must be missing, or an empty folder that no other process changes.
//
// src may be in use. A file that disappears, shrinks or changes its type during the copy is copied as far as possible, without
// an error. Copy never reads outside src. It does not sync; see Sync. After an error dst is incomplete, and the caller must
// Remove it.
func Copy(ctx context.Context, src, dst string) error {
	_, err := job{Do: opCopy, From: pathsOf(src), Dst: []byte(dst)}.run(ctx, nil)
	return err
}

func copyTree(ctx context.Context, src, dst string) error {
	from, err := openRoot(src)
	if err != nil {
		return fmt.Errorf("copy tree: %w", err)
	}
	if err := os.Mkdir(dst, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		from.Close()
		return fmt.Errorf("copy tree: %w", err)
	}
	to, err := openRoot(dst)
	if err != nil {
		from.Close()
		return fmt.Errorf("copy tree: %w", err)
	}
	top, err := openRoot(dst)
	if err != nil {
		from.Close()
		to.Close()
		return fmt.Errorf("copy tree: %w", err)
	}
	defer top.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	c := &copier{ctx: ctx, group: group, top: top, owners: privileged(), links: make(map[inode]*link)}
	group.Go(func() error { return c.copyFolder(from, to, ".", 0) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("copy tree %s: %w", src, err)
	}
	return nil
}

type copier struct {
	ctx    context.Context
	group  *errgroup.Group
	top    folder // of the copy
	owners bool
	merged bool // the copy's marks are its own

	mu    sync.Mutex // guards links
	links map[inode]*link
}

type inode struct{ dev, ino uint64 }

// link is the first name under which a file with several was met.
type link struct {
	path  string        // in the copy
	ready chan struct{} // closed when the file is there, or known never to be
	made  bool
}

// copyFolder copies the entries of from to to, and then the folder's own attributes: entries made later would change its
// times. It closes both.
func (c *copier) copyFolder(from, to folder, path string, depth int) error {
	defer from.Close()
	defer to.Close()
	if depth > maxDepth {
		return fmt.Errorf("more than %d folders deep", maxDepth)
	}
	st, err := from.stat()
	if err != nil {
		return err
	}
	err = from.eachName(func(name string) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		below := filepath.Join(path, name)
		err := c.copyEntry(from, to, name, below, depth)
		var placed *copyError
		if err != nil && !errors.As(err, &placed) {
			return &copyError{below, err}
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.copyAttributes(from.fd(), to.fd(), st, from.mode(st))
}

// copyError says where in the tree something went wrong.
type copyError struct {
	path string
	err  error
}

func (e *copyError) Error() string { return e.path + ": " + e.err.Error() }
func (e *copyError) Unwrap() error { return e.err }

func (c *copier) copyEntry(from, to folder, name, path string, depth int) error {
	st, err := from.lstat(name)
	if err != nil {
		return unlessGone(err)
	}
	switch fileType(st) {
	case unix.S_IFDIR:
		return c.copySubfolder(from, to, name, path, depth)
	case unix.S_IFREG:
		return c.copyFile(from, to, name, path)
	case unix.S_IFLNK:
		return c.copySymlink(from, to, name, st)
	case unix.S_IFIFO:
		return c.copyFIFO(to, name, st)
	default:
		if isWhiteout(st) {
			return makeWhiteout(to.fd(), name)
		}
		return nil
	}
}

// unlessGone forgives an error of the source's side that only says that the source moves.
func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

func (c *copier) copySubfolder(from, to folder, name, path string, depth int) error {
	source, err := openFolder(from.fd(), name)
	if err != nil {
		return unlessGone(err)
	}
	if err := unix.Mkdirat(to.fd(), name, 0o700); err != nil {
		source.Close()
		return err
	}
	target, err := openFolder(to.fd(), name)
	if err != nil {
		source.Close()
		return err
	}
	work := func() error { return c.copyFolder(source, target, path, depth+1) }
	if c.group.TryGo(work) {
		return nil
	}
	return work()
}

// copyFIFO makes a pipe like the one that st describes, without its contents.
func (c *copier) copyFIFO(to folder, name string, st unix.Stat_t) error {
	switch err := makeFIFO(to.fd(), name); {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	err := c.giveOwner(st, func(uid, gid int) error {
		return unix.Fchownat(to.fd(), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return err
	}
	// No other process changes the copy, so the name still belongs to the pipe.
	if err := unix.Fchmodat(to.fd(), name, uint32(st.Mode)&0o7777, 0); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to.fd(), name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copier) copySymlink(from, to folder, name string, st unix.Stat_t) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(from.fd(), name, buf)
	if errors.Is(err, unix.EINVAL) {
		return nil // no link by now
	}
	if err != nil {
		return unlessGone(err)
	}
	if err := unix.Symlinkat(string(buf[:n]), to.fd(), name); err != nil {
		return err
	}
	err = c.giveOwner(st, func(uid, gid int) error {
		return unix.Fchownat(to.fd(), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(to.fd(), name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copier) copyFile(from, to folder, name, path string) error {
	fd, err := openAt(from.fd(), name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = openLocked(from.fd(), name, unix.O_RDONLY)
	}
	if errors.Is(err, unix.ENXIO) {
		return nil // a socket by now
	}
	if err != nil {
		return unlessGone(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if fileType(st) != unix.S_IFREG {
		return nil
	}
	first, release := c.claimLink(st, path)
	if first != nil {
		err := unix.Linkat(c.top.fd(), first.path, to.fd(), name, 0)
		if err == nil {
			return nil
		}
		// A copy instead: the path may be too long, or lead through a folder already closed to us.
	}
	out, err := openAt(to.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	release(err == nil)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	if err := c.copyData(fd, out, st.Size); err != nil {
		return err
	}
	return c.copyAttributes(fd, out, st, uint32(st.Mode)&0o7777)
}

// claimLink returns the name under which a file was copied before, nil if it is the caller's to copy. The caller must then
// release it as soon as it is there, or has failed.
func (c *copier) claimLink(st unix.Stat_t, path string) (first *link, release func(made bool)) {
	if st.Nlink < 2 {
		return nil, func(bool) {}
	}
	key := inode{uint64(st.Dev), st.Ino}
	c.mu.Lock()
	first = c.links[key]
	if first == nil {
		mine := &link{path: path, ready: make(chan struct{})}
		c.links[key] = mine
		c.mu.Unlock()
		return nil, func(made bool) { mine.made = made; close(mine.ready) }
	}
	c.mu.Unlock()
	<-first.ready
	if !first.made {
		first = nil
	}
	return first, func(bool) {}
}

// copyAttributes gives the copy its owner, mode, user attributes and times, in the order in which none undoes another.
func (c *copier) copyAttributes(from, to int, st unix.Stat_t, mode uint32) error {
	if err := c.giveOwner(st, func(uid, gid int) error { return unix.Fchown(to, uid, gid) }); err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	copyAttributes(from, to, !c.merged)
	if err := unix.Fchmod(to, mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return setTimes(to, st)
}

// giveOwner gives an entry of the copy the owner of the original, by chown. A user without privileges gives none, and where it
// could have them given by the helper fails with errForeign instead.
func (c *copier) giveOwner(st unix.Stat_t, chown func(uid, gid int) error) error {
	if c.owners {
		err := chown(int(st.Uid), int(st.Gid))
		if errors.Is(err, unix.EINVAL) && os.Geteuid() != 0 { // an id that is neither a sub-id nor its own, as of another machine
			return nil
		}
		return err
	}
	if int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid() {
		return nil
	}
	if ids, err := subids.Find(); err != nil || !ids.Has(st.Uid, st.Gid) {
		return nil
	}
	return errForeign
}

// copyBytes copies size bytes by hand from offset off, or fewer when the source has become shorter, and returns how many.
func (c *copier) copyBytes(from, to int, off, size int64) (copied int64, err error) {
	buf := make([]byte, min(size, 256<<10))
	for copied < size {
		if err := c.ctx.Err(); err != nil {
			return copied, err
		}
		n, err := unix.Pread(from, buf[:min(int64(len(buf)), size-copied)], off+copied)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return copied, err
		}
		for done := 0; done < n; {
			w, err := unix.Pwrite(to, buf[done:n], off+copied+int64(done))
			if err != nil && !errors.Is(err, unix.EINTR) {
				return copied, err
			}
			done += max(w, 0)
		}
		copied += int64(n)
	}
	return copied, nil
}
