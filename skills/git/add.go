package git

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

type addInput struct {
	on
	Paths  []string `json:"paths"`
	All    bool     `json:"all"`
	Update bool     `json:"update"`
	Force  bool     `json:"force"`
	DryRun bool     `json:"dry_run"`
}

type addData struct {
	about
	engine.Added
}

// Add is git.add.
func (f family) Add(ctx context.Context, c *skill.Call, in addInput) (*addData, error) {
	said := 0
	for _, is := range []bool{len(in.Paths) > 0, in.All, in.Update} {
		if is {
			said++
		}
	}
	if said != 1 {
		return nil, skill.BadInput("/paths", "or all, or update: exactly one of them says what to stage")
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var added engine.Added
	err = r.stageWith(func() (err error) {
		added, err = r.Add(ctx, engine.AddSpec{
			Paths: in.Paths, All: in.All, Update: in.Update, Force: in.Force, DryRun: in.DryRun, Max: maxStatus,
		})
		return err
	})
	return &addData{about: r.describe(), Added: added}, err
}
