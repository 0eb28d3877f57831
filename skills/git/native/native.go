// Package native is the engine for images without git, built on go-git: it clones, shows the status, stages, commits,
// logs, creates and deletes branches, resolves revisions, pushes and writes bundles.
//
// Start with Engine and repo. Clone reads from a source (a bundle, a repository of the workspace, or a remote over HTTP);
// status, add and commit share one walk over the work tree (scan); log, push and bundle share one walk over history
// (paint). go-git stores and parses objects, refs and the index, and speaks the protocol. This package adds what go-git
// lacks: git's own locks and logs, the limits of a call, the ignore rules of package ignore, and a work tree of which no
// symlink is followed.
//
// The engine does what git does, or refuses with the code unsupported: submodules, linked work trees, sparse, split and
// partial repositories, borrowed objects, SHA-256, files in conflict, attributes that convert content, ssh. It runs no
// program.
package native

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/spritekit/lattice/spritekit/skill"
)

// Engine is the native engine. Its zero value is ready.
type Engine struct{}

var (
	_ engine.Engine = Engine{}
	_ engine.Repo   = (*repo)(nil)
)

// Name returns engine.Native.
func (Engine) Name() string { return engine.Native }

// repo is an open repository. The embedded engine.Unsupported refuses the methods that repo lacks.
type repo struct {
	engine.Unsupported
	at      engine.Location
	config  gitconfig.Config
	store   *filesystem.Storage
	git     *os.Root               // the .git folder
	shallow map[plumbing.Hash]bool // commits whose parents were not fetched
}

// Open opens a repository.
func (Engine) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	config, ok := at.Config.(gitconfig.Config)
	if at.Config != nil && !ok {
		return nil, errors.New("open a repository: its configuration is not a gitconfig.Config")
	}
	if config.Bool("core", "", "bare", false) {
		return nil, refuse("bare repositories")
	}
	r, err := open(at, config)
	if err != nil {
		return nil, explain(err, "open_failed")
	}
	return r, nil
}

// inMemory is the size from which go-git streams the content of an object, in bytes.
const inMemory = 16 << 20

func open(at engine.Location, config gitconfig.Config) (*repo, error) {
	if at.GitDir != at.CommonDir {
		return nil, refuse("linked work trees")
	}
	if err := checkFormat(at.GitDir, config); err != nil {
		return nil, err
	}
	if err := checkFolders(at.GitDir); err != nil {
		return nil, err
	}
	git, err := os.OpenRoot(at.GitDir)
	if err != nil {
		return nil, err
	}
	files := withoutLocks{osfs.New(at.GitDir, osfs.WithBoundOS())}
	store := filesystem.NewStorageWithOptions(files, cache.NewObjectLRU(64*cache.MiByte),
		filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: inMemory})
	r := &repo{Unsupported: engine.Unsupported{Engine: engine.Native}, at: at, config: config, store: store, git: git}
	if err := r.readShallow(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// withoutLocks hides the locks of refs, which go-git would take for refs.
type withoutLocks struct{ billy.Filesystem }

func (f withoutLocks) ReadDir(name string) ([]os.FileInfo, error) {
	list, err := f.Filesystem.ReadDir(name)
	return slices.DeleteFunc(list, func(i os.FileInfo) bool { return strings.HasSuffix(i.Name(), ".lock") }), err
}

// readShallow reads the list of commits whose parents were not fetched.
func (r *repo) readShallow() error {
	commits, err := r.store.Shallow()
	if err != nil {
		return fmt.Errorf("read .git/shallow: %w", err)
	}
	r.shallow = make(map[plumbing.Hash]bool, len(commits))
	for _, commit := range commits {
		r.shallow[commit] = true
	}
	return nil
}

// Close closes the files of the repository.
func (r *repo) Close() error { return errors.Join(r.store.Close(), r.git.Close()) }

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
			return refuse(c.what)
		}
	}
	for _, c := range []struct{ name, what string }{
		{"sparsecheckout", "sparse checkouts"},
		{"splitindex", "split indexes"},
		{"ignorecase", "work trees that ignore case"},
		{"autocrlf", "the conversion of line ends (core.autocrlf)"},
	} {
		if v, ok := config.Value("core", "", c.name); ok && (config.Bool("core", "", c.name, false) || strings.EqualFold(v, "input")) {
			return refuse(c.what)
		}
	}
	if version, _ := config.Value("core", "", "repositoryformatversion"); version != "" && version != "0" && version != "1" {
		return refuse("repositories of format version " + version)
	}
	if _, err := os.Lstat(filepath.Join(gitDir, "objects", "info", "alternates")); err == nil {
		return refuse("repositories that borrow objects")
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
			return skill.Unsafe("unsafe_path", "%s in the .git folder is not a folder", name).
				WithHint("something in the sprite put it there: clone the repository again")
		}
	}
	return nil
}

// refuse says that the engine cannot do something, and that git can.
func refuse(what string) error { return engine.Refuse(engine.Native, what) }

// The failures that explain gives a code.
var (
	errHostile = errors.New("hostile content") // made to do harm, or broken
	errLocked  = errors.New("locked")
	errMoved   = errors.New("moved")
)

// explain turns errors into errors that callers act upon; code is for those that are git's and have no code of their own.
func explain(err error, code string) error {
	var known *skill.Error
	var path *fs.PathError
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errLocked):
		return skill.Busy("%v", err).WithHint("another git works in this repository; if there is none, it was killed: remove that file and try again")
	case errors.Is(err, errMoved):
		return skill.Busy("%v", err).WithHint("another process moved it at the same moment; look and try again")
	case errors.Is(err, errHostile):
		return skill.Unsafe("unsafe", "%v", err).WithHint("this repository is made to do harm, or broken; do not work with it")
	case errors.As(err, &path):
		return err // a full disk, a missing permission
	}
	return skill.Failed(code, "%v", err)
}

// shorten returns a ref as people write it.
func shorten(ref string) string { return plumbing.ReferenceName(ref).Short() }

// hex returns the digits of an id, "" for the zero id.
func hex(id plumbing.Hash) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func hexes(ids []plumbing.Hash) []string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, id.String())
	}
	return list
}

// isUnder reports whether a path is one of paths or lies below one; no paths stand for all.
func isUnder(path string, paths []string) bool {
	if len(paths) == 0 {
		return true
	}
	for _, p := range paths {
		if p == "." || path == p || strings.HasPrefix(path, p) && path[len(p)] == '/' {
			return true
		}
	}
	return false
}
