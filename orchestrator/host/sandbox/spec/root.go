package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Root describes the tree that a box shows as /. It is either Dir or an overlay; all of it is the sprite's state, which checkpoints keep.
type Root struct {
	Dir   string   // a complete tree; "" with an overlay
	Upper string   // overlay: the writable layer
	Work  string   // overlay: its work folder, on the same file system; emptied at each start
	Lower []string // overlay: the frozen layers, topmost first; the last one is the base
	Host  bool     // the tree has no programs of its own: an allowlisted, read-only view of the host's is shown over it
}

// Point is a checkpoint that a box shows read-only at /.sprite/checkpoints/ID.
type Point struct {
	ID   string
	Root Root
}

// Skeleton makes in dir the folders that a root needs, as far as they are missing: the sprite's own ones, which belong to
// uid and gid (see Owner; -1 leaves them to the user who calls), and those that mounts cover. It follows no links out of
// dir. Use it for the lowest layer of an overlay and for new trees.
func Skeleton(dir string, uid, gid int) error { return skeletonIn(dir, uid, gid, false) }

// Furnish is Skeleton for a tree that an image has filled: files in the place of folders are removed, and folders that are
// there get the owners and modes that they need. The tree then equals an overlay of a skeleton on it.
func Furnish(dir string, uid, gid int) error { return skeletonIn(dir, uid, gid, true) }

func skeletonIn(dir string, uid, gid int, settle bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("make the folders of a root: %w", err)
	}
	defer root.Close()
	if settle {
		err = root.Chmod(".", 0o755)
	}
	for _, f := range skeleton {
		if err == nil {
			err = f.makeFolder(root, uid, gid, settle)
		}
	}
	if err != nil {
		return fmt.Errorf("make the folders of a root: %w", err)
	}
	return nil
}

// makeFolder makes a folder of the skeleton. With settle one that is there gets its owner and mode, too, and anything else
// makes room for it.
func (f bone) makeFolder(root *os.Root, uid, gid int, settle bool) error {
	if info, err := root.Lstat(f.path); err == nil && settle && !info.IsDir() {
		if err := root.Remove(f.path); err != nil {
			return err
		}
	}
	err := root.Mkdir(f.path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if !settle {
			return nil
		}
		err = nil
	}
	if err == nil {
		err = root.Chmod(f.path, f.mode) // mkdir obeys the umask and knows no sticky bit
	}
	if err != nil || uid < 0 {
		return err
	}
	if !f.own {
		uid, gid = BoxRoot(uid, gid)
	}
	return root.Lchown(f.path, uid, gid)
}

// BoxRoot returns the owner of files that the sprite's user may not change: the box's own root where it has one, else that user.
func BoxRoot(uid, gid int) (rootUID, rootGID int) {
	if uid == OutsideLow+InsideID && gid == OutsideLow+InsideID {
		return OutsideLow, OutsideLow
	}
	return uid, gid
}

// The users of a box.
const (
	InsideID   = 1000   // user and group "sprite" in the box
	OutsideLow = 100000 // first of the host ids that a root host maps
	MapSize    = 65536
)

// PointPath is where a box shows a checkpoint.
func PointPath(id string) string { return ".sprite/checkpoints/" + id }

// bone is a folder of the skeleton.
type bone struct {
	path string
	mode fs.FileMode
	own  bool // belongs to the sprite's user
}

// skeleton lists folders, parents first.
var skeleton = []bone{
	{"workspace", 0o755, true},
	{"home", 0o755, false},
	{"home/sprite", 0o755, true},
	{"tmp", 0o777 | fs.ModeSticky, true},
	{"dev", 0o755, false},
	{"etc", 0o755, false},
	{"proc", 0o755, false},
	{"run", 0o755, false},
	{"skills", 0o755, true}, // seen only without Config.Skills,
	{".sprite", 0o755, false},
	{"var", 0o755, false},
	{"var/cache", 0o755, false},
	{"var/cache/sprite", 0o755, true},
	{"var/cache/shared", 0o755, false},
	{"var/local", 0o755, true},
	{"opt", 0o755, true},
	{"srv", 0o755, true},
	{"mnt", 0o755, true},
	{"usr", 0o755, false}, // of an image; the host's, where that is shown, covers it
	{"usr/local", 0o755, true},
	{"usr/local/bin", 0o755, true},
	{"usr/local/include", 0o755, true},
	{"usr/local/lib", 0o755, true},
	{"usr/local/share", 0o755, true},
}

// hostDir is where on the host the folder path of the box lies, as far as it can be named: of an overlay that is the
// writable layer, which holds only changed files.
func (r Root) hostDir(path string) string {
	if r.Dir != "" {
		return filepath.Join(r.Dir, path)
	}
	return filepath.Join(r.Upper, path)
}

// checkRoot refuses a root that is not whole, and paths that mean nothing.
func (r Root) checkRoot(level Level) error {
	switch {
	case r.Dir != "" && (r.Upper != "" || len(r.Lower) > 0):
		return errors.New("sandbox: Root is either a tree or an overlay")
	case r.Dir != "":
		return absoluteBelow("Root", r.Dir)
	case level == LevelProcess:
		return errors.New("sandbox: a plain process tree needs Root.Dir: it has no mounts")
	case len(r.Lower) == 0:
		return errors.New("sandbox: Root.Lower names no layer")
	}
	for _, l := range r.Lower {
		if err := absoluteBelow("Root.Lower", l); err != nil {
			return err
		}
	}
	return nil
}

func (r Root) checkWritable(level Level) error {
	if err := r.checkRoot(level); err != nil || r.Dir != "" {
		return err
	}
	return errors.Join(absoluteBelow("Root.Upper", r.Upper), absoluteBelow("Root.Work", r.Work))
}

func (p Point) Check() error {
	if p.ID == "" || strings.ContainsAny(p.ID, "/\x00") || p.ID == "." || p.ID == ".." {
		return fmt.Errorf("sandbox: %q cannot name a checkpoint", p.ID)
	}
	return p.Root.checkRoot(LevelRoot)
}

func absoluteBelow(name, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return fmt.Errorf("sandbox: %s must be an absolute path below /, not %q", name, path)
	}
	return nil
}
