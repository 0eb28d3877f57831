// Package native is the engine for images without git, built on go-git: it clones, shows the status, lists the files that
// differ, stages, commits, logs, creates branches, resolves revisions, and writes the bundles of pushes that are requested.
//
// Start with Engine and repo. Clone reads from a source (a bundle, a repository of the workspace, or a remote over HTTP);
// status, add and commit share one walk over the work tree (scan). go-git stores and parses objects, refs and the index, and
// speaks the protocol; packages gitdir and wire add the missing parts: git's own locks and logs, the limits of a call, a
// credential that is bound to one remote. This package adds the ignore rules of package ignore and a work tree of which no
// symlink is followed.
//
// The engine has the effect of git, or refuses with the code unsupported: submodules, linked work trees, sparse, split and
// partial repositories, shallow clones, borrowed objects, SHA-256, files in conflict, attributes that convert content, ssh. It
// pushes nothing to a remote. It runs no
// program.
package native

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/spritekit/fault"
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
	*gitdir.Dir
	at engine.Location
}

// Open opens a repository.
func (Engine) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	config, ok := at.Config.(gitconfig.Config)
	if at.Config != nil && !ok {
		return nil, errors.New("open a repository: its configuration is not a gitconfig.Config")
	}
	if config.Bool("core", "", "bare", false) {
		return nil, engine.Refuse("bare repositories")
	}
	r, err := openRepo(at, config)
	if err != nil {
		return nil, explainError(err, "open_failed")
	}
	return r, nil
}

func openRepo(at engine.Location, config gitconfig.Config) (*repo, error) {
	if at.GitDir != at.CommonDir {
		return nil, engine.Refuse("linked work trees")
	}
	dir, err := gitdir.Open(at.GitDir, config)
	if err != nil {
		return nil, err
	}
	return &repo{Dir: dir, at: at}, nil
}

// explainError turns errors into errors that callers act upon; code is for those that are git's and have no code of their own.
func explainError(err error, code string) error {
	var known *skill.Error
	var path *fs.PathError
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, gitdir.ErrLocked):
		return fault.Busy("busy", "%v", err).WithHint("another git works in this repository; if there is none, it was killed: remove that file and try again")
	case errors.Is(err, gitdir.ErrMoved):
		return fault.Busy("busy", "%v", err).WithHint("another process moved it at the same moment; look and try again")
	case errors.Is(err, gitdir.ErrHostile):
		return fault.Unsafe("unsafe", "%v", err).WithHint("this repository is made to do harm, or broken; do not work with it")
	case errors.As(err, &path):
		return err // a full disk, a missing permission
	}
	return fault.Failed(code, "%v", err)
}

// shortenRef returns a ref as people write it.
func shortenRef(ref string) string { return plumbing.ReferenceName(ref).Short() }

// cleanPaths returns paths as the index writes them. A slash at the end stays: it asks for a folder.
func cleanPaths(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		if clean[i] = path.Clean(p); clean[i] != "." && strings.HasSuffix(p, "/") {
			clean[i] += "/"
		}
	}
	return clean
}

// isUnder reports whether a path is one of paths or lies below one; no paths stand for all. The path of a folder ends with a slash.
func isUnder(path string, paths []string) bool {
	if len(paths) == 0 {
		return true
	}
	return slices.ContainsFunc(paths, func(p string) bool {
		rest, ok := strings.CutPrefix(path, p)
		return p == "." || ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(p, "/"))
	})
}
