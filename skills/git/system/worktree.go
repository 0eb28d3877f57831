package system

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Worktrees is git worktree list. It cannot list a path with a line break, because lines end paths.
func (r *repo) Worktrees(ctx context.Context) ([]engine.Worktree, error) {
	list := []engine.Worktree{}
	cmd := gitcmd.Command{Args: []string{"worktree", "list", "--porcelain"}, Reading: true}
	err := r.Scan(ctx, cmd, '\n', func(line []byte) error {
		key, value, _ := strings.Cut(string(line), " ")
		if key == "worktree" {
			list = append(list, engine.Worktree{Path: value, Main: len(list) == 0})
		}
		if len(list) == 0 {
			return nil
		}
		switch w := &list[len(list)-1]; key {
		case "HEAD":
			if strings.Trim(value, "0") != "" { // none before the first commit
				w.Head = value
			}
		case "branch":
			w.Branch = shortName(value)
		case "locked":
			w.Locked = true
		case "prunable":
			w.Prunable = true
		}
		return nil
	})
	return list, gitcmd.Explain(err, "worktree_failed")
}

// Worktree is one git worktree.
func (r *repo) Worktree(ctx context.Context, spec engine.WorktreeChange) error {
	args := []string{"worktree", spec.Action}
	if spec.Force {
		args = append(args, "--force")
	}
	switch spec.Action {
	case engine.WorktreeAdd:
		more, err := r.addArgs(ctx, spec)
		if err != nil {
			return err
		}
		args = append(args, more...)
	case engine.WorktreeRemove:
		args = append(args, "--", spec.Dest)
	case engine.WorktreePrune:
		args = []string{"worktree", "prune", "--expire=now"}
	default:
		return fmt.Errorf("change work trees: %q is not an action", spec.Action)
	}
	_, err := r.Change(ctx, args...)
	f, ok := err.(*gitcmd.Failure)
	if !ok {
		return err
	}
	switch {
	case f.Says("is not a working tree"):
		return engine.NotRepository("%v", f).WithHint(`{"action":"list"} shows the work trees`)
	case f.Says("contains modified or untracked files"):
		return engine.WouldOverwrite(nil, "%v", f).WithHint(`commit what is in it, or set "force":true to give it up`)
	case f.Says("is a main working tree", "a locked working tree"):
		return fault.Failed("in_use", "%v", f)
	}
	return explainBranch(f, "worktree_failed")
}

// addArgs returns the arguments of an add, which say whether the branch exists, so that git does not guess.
func (r *repo) addArgs(ctx context.Context, spec engine.WorktreeChange) ([]string, error) {
	start := cmp.Or(spec.Ref, "HEAD")
	if spec.Branch == "" {
		return []string{"--detach", "--", spec.Dest, start}, nil
	}
	have, err := r.commitOf(ctx, "refs/heads/"+spec.Branch)
	if err != nil {
		return nil, err
	}
	if have == "" {
		return []string{"-b", spec.Branch, "--", spec.Dest, start}, nil
	}
	if spec.Ref != "" {
		return nil, engine.Exists("the branch %s exists, and cannot start at %s", spec.Branch, spec.Ref).WithHint("leave ref out to check the branch out as it is")
	}
	return []string{"--", spec.Dest, spec.Branch}, nil
}
