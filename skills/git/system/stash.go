package system

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Stash acts on the stash and lists its entries afterwards.
func (r *repo) Stash(ctx context.Context, spec engine.StashSpec) (engine.Stashed, error) {
	answer := engine.Stashed{Conflicts: []string{}}
	before, err := r.listStashes(ctx)
	if err != nil {
		return answer, err
	}
	if answer.Entries = before; spec.Action == engine.StashList {
		return answer, nil
	}
	if spec.Action != engine.StashPush {
		if spec.Entry >= len(before) {
			return answer, engine.RefNotFound("the stash of %s has %d entries, none of them number %d", r.at.Name, len(before), spec.Entry).
				WithHint(`{"action":"list"} shows what is stashed`)
		}
		answer.Commit = before[spec.Entry].Commit
	}
	args, env := r.stashArgs(spec)
	failed := (*gitcmd.Failure)(nil)
	if _, err = r.Run(ctx, gitcmd.Command{Args: args, Env: env}); err != nil && !errors.As(err, &failed) {
		return answer, err
	}
	if failed != nil {
		if answer.Conflicts, err = r.listConflicts(ctx); err != nil {
			return answer, err
		}
		if len(answer.Conflicts) == 0 || !strings.HasPrefix(spec.Action, engine.StashPop) && spec.Action != engine.StashApply {
			return answer, explainStash(failed)
		}
	}
	if answer.Entries, err = r.listStashes(ctx); err != nil {
		return answer, err
	}
	if spec.Action == engine.StashPush && len(answer.Entries) > len(before) {
		answer.Commit = answer.Entries[0].Commit
	}
	return answer, nil
}

// stashArgs returns the arguments of git stash and their environment.
func (r *repo) stashArgs(spec engine.StashSpec) (args, env []string) {
	env = append(identityVariables("AUTHOR", spec.By), identityVariables("COMMITTER", spec.By)...)
	args = []string{"stash", spec.Action}
	if spec.Action == engine.StashPush {
		if spec.Untracked {
			args = append(args, "--include-untracked")
		}
		if spec.KeepIndex {
			args = append(args, "--keep-index")
		}
		if spec.Message != "" {
			args = append(args, "--message="+spec.Message)
		}
		paths, more := r.pathspecs(spec.Paths)
		return append(append(args, "--"), paths...), append(env, more...)
	}
	if spec.Index && spec.Action != engine.StashDrop {
		args = append(args, "--index")
	}
	return append(args, fmt.Sprintf("stash@{%d}", spec.Entry)), env
}

// listStashes lists the entries, newest first. It numbers them itself, because a setting can turn git's own names into dates.
func (r *repo) listStashes(ctx context.Context) ([]engine.StashEntry, error) {
	entries := []engine.StashEntry{}
	if id, ok := r.files.Ref("refs/stash"); ok && id == "" && r.files.PlainRefs() {
		return entries, nil
	}
	args := append(historySettings(), "stash", "list", "-z", "--no-color", "--encoding=UTF-8", "--format=tformat:%H%x00%ct%x00%gs")
	out, err := r.Read(ctx, args...)
	if err != nil {
		return nil, gitcmd.Explain(err, "stash_failed")
	}
	fields := gitcmd.Split(out)
	for i := 0; i+2 < len(fields); i += 3 {
		entries = append(entries, engine.StashEntry{Index: i / 3, Commit: fields[i], Date: formatDate(fields[i+1]), Message: fields[i+2]})
	}
	return entries, nil
}

// listConflicts lists the files in conflict, sorted.
func (r *repo) listConflicts(ctx context.Context) ([]string, error) {
	args := append(diffSettings(), "diff", "--name-only", "-z", "--diff-filter=U")
	out, err := r.Read(ctx, append(append(args, plainDiff(false)...), "--")...)
	if err != nil {
		return nil, gitcmd.Explain(err, "status_failed")
	}
	return append([]string{}, gitcmd.Split(out)...), nil
}

// explainStash returns the error for a message of git stash.
func explainStash(f *gitcmd.Failure) error {
	switch {
	case f.Says("would be overwritten", "already exists, no checkout", "could not restore untracked"):
		return engine.WouldOverwrite(nil, "%v", f)
	case f.Says("did not match any file"):
		return engine.NoSuchPath("%v", f)
	case f.Says("needs merge", "unmerged"):
		return engine.Conflict(nil, "%v", f)
	case f.Says("do not have the initial commit"):
		return fault.Failed("no_commits", "%v", f).WithHint("a stash goes on top of a commit; make the first one with git.commit")
	}
	return gitcmd.Explain(f, "stash_failed")
}
