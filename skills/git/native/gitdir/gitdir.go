// Package gitdir is a repository's .git folder: its objects, refs and history, stored and parsed by go-git, with git's own
// locks and logs of refs and limits for received objects. Start with Dir. It knows neither the index nor a work tree.
package gitdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Dir is an open .git folder.
type Dir struct {
	Config  gitconfig.Config
	Store   *filesystem.Storage
	Root    *os.Root               // the folder
	Shallow map[plumbing.Hash]bool // commits whose parents were not fetched
}

// The failures of repositories that are made to do harm, or in use.
var (
	ErrHostile = errors.New("hostile content") // made to do harm, or broken
	ErrLocked  = errors.New("locked")
	ErrMoved   = errors.New("moved")
)

// inMemory is the size from which go-git streams the content of an object, in bytes.
const inMemory = 16 << 20

// Open opens a .git folder that is not a linked work tree's; it refuses forms that this engine does not know.
func Open(dir string, config gitconfig.Config) (*Dir, error) {
	if err := checkFormat(dir, config); err != nil {
		return nil, err
	}
	if err := checkFolders(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	files := withoutLocks{osfs.New(dir, osfs.WithBoundOS())}
	store := filesystem.NewStorageWithOptions(files, cache.NewObjectLRU(64*cache.MiByte),
		filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: inMemory})
	d := &Dir{Config: config, Store: store, Root: root}
	if err := d.readShallow(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close closes the files of the folder.
func (d *Dir) Close() error { return errors.Join(d.Store.Close(), d.Root.Close()) }

// withoutLocks hides the locks of refs, which go-git would take for refs.
type withoutLocks struct{ billy.Filesystem }

func (f withoutLocks) ReadDir(name string) ([]os.FileInfo, error) {
	list, err := f.Filesystem.ReadDir(name)
	return slices.DeleteFunc(list, func(i os.FileInfo) bool { return strings.HasSuffix(i.Name(), ".lock") }), err
}

// readShallow reads the list of commits whose parents were not fetched.
func (d *Dir) readShallow() error {
	data, err := d.ReadSmall("shallow")
	if err != nil {
		return err
	}
	d.Shallow = map[plumbing.Hash]bool{}
	for line := range strings.Lines(string(data)) {
		d.Shallow[plumbing.NewHash(strings.TrimSpace(line))] = true
	}
	return nil
}

// checkFormat refuses a repository of a form that this engine does not know.
func checkFormat(gitDir string, config gitconfig.Config) error {
	for _, c := range []struct{ section, name, want, what string }{
		{"extensions", "objectformat", "sha1", "SHA-256 repositories"},
		{"extensions", "refstorage", "files", "reftable repositories"},
		{"extensions", "partialclone", "", "partial clones"},
		{"extensions", "compatobjectformat", "", "repositories of two object formats"},
		{"core", "worktree", "", "repositories whose work tree lies elsewhere"},
		{"core", "eol", "lf", "the conversion of line ends (core.eol)"},
	} {
		if v, ok := config.Value(c.section, "", c.name); ok && v != "" && !strings.EqualFold(v, c.want) {
			return engine.Refuse(c.what)
		}
	}
	for _, c := range []struct{ name, what string }{
		{"sparsecheckout", "sparse checkouts"},
		{"splitindex", "split indexes"},
		{"ignorecase", "work trees that ignore case"},
		{"autocrlf", "the conversion of line ends (core.autocrlf)"},
	} {
		if v, ok := config.Value("core", "", c.name); ok && (config.Bool("core", "", c.name, false) || strings.EqualFold(v, "input")) {
			return engine.Refuse(c.what)
		}
	}
	if version, _ := config.Value("core", "", "repositoryformatversion"); version != "" && version != "0" && version != "1" {
		return engine.Refuse("repositories of format version " + version)
	}
	if _, err := os.Lstat(filepath.Join(gitDir, "objects", "info", "alternates")); err == nil {
		return engine.Refuse("repositories that borrow objects")
	}
	return nil
}

// checkFolders refuses a .git with symlinks in the place of folders: files would be written elsewhere.
func checkFolders(gitDir string) error {
	for _, name := range []string{"objects", "objects/pack", "objects/info", "refs", "logs", "info"} {
		info, err := os.Lstat(filepath.Join(gitDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fault.Unsafe("unsafe_path", "%s in the .git folder is not a folder", name).
				WithHint("something in the sprite put it there: clone the repository again")
		}
	}
	return nil
}

// Hex returns the digits of an id, "" for the zero id.
func Hex(id plumbing.Hash) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// Hexes returns the digits of ids.
func Hexes(ids []plumbing.Hash) []string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, id.String())
	}
	return list
}
