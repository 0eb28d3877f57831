package system

import (
	"context"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Worktrees is git worktree list. Its paths end lines, so that one with a line break in it is not to be had here.
func (r *repo) Worktrees(ctx context.Context) ([]engine.Worktree, error) {
	list := []engine.Worktree{}
	out := &records{end: '\n', each: func(line []byte) error {
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
			w.Branch = short(value)
		case "locked":
			w.Locked = true
		case "prunable":
			w.Prunable = true
		}
		return nil
	}}
	_, err := r.in(ctx, command{args: []string{"worktree", "list", "--porcelain"}, reading: true, stdout: out})
	return list, explain(out.finish(err), "worktree_failed")
}

// Worktree is one git worktree.
func (r *repo) Worktree(ctx context.Context, spec engine.WorktreeChange) error {
	args := []string{"worktree", spec.Action}
	if spec.Force {
		args = append(args, "--force")
	}
	switch spec.Action {
	case engine.WorktreeAdd:
		more, err := r.worktreeAdd(ctx, spec)
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
	_, err := r.git(ctx, args...)
	f, ok := err.(*failure)
	if !ok {
		return err
	}
	has := func(text string) bool { return strings.Contains(f.stderr, text) }
	switch {
	case has("is not a working tree"):
		return engine.NotRepository("%v", f).WithHint(`{"action":"list"} shows the work trees`)
	case has("contains modified or untracked files"):
		return engine.WouldOverwrite(nil, "%v", f).WithHint(`commit what is in it, or set "force":true to give it up`)
	case has("is a main working tree"), has("a locked working tree"):
		return fault.Failed("in_use", "%v", f)
	}
	return branchFailed(f, "worktree_failed")
}

// worktreeAdd are the arguments of an add: git is told whether the branch is there, it does not guess.
func (r *repo) worktreeAdd(ctx context.Context, spec engine.WorktreeChange) ([]string, error) {
	start := spec.Ref
	if start == "" {
		start = "HEAD"
	}
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
