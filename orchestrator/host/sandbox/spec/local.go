package spec

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A box that shows the host's programs shows /usr read-only, but programs install to /usr/local. So an overlay of its own lies
// there: writes of the sprite go to usr/local in the writable layer of its root, above the files of earlier layers and of
// the host. Two overlays then have writable layers of which one lies in the other, which the kernel allows as long as no file is
// used through both: the root's /usr/local is covered.
//
// A root that is one tree has usr/local of that tree there, and mounts of the host's folders over it (view.Plan).

// LocalPath is where in a root that overlay lies.
const LocalPath = "usr/local"

// Local is the overlay at /usr/local, if the box has one. Its layers are those of the root, in which it lies at LocalPath.
func (c Config) Local() (*Root, bool) {
	if c.Root.Upper == "" || !c.HasLocal() {
		return nil, false
	}
	return &Root{Upper: c.Root.Upper, Work: filepath.Join(c.Root.Work, "local"), Lower: c.Root.Lower}, true
}

// HasLocal reports whether the box shows the host's programs and a /usr/local of its own over them, which the host has too.
func (c Config) HasLocal() bool {
	st, err := os.Lstat("/" + LocalPath)
	return c.Root.Host && (c.Root.Dir != "" || c.Root.Upper != "") && err == nil && st.IsDir()
}

// MakeLocal makes the folders of /usr/local in the writable layer or tree, as far as they are missing, with the owners and
// times that the folders below have.
func (c Config) MakeLocal() error {
	uid, gid := -1, -1
	if c.Level == LevelRoot {
		uid, gid = c.Owner()
	}
	root, err := os.OpenRoot(cmp.Or(c.Root.Upper, c.Root.Dir))
	if err != nil {
		return fmt.Errorf("make the folders of /usr/local: %w", err)
	}
	defer root.Close()
	for _, path := range []string{filepath.Dir(LocalPath), LocalPath} {
		if _, err := root.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err = (bone{path, 0o755, path == LocalPath}).makeFolder(root, uid, gid, false); err == nil {
			err = c.Root.copyTimes(root, path)
		}
		if err != nil {
			return fmt.Errorf("make the folders of /usr/local: %w", err)
		}
	}
	return nil
}

// copyTimes gives a folder of the writable layer the times of the one that it covers.
func (r Root) copyTimes(upper *os.Root, path string) error {
	for _, lower := range r.Lower {
		if st, err := os.Lstat(filepath.Join(lower, path)); err == nil && st.IsDir() {
			return upper.Chtimes(path, st.ModTime(), st.ModTime())
		}
	}
	return nil
}
