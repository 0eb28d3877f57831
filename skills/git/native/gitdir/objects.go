package gitdir

import (
	"bufio"
	"compress/zlib"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spritekit/lattice/skills/git/engine"
)

// ReadCommit reads a commit without the parents that were not fetched.
func (d *Dir) ReadCommit(id plumbing.Hash) (*object.Commit, error) {
	c, err := object.GetCommit(d.Store, id)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	if d.Shallow[id] {
		c.ParentHashes = nil
	}
	return c, nil
}

// TreeOf returns the tree of a commit, zero for the zero commit.
func (d *Dir) TreeOf(commit plumbing.Hash) (plumbing.Hash, error) {
	if commit.IsZero() {
		return plumbing.ZeroHash, nil
	}
	c, err := d.ReadCommit(commit)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return c.TreeHash, nil
}

// Peel follows annotated tags and returns the object that they name, with its type.
func (d *Dir) Peel(id plumbing.Hash) (plumbing.Hash, plumbing.ObjectType, error) {
	for range 32 {
		o, err := d.Store.EncodedObject(plumbing.AnyObject, id)
		if err != nil {
			return id, plumbing.InvalidObject, err
		}
		if o.Type() != plumbing.TagObject {
			return id, o.Type(), nil
		}
		tag, err := object.DecodeTag(d.Store, o)
		if err != nil {
			return id, plumbing.InvalidObject, err
		}
		id = tag.Target
	}
	return id, plumbing.InvalidObject, errors.New("a tag of a tag of a tag without end")
}

// WalkTree calls f for each entry of a tree, and enters the folders for which f returns true.
func (d *Dir) WalkTree(tree plumbing.Hash, f func(name string, e object.TreeEntry) (bool, error)) error {
	return d.walkFolder(tree, "", 0, f)
}

func (d *Dir) walkFolder(tree plumbing.Hash, dir string, depth int, f func(string, object.TreeEntry) (bool, error)) error {
	const maxDepth = 1024
	if depth > maxDepth {
		return fmt.Errorf("%w: folders in folders without end", ErrHostile)
	}
	entries, err := d.readTree(tree)
	if err != nil {
		return err
	}
	if !sort.IsSorted(object.TreeEntrySorter(entries)) {
		return fmt.Errorf("%w: the tree %s is out of order", ErrHostile, tree)
	}
	for _, e := range entries {
		name := dir + e.Name
		enter, err := f(name, e)
		if err == nil && enter && e.Mode == filemode.Dir {
			err = d.walkFolder(e.Hash, name+"/", depth+1, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) readTree(id plumbing.Hash) ([]object.TreeEntry, error) {
	if id.IsZero() {
		return nil, nil
	}
	t, err := object.GetTree(d.Store, id)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", id, err)
	}
	return t.Entries, nil
}

// Write stores an object unless it is there.
func (d *Dir) Write(typ plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	o := d.Store.NewEncodedObject()
	o.SetType(typ)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(content); err != nil {
		return plumbing.ZeroHash, err
	}
	if id := o.Hash(); d.Store.HasEncodedObject(id) == nil {
		return id, nil
	}
	return d.Store.SetEncodedObject(o)
}

// WriteTree stores the trees of files that are sorted by path, and returns the root's id.
func (d *Dir) WriteTree(files []index.Entry) (plumbing.Hash, error) { return d.writeFolder("", files) }

func (d *Dir) writeFolder(dir string, files []index.Entry) (plumbing.Hash, error) {
	var tree object.Tree
	seen := map[string]bool{}
	for i := 0; i < len(files); {
		name, _, below := strings.Cut(files[i].Name[len(dir):], "/")
		if seen[name] {
			return plumbing.ZeroHash, fmt.Errorf("the index has both the file %s and files below it", dir+name)
		}
		seen[name] = true
		if !below {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: files[i].Mode, Hash: files[i].Hash})
			i++
			continue
		}
		first, folder := i, dir+name+"/"
		for i < len(files) && strings.HasPrefix(files[i].Name, folder) {
			i++
		}
		id, err := d.writeFolder(folder, files[first:i])
		if err != nil {
			return id, err
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: id})
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	var o plumbing.MemoryObject
	if err := tree.Encode(&o); err != nil {
		return plumbing.ZeroHash, err
	}
	if d.Store.HasEncodedObject(o.Hash()) == nil {
		return o.Hash(), nil
	}
	return d.Store.SetEncodedObject(&o)
}

// Sync makes objects durable before a ref or the index names them.
func (d *Dir) Sync() error {
	f, err := d.Root.Open("objects")
	if err != nil {
		return err
	}
	return errors.Join(syncFileSystem(f), f.Close())
}

// WritePack writes a pack of objects, none of them as a delta, one at a time.
func (d *Dir) WritePack(ctx context.Context, to io.Writer, ids []plumbing.Hash) error {
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
		if err := d.packObject(buffered, z, id); err != nil {
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
func (d *Dir) packObject(to *bufio.Writer, z *zlib.Writer, id plumbing.Hash) error {
	o, err := d.Store.EncodedObject(plumbing.AnyObject, id)
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

// MaxUnpacked bounds an object that is received, in bytes: go-git holds some in memory.
const MaxUnpacked = 256 << 20

// Receive stores a pack: it goes into a file within the limits, each object's size is judged, and only then go-git
// resolves its deltas.
func (d *Dir) Receive(ctx context.Context, pack io.Reader, limits engine.Limits, follow engine.Follow) (objects, size int64, err error) {
	name := "objects/pack/tmp_pack_" + rand.Text()
	f, err := d.Root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), d.Root.Remove(name)) }()
	from := &download{ctx: ctx, from: pack, limits: limits, follow: follow}
	if size, err = io.Copy(f, from); err != nil {
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
	if err := packfile.UpdateObjectStorage(d.Store, f); err != nil {
		return objects, size, brokenPack(err)
	}
	return objects, size, d.Sync()
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
	const step = 1 << 20 // between two reports of progress
	report := d.follow != nil && (d.size+int64(n))/step > d.size/step
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
	if report {
		d.follow(engine.Progress{Phase: "receiving", Total: objects, Bytes: d.size})
	}
	return n, err
}

// judgePack reads through a pack and refuses objects, or deltas that make objects, above MaxUnpacked bytes.
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
		if h.Length <= MaxUnpacked {
			n, _, err := s.NextObject(begin)
			if err == nil && n != h.Length {
				err = fmt.Errorf("an object has %d bytes and says %d", n, h.Length)
			}
			if err != nil {
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
		if size > MaxUnpacked {
			return 0, engine.TooMany("an object of the pack has %d bytes; the limit is %d", size, int64(MaxUnpacked))
		}
	}
	return int64(n), nil
}

// brokenPack says that the received data is not a pack. It wraps nothing: the end of a file is not the end of a connection.
func brokenPack(err error) error { return fmt.Errorf("the pack is broken: %v", err) }

// prefix keeps the first bytes that are written to it.
type prefix struct{ data []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.data = append(p.data, b[:min(len(b), 2*binary.MaxVarintLen64-len(p.data))]...)
	return len(b), nil
}
