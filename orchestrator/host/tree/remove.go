package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// holdDepth is how many folders Remove keeps open below each other before it brings deeper ones to the top.
const holdDepth = 100

// Remove deletes path and all below it, folders without permissions included. It follows no link. A missing path is no
// error.
func Remove(path string) error {
	_, err := job{Do: opRemove, Dst: []byte(path)}.run(context.Background(), nil)
	return err
}

func removeTree(path string) error {
	parent, err := openRoot(filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove tree: %w", err)
	}
	defer parent.Close()
	r := &remover{}
	if err := r.removeEntry(parent, filepath.Base(path), 0); err != nil {
		return fmt.Errorf("remove tree %s: %w", path, err)
	}
	return nil
}

type remover struct {
	top folder // of the tree
}

func (r *remover) removeEntry(in folder, name string, depth int) error {
	err := unix.Unlinkat(in.fd(), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	st, statErr := in.lstat(name)
	if statErr != nil || fileType(st) != unix.S_IFDIR {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	f, err := openFolder(in.fd(), name)
	if err != nil {
		return err
	}
	defer f.Close()
	if st.Mode&0o700 != 0o700 {
		f.shut = nil
		if err := f.Chmod(0o700); err != nil {
			return err
		}
	}
	if depth > holdDepth {
		// A tree can be deeper than there are descriptors. Its rest moves to the top and is found there, under a name that
		// cannot be taken.
		return unix.Renameat(in.fd(), name, r.top.fd(), rand.Text())
	}
	if depth == 0 {
		r.top = f
	}
	for {
		if err := r.removeContents(f, depth); err != nil {
			return err
		}
		err := unix.Unlinkat(in.fd(), name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "remove", Path: name, Err: err}
		}
		// Names were skipped because others were removed, or folders were moved here: read again.
		if _, err := f.Seek(0, 0); err != nil {
			return err
		}
	}
}

func (r *remover) removeContents(f folder, depth int) error {
	return f.eachName(func(name string) error { return r.removeEntry(f, name, depth+1) })
}
