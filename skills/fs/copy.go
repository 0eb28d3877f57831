package fs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Limits of one copy or removal.
const (
	defaultTreeEntries = 10_000
	maxTreeEntries     = 1_000_000
	defaultTreeBytes   = 1 << 30
	maxTreeBytes       = 1 << 40
)

type copyInput struct {
	From       string `json:"from"`
	To         string `json:"to"`
	Recursive  bool   `json:"recursive"`
	Overwrite  bool   `json:"overwrite"`
	CreateDirs *bool  `json:"create_dirs"`
	Expect     string `json:"expect_sha256"`
	MaxEntries int    `json:"max_entries"`
	MaxBytes   int64  `json:"max_bytes"`
}

type copyData struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Type        string `json:"type"`
	Entries     int    `json:"entries"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256,omitempty"` // of a file
	Overwritten bool   `json:"overwritten"`
}

// copyPath does the work of fs.copy. The copy has its name when it is whole. Symlinks are copied as they are.
func copyPath(ctx context.Context, c *skill.Call, in copyInput) (*copyData, error) {
	t := transfer{call: c, maxEntries: in.MaxEntries, maxBytes: in.MaxBytes}
	if err := t.checkLimits(); err != nil {
		return nil, err
	}
	from, err := c.Root.Rel(in.From)
	if err != nil {
		return nil, err
	}
	p, err := preparePassage(ctx, c, from, in.To, in.Overwrite, in.Expect)
	if err != nil {
		return nil, err
	}
	if p.info.IsDir() && (from == "." || from == protocol.Dir) {
		return nil, skill.BadInput("/from", "holds what belongs to the runtime").WithHint("copy the folders in the workspace one by one")
	}
	if p.info.IsDir() && !in.Recursive {
		return nil, fault.Failed("is_directory", "%s is a folder", from).WithHint(`set "recursive":true to copy all of it`)
	}
	if err := makeParents(c, p.to, in.CreateDirs); err != nil {
		return nil, err
	}
	if err := t.replaceTarget(ctx, p, from); err != nil {
		return nil, err
	}
	data := copyData{From: from, To: p.to, Type: typeName(p.info.Mode()), Entries: t.entries, Size: t.bytes, Overwritten: p.old != nil}
	if !p.info.Mode().IsRegular() {
		return &data, nil
	}
	if data.SHA256, err = digestFile(ctx, c, p.to); err != nil {
		return nil, err
	}
	return &data, emitFile(c, p.to, data.SHA256, data.Size)
}

// transfer copies a file or a tree, up to its limits.
type transfer struct {
	call       *skill.Call
	maxEntries int
	maxBytes   int64

	entries int
	bytes   int64
}

func (t *transfer) checkLimits() error {
	t.maxEntries = cmp.Or(t.maxEntries, defaultTreeEntries)
	t.maxBytes = cmp.Or(t.maxBytes, defaultTreeBytes)
	switch {
	case t.maxEntries < 0 || t.maxEntries > maxTreeEntries:
		return skill.BadInput("/max_entries", "is not between 1 and %d", maxTreeEntries)
	case t.maxBytes < 0 || t.maxBytes > maxTreeBytes:
		return skill.BadInput("/max_bytes", "is not between 1 and %d", int64(maxTreeBytes))
	}
	return nil
}

// replaceTarget copies from to where p leads. A tree is made out of sight and renamed; its files are not flushed to the disk
// one by one, so that power loss may undo a copy that was just made.
func (t *transfer) replaceTarget(ctx context.Context, p passage, from string) error {
	root := t.call.Root
	if p.info.Mode().IsRegular() {
		t.entries++
		return t.copyFile(from, p.info, func(src io.Reader) (int64, error) { return root.WriteFrom(p.to, src, p.info.Mode().Perm()) })
	}
	dir, release, err := root.Scratch(path.Dir(p.to))
	if err != nil {
		return err
	}
	defer release()
	made, err := root.Rel(path.Join(dir, "copy"))
	if err != nil {
		return err
	}
	if err := t.copyEntry(ctx, from, made, p.info); err != nil {
		return err
	}
	return root.Rename(made, p.to)
}

// copyEntry copies a file, folder or symlink.
func (t *transfer) copyEntry(ctx context.Context, from, to string, info fs.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.entries++; t.entries > t.maxEntries {
		return tooMany(t.maxEntries)
	}
	root := t.call.Root
	switch {
	case info.Mode().IsRegular():
		return t.copyFile(from, info, func(src io.Reader) (int64, error) { return t.writeNew(to, info.Mode().Perm(), src) })
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(from)
		if err != nil {
			return err
		}
		return root.Symlink(target, to)
	case !info.IsDir():
		return specialFile(from, info.Mode())
	}
	if err := root.Mkdir(to, 0o755); err != nil {
		return err
	}
	entries, err := root.List(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(from, e.Name())
		if workspace.IsTemp(name) {
			continue
		}
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			return err
		}
		if err := t.copyEntry(ctx, name, path.Join(to, e.Name()), info); err != nil {
			return err
		}
	}
	return root.Chmod(to, info.Mode()|0o700)
}

func (t *transfer) copyFile(from string, info fs.FileInfo, create func(io.Reader) (int64, error)) error {
	if t.bytes+info.Size() > t.maxBytes {
		return t.tooLarge()
	}
	f, err := openFile(t.call, from)
	if err != nil {
		return err
	}
	defer f.Close()
	// A file that grows during the copy is copied up to its size at the start.
	n, err := create(io.LimitReader(f, info.Size()))
	t.bytes += n
	return err
}

func (t *transfer) tooLarge() error {
	return fault.Limit("too_large", "what is to be copied has more than %d bytes", t.maxBytes).WithHint("copy it in parts, or raise max_bytes")
}

// writeNew makes a temporary file that others do not see.
func (t *transfer) writeNew(name string, mode fs.FileMode, src io.Reader) (n int64, err error) {
	f, err := t.call.Root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(f, src)
	return n, errors.Join(err, f.Chmod(mode), f.Close())
}

func tooMany(limit int) error {
	return fault.Limit("too_many", "there are more than %d files and folders", limit).WithHint("name a smaller part, or raise max_entries")
}
