package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"golang.org/x/sys/unix"
)

// fill writes the files of a commit into an empty work tree, and the index. Everything goes through a descriptor of the
// top folder, regular files first and symlinks last, so that no file is ever written through one.
func (r *repo) fill(ctx context.Context, commit id, limits engine.Limits, follow engine.Follow) (int, error) {
	tree, err := r.treeOf(commit)
	if err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(r.at.Dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	f := &filling{ctx: ctx, repo: r, root: root, limits: limits, made: map[string]bool{"": true, ".": true}}
	node, err := f.collect(tree, "", 0)
	if err != nil {
		return 0, err
	}
	f.attrs = r.attributes(f.attributes)
	for i := range f.entries {
		if err := f.write(i, false); err != nil {
			return 0, err
		}
		if follow != nil && (i%256 == 0 || i == len(f.entries)-1) {
			n, all := int64(i+1), int64(len(f.entries))
			follow(engine.Progress{Phase: "checkout", Percent: int(n * 100 / all), Objects: n, Total: all})
		}
	}
	for i := range f.entries {
		if err := f.write(i, true); err != nil {
			return 0, err
		}
	}
	x := index.New()
	x.Entries = f.entries
	x.SetTrees(node)
	lock, err := refs.Acquire(r.refs.Own(), "index")
	if err != nil {
		return 0, err
	}
	return len(f.entries), lock.Replace(x.Encode())
}

// filling is one checkout into an empty folder.
type filling struct {
	ctx     context.Context
	repo    *repo
	root    *os.Root
	limits  engine.Limits
	attrs   *attributes
	entries []index.Entry
	made    map[string]bool // folders
}

// collect lists what a tree holds, in the order of the index, and judges each path.
func (f *filling) collect(tree id, dir string, depth int) (*index.Node, error) {
	if depth > maxTreeDepth {
		return nil, fmt.Errorf("read tree %s: %w: folders in folders without end", tree, objects.ErrCorrupt)
	}
	entries, err := f.repo.objects.Tree(tree)
	if err != nil {
		return nil, err
	}
	n := &index.Node{ID: tree, Children: map[string]*index.Node{}}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if err := f.judge(name, e); err != nil {
			return nil, err
		}
		if e.Mode != objects.ModeTree {
			f.entries = append(f.entries, index.Entry{Path: name, Mode: e.Mode, ID: e.ID})
			n.Count++
			continue
		}
		child, err := f.collect(e.ID, name, depth+1)
		if err != nil {
			return nil, err
		}
		n.Children[e.Name] = child
		n.Count += child.Count
	}
	return n, nil
}

func (f *filling) judge(name string, e objects.Entry) error {
	if err := verifyPath(e.Name, e.Mode == objects.ModeSymlink); err != nil {
		return fmt.Errorf("%w in %s", err, name)
	}
	if most := f.limits.MaxPathLen; most > 0 && int64(len(name)) > most {
		return engine.TooMany("%s… is longer than %d bytes", name[:min(len(name), 80)], most)
	}
	if most := f.limits.MaxFiles; most > 0 && int64(len(f.entries)) >= most && e.Mode != objects.ModeTree {
		return engine.TooMany("the repository has more than %d files", most)
	}
	return nil
}

// attributes reads a file of attributes out of what is checked out.
func (f *filling) attributes(name string) []byte {
	x := index.Index{Entries: f.entries}
	e := x.Find(name)
	if e == nil || kind(e.Mode) != kind(objects.ModeFile) {
		return nil
	}
	data, err := f.repo.objects.Read(e.ID, objects.Blob)
	if err != nil {
		return nil
	}
	return data
}

// write writes one file, if it belongs to this turn.
func (f *filling) write(i int, links bool) error {
	e := &f.entries[i]
	if (e.Mode == objects.ModeSymlink) != links {
		return nil
	}
	if err := f.ctx.Err(); err != nil {
		return context.Cause(f.ctx)
	}
	if err := f.folder(path.Dir(e.Path)); err != nil {
		return err
	}
	var err error
	switch e.Mode {
	case objects.ModeSubmodule:
		return f.root.Mkdir(e.Path, 0o777)
	case objects.ModeSymlink:
		err = f.symlink(e)
	default:
		err = f.file(e)
	}
	if err != nil {
		return fmt.Errorf("check out %s: %w", e.Path, err)
	}
	return nil
}

func (f *filling) folder(dir string) error {
	if f.made[dir] {
		return nil
	}
	if err := f.folder(path.Dir(dir)); err != nil {
		return err
	}
	f.made[dir] = true
	return f.root.Mkdir(dir, 0o777)
}

func (f *filling) symlink(e *index.Entry) error {
	target, err := f.repo.objects.Read(e.ID, objects.Blob)
	if err != nil {
		return err
	}
	if len(target) == 0 || len(target) > unix.PathMax || bytes.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("%w: a symlink to %.80q", errHostile, target)
	}
	if err := f.root.Symlink(string(target), e.Path); err != nil {
		return err
	}
	dir, err := f.root.Open(path.Dir(e.Path))
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), path.Base(e.Path), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	e.Stat = statOf(&st)
	return nil
}

// file writes a regular file. git would convert the content of some; those are refused.
func (f *filling) file(e *index.Entry) error {
	typ, size, content, err := f.repo.objects.Content(e.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	if typ != objects.Blob {
		return fmt.Errorf("%w: it is a %s", objects.ErrCorrupt, typ)
	}
	if most := f.limits.MaxObjectBytes; most > 0 && size > most {
		return engine.TooMany("%s has %d bytes; the limit is %d", e.Path, size, most)
	}
	var from io.Reader = content
	if c := f.attrs.conversionOf(e.Path); !c.trivial() {
		if size > objects.MaxInMemory {
			return objects.ErrTooLarge
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if what := c.convertsOut(data); what != "" {
			return unconverted(e.Path, what)
		}
		from = bytes.NewReader(data)
	}
	mode := os.FileMode(0o666)
	if e.Mode == objects.ModeExecutable {
		mode = 0o777
	}
	out, err := f.root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	var st unix.Stat_t
	if err = errors.Join(err, unix.Fstat(int(out.Fd()), &st), out.Close()); err != nil {
		return err
	}
	e.Stat = statOf(&st)
	return nil
}
