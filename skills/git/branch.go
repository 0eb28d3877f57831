package git

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxBranches bounds a list of branches.
const maxBranches = 1000

// actionList is the default action of git.branch and git.worktree.
const actionList = "list"

type branchInput struct {
	on
	Action     string `json:"action"`
	Name       string `json:"name"`
	NewName    string `json:"new_name"`
	StartPoint string `json:"start_point"`
	Remote     bool   `json:"remote"`
	Track      *bool  `json:"track"` // nil: as git
	Force      bool   `json:"force"`
}

type branchData struct {
	about
	Branches  []engine.Branch `json:"branches"`
	Truncated bool            `json:"truncated"`
}

// Branch is git.branch.
func (f family) Branch(ctx context.Context, c *skill.Call, in branchInput) (*branchData, error) {
	in.Action = cmp.Or(in.Action, actionList)
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	switch in.Action {
	case actionList:
		list, err := r.Branches(ctx, engine.BranchList{Name: in.Name, Remote: in.Remote, Max: maxBranches + 1})
		data := branchData{about: r.describe(), Branches: list}
		if len(list) > maxBranches {
			data.Branches, data.Truncated = list[:maxBranches], true
		}
		return &data, err
	case engine.BranchDelete:
		return r.deleteBranch(ctx, in)
	}
	return r.changeBranch(ctx, c, in)
}

// checkInput validates the input alone.
func (in *branchInput) checkInput() error {
	switch in.Action {
	case actionList, engine.BranchCreate, engine.BranchDelete, engine.BranchRename:
	default:
		return skill.BadInput("/action", "%q is not one of list, create, delete, rename", in.Action)
	}
	if in.Name == "" && in.Action != actionList {
		return skill.BadInput("/name", "is required to %s a branch", in.Action)
	}
	if in.Name != "" {
		if err := guard.CheckRef(in.Name, "/name"); err != nil {
			return err
		}
	}
	if (in.NewName != "") != (in.Action == engine.BranchRename) {
		return skill.BadInput("/new_name", "is required for a rename and invalid otherwise")
	}
	if in.NewName != "" {
		if err := guard.CheckRef(in.NewName, "/new_name"); err != nil {
			return err
		}
	}
	if in.StartPoint == "" {
		return nil
	}
	if in.Action != engine.BranchCreate {
		return skill.BadInput("/start_point", "is for a new branch: action is %s", in.Action)
	}
	return guard.CheckRevision(in.StartPoint, "/start_point")
}

// deleteBranch deletes a branch and returns it as it was.
func (r *repo) deleteBranch(ctx context.Context, in branchInput) (*branchData, error) {
	list, err := r.Branches(ctx, engine.BranchList{Name: in.Name})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, engine.RefNotFound("%s has no branch %s", r.at.Name, in.Name)
	}
	err = r.ChangeBranch(ctx, engine.BranchChange{Action: in.Action, Name: in.Name, Force: in.Force})
	return &branchData{about: r.describe(), Branches: list}, err
}

func (r *repo) changeBranch(ctx context.Context, c *skill.Call, in branchInput) (*branchData, error) {
	change := engine.BranchChange{
		Action: in.Action, Name: in.Name, NewName: in.NewName, StartPoint: in.StartPoint, Force: in.Force,
		NoTrack: in.Track != nil && !*in.Track,
	}
	if err := r.ChangeBranch(ctx, change); err != nil {
		return nil, err
	}
	list, err := r.Branches(ctx, engine.BranchList{Name: cmp.Or(in.NewName, in.Name)})
	if err != nil {
		return nil, err
	}
	for _, b := range list {
		if err := emitBranch(c, b.Name, b.Commit); err != nil {
			return nil, err
		}
	}
	return &branchData{about: r.describe(), Branches: list}, nil
}

// emitBranch reports a new branch as an artifact.
func emitBranch(c *skill.Call, name, commit string) error {
	metadata, err := json.Marshal(map[string]any{"commit": commit})
	if err != nil {
		return fmt.Errorf("describe the branch: %w", err)
	}
	return c.Emit(protocol.Artifact{Kind: "branch", Ref: name, Metadata: metadata})
}
