package git

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

type restoreInput struct {
	on
	Paths    []string `json:"paths"`
	Staged   bool     `json:"staged"`
	Worktree *bool    `json:"worktree"`
	Source   string   `json:"source"`
}

type restoreData struct {
	about
	engine.Restored
}

// Restore is git.restore.
func (f family) Restore(ctx context.Context, c *skill.Call, in restoreInput) (*restoreData, error) {
	worktree := !in.Staged
	if in.Worktree != nil {
		worktree = *in.Worktree
	}
	switch {
	case len(in.Paths) == 0:
		return nil, skill.BadInput("/paths", `is empty; ["."] is everything`)
	case !worktree && !in.Staged:
		return nil, skill.BadInput("/worktree", "is false and so is staged: nothing is left to restore")
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return nil, err
	}
	if in.Source != "" {
		if err := guard.CheckRevision(in.Source, "/source"); err != nil {
			return nil, err
		}
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	data := restoreData{about: r.describe()}
	data.Restored, err = r.Restore(ctx, engine.RestoreSpec{Paths: in.Paths, Source: in.Source, Staged: in.Staged, Worktree: worktree})
	return &data, err
}
