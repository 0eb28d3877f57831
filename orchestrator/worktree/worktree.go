// Package worktree is everything git on the orchestrator's side: it reads the repository that a run works on, and it
// brings what a sprite made of it back. Both directions travel as bundles (DESIGN 19). Start with Git.
//
//	Seed     the user's repository (URL or path) → a bundle that a sprite can clone
//	Inspect  a bundle from a sprite → what pushing it would do, verified
//	Push     that, as a compare-and-swap on one branch
//
// Two kinds of input meet here and are never mixed. The user's own repository, configuration and credentials are
// trusted: git reads them with the user's environment and pushes with it. A bundle is hostile: git never parses it as a
// bundle. Its header is read here, its pack goes through index-pack --strict into a fresh bare repository with an empty
// configuration, which borrows the target's objects and is thrown away afterwards. Every git that reads there has limits of
// memory, time and output.
//
// Promises: the user's index, working tree, refs, reflogs and stash are never written, except for the one branch that a
// push makes; no hook of a repository that is only read is run; nothing is ever forced; protected branches are refused
// before the remote is contacted where that can be known, and before anything is sent where it cannot. An answer that
// will stay the same is a *lattice.Refusal; every other error means "could not find out" and may be tried again. All
// text of git that leaves this package has credentials and control characters removed.
package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Options configures New. Zero limits take their defaults.
type Options struct {
	Path      string   // the git executable; "" finds "git" in PATH of Env's process
	Env       []string // the user's environment, handed down by main
	Scratch   string   // a private directory for temporary repositories; made when missing
	Mirrors   string   // a private directory for the mirrors of URLs, which may be shared; default: "mirrors" in Scratch
	Protected []string // further protected branches as path.Match patterns ("release/*"); main and master always are

	MaxBundle  int64 // bytes of a sprite's bundle; default 512 MiB
	MaxObjects int   // objects in a sprite's pack; default 1,000,000
}

// Git runs the system's git. It is safe for concurrent use; one Git owns its scratch directory. Mirrors may be used by
// several, in several processes.
type Git struct {
	path       string
	env        []string
	scratch    string
	protected  []string
	maxBundle  int64
	maxObjects int
	maxFile    int64 // bytes of one file of a sprite's
	mirrors    string
	cages      chan struct{} // see enter
}

// New prepares the scratch directory and looks for git. Scratch repositories that a crash left behind are removed.
func New(o Options) (*Git, error) {
	if o.Scratch == "" {
		return nil, errors.New("worktree: no scratch directory given")
	}
	scratch, err := filepath.Abs(o.Scratch)
	if err != nil {
		return nil, fmt.Errorf("locate the scratch directory: %w", err)
	}
	path, err := findGit(o.Path)
	if err != nil {
		return nil, err
	}
	// A git that a killed process left running may still add to what is removed here: the next New removes that.
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
	g := &Git{
		path:       path,
		env:        o.Env,
		scratch:    scratch,
		protected:  append([]string{"main", "master"}, o.Protected...),
		maxBundle:  o.MaxBundle,
		maxObjects: o.MaxObjects,
		maxFile:    512 << 20,
		mirrors:    mirrors,
		cages:      make(chan struct{}, concurrentCages),
	}
	if g.maxBundle <= 0 {
		g.maxBundle = 512 << 20
	}
	if g.maxObjects <= 0 {
		g.maxObjects = 1_000_000
	}
	return g, nil
}

// newRefusal makes a final error: code for machines, message for people, hint as the remedy.
func newRefusal(code, hint, format string, args ...any) *lattice.Refusal {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

// isRefusal reports whether err carries an answer that will stay the same.
func isRefusal(err error) bool {
	var r *lattice.Refusal
	return errors.As(err, &r)
}

// tempDir makes a directory that the caller removes.
func (g *Git) tempDir(kind string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(filepath.Join(g.scratch, "tmp"), kind+"-")
	if err != nil {
		return "", nil, fmt.Errorf("make a scratch repository: %w", err)
	}
	// What stays behind after a failed removal is cleared by the next New.
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
