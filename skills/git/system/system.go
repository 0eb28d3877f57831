// Package system is the engine that uses the git of the sprite: one file for each verb. Start with [Find] and repo, which
// runs git through package gitcmd and reads git's stable formats only, as they stream.
//
// A verb starts as few processes as possible: HEAD, refs and a new commit are read from the repository's files by package
// gitfiles where that is simple and exact, and from git otherwise.
package system

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/skills/git/gitfiles"
	"github.com/spritekit/lattice/skills/proc"
)

// Engine uses one git for one call.
type Engine struct{ *gitcmd.Git }

// Find returns the engine of the git on a PATH list; see [gitcmd.Find].
func Find(ctx context.Context, reaper *proc.Reaper, path string) (*Engine, error) {
	g, err := gitcmd.Find(ctx, reaper, path)
	if err != nil {
		return nil, err
	}
	return &Engine{g}, nil
}

var _ engine.Engine = (*Engine)(nil)

// Name is engine.System.
func (s *Engine) Name() string { return engine.System }

// Open never fails: each command names the location of the repository, so that git does not search for it.
func (s *Engine) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	return s.open(at), nil
}

func (s *Engine) open(at engine.Location) *repo {
	return &repo{refs{gitcmd.WorkTree{Git: s.Git, At: at}, gitfiles.Files{At: at}}, at}
}

// repo is an opened repository.
type repo struct {
	refs
	at engine.Location
}

var _ engine.Repo = (*repo)(nil)

// Close has nothing to release.
func (r *repo) Close() error { return nil }
