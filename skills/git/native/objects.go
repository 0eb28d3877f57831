package native

import (
	"bufio"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/spritekit/lattice/skills/git/engine"
)

// commit reads a commit without the parents that were not fetched.
func (r *repo) commit(id plumbing.Hash) (*object.Commit, error) {
	c, err := object.GetCommit(r.store, id)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	if r.shallow[id] {
		c.ParentHashes = nil
	}
	return c, nil
}

// treeOf returns the tree of a commit, zero for the zero commit.
func (r *repo) treeOf(commit plumbing.Hash) (plumbing.Hash, error) {
	if commit.IsZero() {
		return plumbing.ZeroHash, nil
	}
	c, err := r.commit(commit)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return c.TreeHash, nil
}

// peel follows annotated tags and returns what they name, with its type.
func (r *repo) peel(id plumbing.Hash) (plumbing.Hash, plumbing.ObjectType, error) {
	for range 32 {
		o, err := r.store.EncodedObject(plumbing.AnyObject, id)
		if err != nil {
			return id, plumbing.InvalidObject, err
		}
		if o.Type() != plumbing.TagObject {
			return id, o.Type(), nil
		}
		tag, err := object.DecodeTag(r.store, o)
		if err != nil {
			return id, plumbing.InvalidObject, err
		}
		id = tag.Target
	}
	return id, plumbing.InvalidObject, errors.New("a tag of a tag of a tag without end")
}

// side is a file in a tree or in the index; its mode is zero where there is none.
type side struct {
	mode filemode.FileMode
	id   plumbing.Hash
}

// change is a file that differs between two sides.
type change struct {
	path     string
	from, to side
}

// letter returns the letter that git has for a change.
func (c change) letter() string {
	switch {
	case c.from.mode == 0:
		return "A"
	case c.to.mode == 0:
		return "D"
	case kind(c.from.mode) != kind(c.to.mode):
		return "T"
	}
	return "M"
}

// kind tells files, symlinks and submodules apart.
func kind(mode filemode.FileMode) filemode.FileMode { return mode & 0o170000 }

// compareTrees calls f for each file that differs between two trees, either of which may be zero.
func (r *repo) compareTrees(ctx context.Context, from, to plumbing.Hash, f func(change) error) error {
	var trees [2]*object.Tree
	for i, id := range []plumbing.Hash{from, to} {
		if id.IsZero() {
			continue
		}
		var err error
		if trees[i], err = object.GetTree(r.store, id); err != nil {
			return fmt.Errorf("read tree %s: %w", id, err)
		}
	}
	changes, err := object.DiffTreeContext(ctx, trees[0], trees[1])
	if err != nil {
		return err
	}
	for _, c := range changes {
		from, to := c.From.TreeEntry, c.To.TreeEntry
		if err := f(change{cmp.Or(c.To.Name, c.From.Name), side{from.Mode, from.Hash}, side{to.Mode, to.Hash}}); err != nil {
			return err
		}
	}
	return nil
}

// walkTree calls f for each entry of a tree, and enters the folders for which f returns true.
func (r *repo) walkTree(tree plumbing.Hash, f func(name string, e object.TreeEntry) (bool, error)) error {
	return r.walkFolder(tree, "", 0, f)
}

func (r *repo) walkFolder(tree plumbing.Hash, dir string, depth int, f func(string, object.TreeEntry) (bool, error)) error {
	const maxDepth = 1024
	if depth > maxDepth {
		return fmt.Errorf("%w: folders in folders without end", errHostile)
	}
	entries, err := r.readTree(tree)
	if err != nil {
		return err
	}
	if !sort.IsSorted(object.TreeEntrySorter(entries)) {
		return fmt.Errorf("%w: the tree %s is out of order", errHostile, tree)
	}
	for _, e := range entries {
		name := dir + e.Name
		enter, err := f(name, e)
		if err == nil && enter && e.Mode == filemode.Dir {
			err = r.walkFolder(e.Hash, name+"/", depth+1, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repo) readTree(id plumbing.Hash) ([]object.TreeEntry, error) {
	if id.IsZero() {
		return nil, nil
	}
	t, err := object.GetTree(r.store, id)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", id, err)
	}
	return t.Entries, nil
}

// write stores an object unless it is there.
func (r *repo) write(typ plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	o := r.store.NewEncodedObject()
	o.SetType(typ)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(content); err != nil {
		return plumbing.ZeroHash, err
	}
	if id := o.Hash(); r.store.HasEncodedObject(id) == nil {
		return id, nil
	}
	return r.store.SetEncodedObject(o)
}

var errChanged = errors.New("changed while it was read")

// writeTree stores the trees of files that are sorted by path, and returns the root's id.
func (r *repo) writeTree(files []indexEntry) (plumbing.Hash, error) { return r.writeFolder("", files) }

func (r *repo) writeFolder(dir string, files []indexEntry) (plumbing.Hash, error) {
	var tree object.Tree
	for i := 0; i < len(files); {
		name := files[i].Name[len(dir):]
		slash := -1
		for j := range len(name) {
			if name[j] == '/' {
				slash = j
				break
			}
		}
		if slash < 0 {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: files[i].Mode, Hash: files[i].Hash})
			i++
			continue
		}
		prefix, end := files[i].Name[:len(dir)+slash+1], i
		for end < len(files) && len(files[end].Name) >= len(prefix) && files[end].Name[:len(prefix)] == prefix {
			end++
		}
		id, err := r.writeFolder(prefix, files[i:end])
		if err != nil {
			return id, err
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: name[:slash], Mode: filemode.Dir, Hash: id})
		i = end
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	var o plumbing.MemoryObject
	if err := tree.Encode(&o); err != nil {
		return plumbing.ZeroHash, err
	}
	if r.store.HasEncodedObject(o.Hash()) == nil {
		return o.Hash(), nil
	}
	return r.store.SetEncodedObject(&o)
}

// sync makes objects durable before a ref or the index names them.
func (r *repo) sync() error {
	d, err := r.git.Open("objects")
	if err != nil {
		return err
	}
	return errors.Join(syncFileSystem(d), d.Close())
}

// writePack writes a pack of objects, none of them as a delta, one at a time.
func (r *repo) writePack(ctx context.Context, to io.Writer, ids []plumbing.Hash) error {
	sum := sha1.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(to, sum), 64<<10)
	header := append([]byte("PACK"), 0, 0, 0, 2)
	if _, err := buffered.Write(binary.BigEndian.AppendUint32(header, uint32(len(ids)))); err != nil {
		return err
	}
	z := zlib.NewWriter(buffered)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := r.packObject(buffered, z, id); err != nil {
			return fmt.Errorf("pack object %s: %w", id, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// packObject writes one object: a header of type and size, seven bits a byte after the first, then its content.
func (r *repo) packObject(to *bufio.Writer, z *zlib.Writer, id plumbing.Hash) error {
	o, err := r.store.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return err
	}
	size := uint64(o.Size())
	b := byte(o.Type())<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		if err := to.WriteByte(b | 0x80); err != nil {
			return err
		}
		b = byte(size & 0x7f)
	}
	if err := to.WriteByte(b); err != nil {
		return err
	}
	content, err := o.Reader()
	if err != nil {
		return err
	}
	z.Reset(to)
	_, err = io.Copy(z, content)
	return errors.Join(err, z.Close(), content.Close())
}

// maxUnpacked bounds an object that is received, in bytes: go-git holds some in memory.
const maxUnpacked = 256 << 20

// receive stores a pack: it goes into a file within the limits, each object's size is judged, and only then go-git
// resolves its deltas.
func (r *repo) receive(ctx context.Context, pack io.Reader, limits engine.Limits, follow engine.Follow) (objects, size int64, err error) {
	const name = "objects/pack/tmp_received"
	f, err := r.git.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), r.git.Remove(name)) }()
	d := &download{ctx: ctx, from: pack, limits: limits, follow: follow}
	if size, err = io.Copy(f, d); err != nil {
		return 0, 0, fmt.Errorf("receive a pack: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	if objects, err = judgePack(ctx, f); err != nil {
		return 0, 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil || objects == 0 {
		return objects, 0, err
	}
	if err := packfile.UpdateObjectStorage(r.store, f); err != nil {
		return objects, size, brokenPack(err)
	}
	return objects, size, r.sync()
}

// download reads a pack within the limits of a call.
type download struct {
	ctx    context.Context
	from   io.Reader
	limits engine.Limits
	follow engine.Follow
	header []byte
	size   int64
}

func (d *download) Read(p []byte) (int, error) {
	if d.ctx.Err() != nil {
		return 0, context.Cause(d.ctx)
	}
	n, err := d.from.Read(p)
	d.size += int64(n)
	if most := d.limits.MaxPackBytes; most > 0 && d.size > most {
		return n, engine.TooMany("the pack has more than %d bytes", most)
	}
	if missing := 12 - len(d.header); missing > 0 {
		d.header = append(d.header, p[:min(n, missing)]...)
	}
	if len(d.header) < 12 {
		return n, err
	}
	objects := int64(binary.BigEndian.Uint32(d.header[8:]))
	if most := d.limits.MaxObjects; most > 0 && objects > most {
		return n, engine.TooMany("the pack has %d objects; the limit is %d", objects, most)
	}
	if d.follow != nil {
		d.follow(engine.Progress{Phase: "receiving", Total: objects, Bytes: d.size})
	}
	return n, err
}

// judgePack reads through a pack and refuses objects, or deltas that make objects, above maxUnpacked bytes.
func judgePack(ctx context.Context, f io.ReadSeeker) (objects int64, err error) {
	s := packfile.NewScanner(f)
	_, n, err := s.Header()
	if err != nil {
		return 0, brokenPack(err)
	}
	for range n {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		h, err := s.NextObjectHeader()
		if err != nil {
			return 0, brokenPack(err)
		}
		begin := &prefix{}
		if h.Length <= maxUnpacked {
			if _, _, err := s.NextObject(begin); err != nil {
				return 0, brokenPack(err)
			}
		}
		size := h.Length
		if h.Type.IsDelta() {
			_, skip := binary.Uvarint(begin.data) // the size of the base, then that of the result
			if made, n := binary.Uvarint(begin.data[max(skip, 0):]); skip > 0 && n > 0 {
				size = max(size, int64(min(made, 1<<62)))
			}
		}
		if size > maxUnpacked {
			return 0, engine.TooMany("an object of the pack has %d bytes; the limit is %d", size, int64(maxUnpacked))
		}
	}
	return int64(n), nil
}

// brokenPack says that what was received is not a pack. It wraps nothing: the end of a file is not the end of a connection.
func brokenPack(err error) error { return fmt.Errorf("the pack is broken: %v", err) }

// prefix keeps the first bytes that are written to it.
type prefix struct{ data []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.data = append(p.data, b[:min(len(b), 2*binary.MaxVarintLen64-len(p.data))]...)
	return len(b), nil
}
