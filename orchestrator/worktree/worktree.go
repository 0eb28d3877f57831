// Package worktree runs git on the orchestrator's side: it copies the repository of a run into a sprite and pushes the
// commits of the sprite. Both directions use bundles (DESIGN 19). Start with Git.
//
//	Seed     creates a bundle of the user's repository (URL or path) that a sprite can clone
//	Inspect  verifies a bundle from a sprite and describes the effect of pushing it
//	Push     pushes it, as a compare-and-swap on one branch, with a line for the notes about its commit
//
// Two kinds of input meet here and are never mixed. The user's own repository, configuration and credentials are
// trusted: git reads them with the user's environment and pushes with it. A bundle is hostile: git never parses it as a
// bundle. This package parses the header and imports the pack with index-pack --strict into a new bare repository with an
// empty configuration, which has the target's objects as alternates and is deleted afterwards. Every git process that
// reads it has limits on memory, time and output.
//
// Promises: the user's index, working tree, refs, reflogs and stash are never written, except for the one branch that a
// push makes and NotesRef; no hook of a repository that is only read is run; nothing is ever forced; protected branches are refused
// before the remote is contacted if possible, else before anything is sent. A final error is a *lattice.Refusal; all other
// errors are temporary, and the caller may try again. Credentials and control characters are removed from all text of git
// that leaves this package.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/mirror"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// Options configures New. Zero limits have defaults.
type Options struct {
	Path      string   // the git executable; "" finds "git" in PATH of Env's process
	Env       []string // the user's environment
	Scratch   string   // a private directory for temporary repositories; made when missing
	Mirrors   string   // a private directory for the mirrors of URLs, which may be shared; default: "mirrors" in Scratch
	Protected []string // further protected branches as path.Match patterns ("release/*"); main and master always are

	// Authorize returns the value of the header Authorization for a URL of http or https, "" where the user's own git
	// knows it. It may be nil.
	Authorize func(ctx context.Context, url string) (string, error)

	MaxBundle  int64 // bytes of a sprite's bundle; default 512 MiB
	MaxObjects int   // objects in a sprite's pack; default 1,000,000
}

// Git runs the system's git. It is safe for concurrent use; one Git owns its scratch directory. Mirrors may be used by
// several, in several processes.
type Git struct {
	proc       *gitexec.Runner
	scratch    string
	protected  []string
	maxBundle  int64
	maxObjects int
	maxFile    int64 // bytes of one file of a sprite's
	remote     remote.Client
	mirrors    mirror.Store
}

// New creates the scratch directory and finds git. It removes scratch repositories that a crash left behind.
func New(o Options) (*Git, error) {
	if o.Scratch == "" {
		return nil, errors.New("worktree: no scratch directory given")
	}
	scratch, err := filepath.Abs(o.Scratch)
	if err != nil {
		return nil, fmt.Errorf("locate the scratch directory: %w", err)
	}
	path, err := gitexec.Find(o.Path)
	if err != nil {
		return nil, err
	}
	// An orphaned git may still add files during the removal; the next New removes those.
	if err := os.RemoveAll(filepath.Join(scratch, "tmp")); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return nil, fmt.Errorf("clear the scratch directory: %w", err)
	}
	mirrors := filepath.Join(scratch, "mirrors")
	if o.Mirrors != "" {
		if mirrors, err = filepath.Abs(o.Mirrors); err != nil {
			return nil, fmt.Errorf("locate the mirrors: %w", err)
		}
	}
	for _, dir := range []string{filepath.Join(scratch, "tmp"), filepath.Join(scratch, "home"), mirrors} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the scratch directory: %w", err)
		}
	}
	proc := gitexec.New(path, o.Env, scratch)
	client := remote.Client{Git: proc, Authorize: o.Authorize}
	g := &Git{
		proc:       proc,
		scratch:    scratch,
		protected:  append([]string{"main", "master"}, o.Protected...),
		maxBundle:  o.MaxBundle,
		maxObjects: o.MaxObjects,
		maxFile:    512 << 20,
		remote:     client,
		mirrors:    mirror.Store{Remote: client, Dir: mirrors},
	}
	if g.maxBundle <= 0 {
		g.maxBundle = 512 << 20
	}
	if g.maxObjects <= 0 {
		g.maxObjects = 1_000_000
	}
	return g, nil
}

// Mirrors returns the mirrors of URLs.
func (g *Git) Mirrors() mirror.Store { return g.mirrors }

// tempDir makes a directory that the caller removes.
func (g *Git) tempDir(kind string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(filepath.Join(g.scratch, "tmp"), kind+"-")
	if err != nil {
		return "", nil, fmt.Errorf("make a scratch repository: %w", err)
	}
	// If the removal fails, the next New removes the rest.
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
