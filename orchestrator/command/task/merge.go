package task

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// mergeBranch is the branch that holds the base branch and the merges that are green.
const mergeBranch = "lattice/merge-queue"

// recordMerge is recordStart for a worker that merges. No other merge of the board runs at the same time.
func (d *dispatcher) recordMerge(ctx context.Context, w worker.Definition, q worker.Request, due func(*board.Task, []board.Event) bool) (t *board.Task, events []board.Event, err error) {
	err = d.board.Exclusive(ctx, "merge", func() error {
		tasks, err := d.board.Tasks()
		if err != nil {
			return err
		}
		for _, other := range tasks {
			if slices.ContainsFunc(other.Active, func(p board.Process) bool { return p.Type == w.Worker.Name }) {
				return fault.Busy("worker_running", "%s merges %s, and merges one at a time", w.Worker.Name, other.Name()).WithHint("lattice worker ps")
			}
		}
		t, events, err = d.recordStart(ctx, w, q, due)
		return err
	})
	return t, events, err
}

// commitMerge makes the commit that merges a commit of a task into the tip of the queue. No branch and no file changes.
func (d *dispatcher) commitMerge(ctx context.Context, t *board.Task, commit string) (string, error) {
	base, err := d.findBaseBranch(ctx, commit)
	if err != nil {
		return "", err
	}
	tip, err := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+mergeBranch)
	switch {
	case err != nil || d.isAncestor(ctx, tip, base):
		tip = base
	case !d.isAncestor(ctx, base, tip): // both have commits that the other lacks
		if tip, err = d.mergeInto(ctx, tip, base, "Merge the base branch"); err != nil {
			return "", err
		}
	}
	if d.isAncestor(ctx, commit, tip) {
		return "", fault.BadInput("merge_done", "the base branch or %s holds %s already", mergeBranch, cutCommit(commit)).WithHint("--commit COMMIT")
	}
	return d.mergeInto(ctx, tip, commit, fmt.Sprintf("Merge %s: %s", t.Name(), t.Title))
}

func (d *dispatcher) isAncestor(ctx context.Context, commit, of string) bool {
	_, err := d.runGit(ctx, "merge-base", "--is-ancestor", commit, of)
	return err == nil
}

// mergeInto makes the commit that merges a commit into a tip.
func (d *dispatcher) mergeInto(ctx context.Context, tip, commit, message string) (string, error) {
	out, err := d.runGit(ctx, "merge-tree", "--write-tree", "--no-messages", "--name-only", tip, commit)
	tree, conflicts, _ := strings.Cut(out, "\n")
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 1 {
		return "", fault.Failed("merge_conflict", "%s conflicts with the merge queue in %s", cutCommit(commit), strings.Join(strings.Fields(conflicts), ", ")).WithHint("git rebase %s", mergeBranch)
	}
	if err != nil {
		return "", fault.Failed("merge_conflict", "git cannot merge %s: %v", cutCommit(commit), err).WithHint("install git 2.38 or newer")
	}
	return d.runGit(ctx, "-c", "user.name=Lattice", "-c", "user.email=lattice@localhost", "commit-tree", tree, "-p", tip, "-p", commit, "-m", message)
}

// findBaseBranch returns the commit of the base branch.
func (d *dispatcher) findBaseBranch(ctx context.Context, commit string) (string, error) {
	branches := []string{"main", "master"}
	if d.at.base != "" {
		branches = []string{d.at.base}
	}
	for _, branch := range branches {
		if found, err := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
			return found, nil
		}
	}
	return "", fault.NotFound("base_not_found", "there is no branch %s into which %s could be merged", strings.Join(branches, " or "), cutCommit(commit)).WithHint("--base BRANCH")
}

// landMerge advances the branch of the queue to a merge that is green, unless it is there.
func (d *dispatcher) landMerge(ctx context.Context, merge string) error {
	now, _ := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+mergeBranch) // "" if there is no branch
	if now == merge {
		return nil
	}
	tip, err := d.runGit(ctx, "rev-parse", "--verify", "--quiet", merge+"^1")
	if err != nil {
		return err
	}
	if now != "" && !d.isAncestor(ctx, now, tip) {
		return fmt.Errorf("the branch %s has moved to %s", mergeBranch, cutCommit(now))
	}
	_, err = d.runGit(ctx, "update-ref", "-m", "merge queue", "refs/heads/"+mergeBranch, merge, now)
	return err
}
