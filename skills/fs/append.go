package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

type appendData struct {
	Path     string `json:"path"`
	Offset   int64  `json:"offset"`
	Appended int64  `json:"appended"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Created  bool   `json:"created"`
	Mode     string `json:"mode"`
}

// appendFile does the work of fs.append. It adds the content with a single write, so that concurrent writers do not mix their lines.
func appendFile(ctx context.Context, c *skill.Call, in contentInput) (*appendData, error) {
	t, err := in.openTarget(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := onlyName(t.rel, t.old); err != nil {
		return nil, err
	}
	offset, err := appendBytes(c, t.rel, t.data, t.mode, t.old == nil)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", t.rel, err)
	}
	info, err := c.Root.Stat(t.rel)
	if err != nil {
		return nil, err
	}
	sum, err := digestFile(ctx, c, t.rel)
	if err != nil {
		return nil, err
	}
	return &appendData{
		Path: t.rel, Offset: offset, Appended: int64(len(t.data)), Size: info.Size(), SHA256: sum, Created: t.old == nil, Mode: formatMode(info.Mode()),
	}, emitFile(c, t.rel, sum, info.Size())
}

// onlyName refuses to write into a file that has other names: package managers link files of many projects to one
// store, and a link may have been planted.
func onlyName(rel string, info fs.FileInfo) error {
	if info == nil {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return fault.Unsafe("hard_link", "%s has %d names, and all of them would change", rel, st.Nlink).
			WithHint("fs.copy it and move the copy into its place, or fs.write it again: both leave the other names as they are")
	}
	return nil
}

// appendBytes writes data at the end of a file and returns where it begins. If there is no space for all of it, the
// written part is removed, unless another process has appended since.
func appendBytes(c *skill.Call, rel string, data []byte, mode fs.FileMode, created bool) (offset int64, err error) {
	f, err := c.Root.OpenFile(rel, os.O_WRONLY|os.O_APPEND|os.O_CREATE, cmp.Or(mode, 0o644))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return 0, err
		}
	}
	n, err := f.Write(data)
	info, serr := f.Stat()
	if serr != nil {
		return 0, errors.Join(err, serr)
	}
	if err != nil {
		if end, serr := f.Seek(0, 1); serr == nil && end == info.Size() {
			err = errors.Join(err, f.Truncate(end-int64(n)))
		}
		if created && info.Size() == int64(n) {
			err = errors.Join(err, c.Root.Remove(rel))
		}
		return 0, err
	}
	end, err := f.Seek(0, 1) // of this write, even with concurrent writers
	if err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return end - int64(n), c.Root.SyncDir(path.Dir(rel))
}
