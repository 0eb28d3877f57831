package image

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Whiteouts of layers: .wh.NAME deletes NAME of the layers below, .wh..wh..opq deletes all their entries in the folder.
// The layer's own entries stay, regardless of the order of entries.
const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..opq"
)

// applyWhiteout applies the file .wh.<rest>.
func (x *extraction) applyWhiteout(in *folder, rest string) error {
	switch {
	case rest == whiteoutOpaque:
		return x.hideBelow(in.real)
	case strings.HasPrefix(rest, whiteoutPrefix):
		return nil // notes of aufs, which mean nothing elsewhere
	case rest == "" || rest == "." || rest == "..":
		return refuseImage("it is a whiteout of nothing that can be there")
	}
	return x.hidePath(in.joinReal(rest))
}

// hidePath removes the entry of lower layers at a path.
func (x *extraction) hidePath(name string) error {
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.made[name] {
		if info.IsDir() {
			return x.hideBelow(name)
		}
		return nil
	}
	x.leaveFolder()
	return x.root.RemoveAll(name)
}

// hideBelow removes the entries of lower layers in a folder.
func (x *extraction) hideBelow(name string) error {
	dir, err := x.root.Open(cmp.Or(name, "."))
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, n := range names {
			if err := x.hidePath(path.Join(name, n)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// notePath remembers that the layer at hand has put something at a path, and so keeps all folders above it.
func (x *extraction) notePath(name string) {
	if x.made == nil {
		return
	}
	for ; name != "." && name != "" && !x.made[name]; name = path.Dir(name) {
		x.made[name] = true
	}
}
