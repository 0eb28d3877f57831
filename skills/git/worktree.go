package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

type worktreeInput struct {
	on
	Action string `json:"action"`
	Dest   string `json:"dest"`
	Branch string `json:"branch"`
	Ref    string `json:"ref"`
	Force  bool   `json:"force"`
}

type worktreeData struct {
	about
	Worktrees []engine.Worktree `json:"worktrees"`
}

// Worktree is git.worktree.
func (f family) Worktree(ctx context.Context, c *skill.Call, in worktreeInput) (*worktreeData, error) {
	in.Action = cmp.Or(in.Action, actionList)
	change, err := in.toChange(c)
	if err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if in.Action != actionList {
		if in.Action == engine.WorktreeAdd {
			err = errors.Join(guard.ExcludeOwn(c.Root, r.at.CommonDir), c.Root.MkdirAll(filepath.Dir(change.Dest)))
		}
		if err == nil {
			err = r.Worktree(ctx, change)
		}
		if err != nil {
			return nil, err
		}
	}
	list, err := r.Worktrees(ctx)
	if err != nil {
		return nil, err
	}
	for i, w := range list {
		if rel, err := c.Root.Rel(w.Path); err == nil { // a work tree outside the workspace keeps its absolute path
			list[i].Path = rel
		}
		if in.Action == engine.WorktreeAdd && w.Path == change.Dest {
			if err := emitBranch(c, cmp.Or(w.Branch, w.Head), w.Head); err != nil {
				return nil, err
			}
		}
	}
	return &worktreeData{about: r.describe(), Worktrees: list}, nil
}

// toChange validates the input. Work trees are added and removed inside the workspace only.
func (in *worktreeInput) toChange(c *skill.Call) (engine.WorktreeChange, error) {
	change := engine.WorktreeChange{Action: in.Action, Branch: in.Branch, Ref: in.Ref, Force: in.Force}
	switch in.Action {
	case actionList, engine.WorktreePrune:
		if in.Dest != "" {
			return change, skill.BadInput("/dest", "is not used by %s", in.Action)
		}
	case engine.WorktreeAdd, engine.WorktreeRemove:
		if in.Dest == "" {
			return change, skill.BadInput("/dest", "is required to %s a work tree", in.Action)
		}
		rel, err := c.Root.Rel(in.Dest)
		if err != nil {
			return change, err
		}
		if err := guard.CheckDest(c, rel, "a work tree"); err != nil {
			return change, err
		}
		if err := in.checkFree(c, rel); err != nil {
			return change, err
		}
		parent, ok := resolveExisting(c.Root.Dir(), filepath.Join(c.Root.Dir(), filepath.Dir(rel)))
		if !ok {
			return change, fault.Unsafe("unsafe_path", "%s leads out of the workspace", rel)
		}
		change.Dest = filepath.Join(parent, filepath.Base(rel))
	default:
		return change, skill.BadInput("/action", "%q is not one of add, list, remove, prune", in.Action)
	}
	if in.Action != engine.WorktreeAdd && (in.Branch != "" || in.Ref != "") {
		return change, skill.BadInput("/branch", "and ref are what a new work tree checks out: action is %s", in.Action)
	}
	if in.Branch != "" {
		if err := guard.CheckRef(in.Branch, "/branch"); err != nil {
			return change, err
		}
	}
	if in.Ref == "" {
		return change, nil
	}
	return change, guard.CheckRevision(in.Ref, "/ref")
}

// checkFree refuses to add a work tree in place of a symlink or of a folder that contains files.
func (in *worktreeInput) checkFree(c *skill.Call, rel string) error {
	info, err := c.Root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fault.Unsafe("unsafe_path", "%s is a symlink", rel)
	}
	if in.Action != engine.WorktreeAdd {
		return nil
	}
	taken := fault.Failed("dest_exists", "%s is not empty", rel).WithHint("name another dest, or remove that folder")
	if !info.IsDir() {
		return taken
	}
	entries, err := c.Root.List(rel)
	if err == nil && len(entries) > 0 {
		return taken
	}
	return err
}

// resolveExisting is [guard.Inside] for a path whose last parts do not exist yet.
func resolveExisting(root, name string) (string, bool) {
	missing := ""
	for {
		if _, err := os.Lstat(name); err == nil || name == root {
			real, ok := guard.Inside(root, name)
			return filepath.Join(real, missing), ok
		}
		missing = filepath.Join(filepath.Base(name), missing)
		name = filepath.Dir(name)
	}
}
