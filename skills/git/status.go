package git

import (
	"cmp"
	"context"
	"slices"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxStatus bounds the entries of a status; the counts include all.
const maxStatus = 2000

type statusInput struct {
	on
	Paths     []string `json:"paths"`
	Untracked string   `json:"untracked"`
	Ignored   bool     `json:"ignored"`
	Renames   bool     `json:"renames"`
}

type statusData struct {
	about
	engine.Status
}

// Status is git.status.
func (f family) Status(ctx context.Context, c *skill.Call, in statusInput) (*statusData, error) {
	in.Untracked = cmp.Or(in.Untracked, engine.UntrackedNormal)
	if !slices.Contains([]string{engine.UntrackedNormal, engine.UntrackedAll, engine.UntrackedNo}, in.Untracked) {
		return nil, skill.BadInput("/untracked", "%q is not one of normal, all, no", in.Untracked)
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	status, err := r.Status(ctx, engine.StatusSpec{
		Paths: in.Paths, Untracked: in.Untracked, Ignored: in.Ignored, Renames: in.Renames, Max: maxStatus,
	})
	return &statusData{about: r.describe(), Status: status}, err
}
