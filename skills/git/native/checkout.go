package native

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/patch"
)

// checkOut writes the files of a commit into an empty work tree, and the index. It judges every path first, and writes
// symlinks last, so that no file is ever written through one.
func (r *repo) checkOut(ctx context.Context, commit plumbing.Hash, limits engine.Limits, follow engine.Follow) (int, error) {
	tree, err := r.TreeOf(commit)
	if err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(r.at.Dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	c := &checkout{repo: r, root: root, limits: limits, attrs: map[string]attributes{}, made: map[string]bool{".": true}, seen: map[string]bool{}}
	if err := r.WalkTree(tree, c.collectFile); err != nil {
		return 0, err
	}
	if err := c.readAttributes(); err != nil {
		return 0, err
	}
	done := 0
	for _, links := range []bool{false, true} {
		for i := range c.files {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			e := &c.files[i]
			if (e.Mode == modeSymlink) != links {
				continue
			}
			if err := c.writeEntry(e); err != nil {
				return 0, fmt.Errorf("check out %s: %w", e.Name, err)
			}
			if done++; follow != nil && (done%256 == 0 || done == len(c.files)) {
				all := int64(len(c.files))
				follow(engine.Progress{Phase: "checkout", Percent: int(int64(done) * 100 / all), Objects: int64(done), Total: all})
			}
		}
	}
	slices.SortFunc(c.files, func(a, b indexEntry) int { return cmp.Compare(a.Name, b.Name) })
	data, err := (&stage{files: c.files}).encodeIndex()
	if err != nil {
		return 0, err
	}
	lock, err := r.lockIndex()
	if err != nil {
		return 0, err
	}
	return len(c.files), lock.Replace(data)
}

// checkout is one checkout into an empty folder.
type checkout struct {
	repo   *repo
	root   *os.Root
	limits engine.Limits
	attrs  map[string]attributes // by the folder of their file
	files  []indexEntry
	seen   map[string]bool
	made   map[string]bool // folders
}

// collectFile judges an entry of the tree, and lists it if it is a file.
func (c *checkout) collectFile(name string, e object.TreeEntry) (bool, error) {
	if problem := patch.Judge(e.Name, e.Mode == modeSymlink); problem != "" || strings.Contains(e.Name, "/") {
		return false, fmt.Errorf("%w: the path %q %s", gitdir.ErrHostile, name, problem)
	}
	if c.seen[name] {
		return false, fmt.Errorf("%w: a tree names %q twice", gitdir.ErrHostile, name)
	}
	c.seen[name] = true
	if most := c.limits.MaxPathLen; most > 0 && int64(len(name)) > most {
		return false, engine.TooMany("%s… is longer than %d bytes", name[:min(len(name), 80)], most)
	}
	switch e.Mode {
	case modeDir:
		return true, nil
	case modeSubmodule:
		return false, engine.Refuse("submodules")
	case filemode.Deprecated:
		e.Mode = filemode.Regular
	}
	c.files = append(c.files, indexEntry{Name: name, Mode: e.Mode, Hash: e.Hash})
	if most := c.limits.MaxFiles; most > 0 && int64(len(c.files)) > most {
		return false, engine.TooMany("the repository has more than %d files", most)
	}
	return false, nil
}

// readAttributes reads the attributes out of the files to check out.
func (c *checkout) readAttributes() error {
	for _, e := range c.files {
		if path.Base(e.Name) != attributesFile || !e.Mode.IsRegular() && e.Mode != filemode.Executable {
			continue
		}
		data, _, err := c.repo.readContent(side{e.Mode, e.Hash})
		if err != nil {
			return err
		}
		c.attrs[path.Dir(e.Name)] = attributes(nil).withFile(path.Dir(e.Name), data)
	}
	return nil
}

// checkConversion refuses a file that git would convert.
func (c *checkout) checkConversion(name string) error {
	what := ""
	for dir := name; dir != "."; {
		dir = path.Dir(dir)
		what += c.attrs[dir].joinAttributes(name).always
	}
	if what == "" {
		return nil
	}
	return refuseConversion(name, what)
}

// writeEntry writes one file.
func (c *checkout) writeEntry(e *indexEntry) error {
	if err := c.makeFolder(path.Dir(e.Name)); err != nil {
		return err
	}
	if err := c.checkConversion(e.Name); err != nil {
		return err
	}
	blob, err := object.GetBlob(c.repo.Store, e.Hash)
	if err != nil {
		return err
	}
	if most := c.limits.MaxObjectBytes; most > 0 && blob.Size > most {
		return engine.TooMany("%s has %d bytes; the limit is %d", e.Name, blob.Size, most)
	}
	content, err := blob.Reader()
	if err != nil {
		return err
	}
	defer content.Close()
	var st unix.Stat_t
	if e.Mode == modeSymlink {
		err = c.writeLink(e.Name, content, &st)
	} else {
		err = c.writeFile(e, content, &st)
	}
	setStat(e, &st)
	return err
}

func (c *checkout) writeFile(e *indexEntry, content io.Reader, st *unix.Stat_t) error {
	mode := os.FileMode(0o666)
	if e.Mode == filemode.Executable {
		mode = 0o777
	}
	f, err := c.root.OpenFile(e.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, unix.Fstat(int(f.Fd()), st), f.Close())
}

func (c *checkout) writeLink(name string, content io.Reader, st *unix.Stat_t) error {
	const maxTarget = 4096
	target, err := io.ReadAll(io.LimitReader(content, maxTarget+1))
	if err != nil {
		return err
	}
	if len(target) == 0 || len(target) > maxTarget || bytes.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("%w: a symlink to %.80q", gitdir.ErrHostile, target)
	}
	if err := c.root.Symlink(string(target), name); err != nil {
		return err
	}
	dir, err := c.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(unix.Fstatat(int(dir.Fd()), path.Base(name), st, unix.AT_SYMLINK_NOFOLLOW), dir.Close())
}

func (c *checkout) makeFolder(dir string) error {
	if c.made[dir] {
		return nil
	}
	if err := c.makeFolder(path.Dir(dir)); err != nil {
		return err
	}
	c.made[dir] = true
	return c.root.Mkdir(dir, 0o777)
}
