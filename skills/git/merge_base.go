package git

import (
	"context"
	"fmt"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxCompared bounds how many commits are compared at once.
const maxCompared = 16

type mergeBaseInput struct {
	on
	Commits []string `json:"commits"`
	All     bool     `json:"all"`
}

type mergeBaseData struct {
	about
	Base string `json:"base"`
	engine.MergeBase
}

// MergeBase is git.merge_base. Commits without a common ancestor are not an error.
func (f family) MergeBase(ctx context.Context, c *skill.Call, in mergeBaseInput) (*mergeBaseData, error) {
	if len(in.Commits) < 2 || len(in.Commits) > maxCompared {
		return nil, skill.BadInput("/commits", "names %d commits, between 2 and %d are compared", len(in.Commits), maxCompared)
	}
	for i, revision := range in.Commits {
		if err := guard.CheckRevision(revision, fmt.Sprintf("/commits/%d", i)); err != nil {
			return nil, err
		}
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	data := mergeBaseData{about: r.describe()}
	data.MergeBase, err = r.MergeBase(ctx, engine.MergeBaseSpec{Commits: in.Commits, All: in.All})
	if len(data.Bases) > 0 {
		data.Base = data.Bases[0]
	}
	return &data, err
}
