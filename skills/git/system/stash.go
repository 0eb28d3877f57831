package system

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Stash acts on the stash and tells what it holds then.
func (r *repo) Stash(ctx context.Context, spec engine.StashSpec) (engine.Stashed, error) {
	answer := engine.Stashed{Conflicts: []string{}}
	before, err := r.stashes(ctx)
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
	args, env := r.stashCommand(spec)
	failed := (*failure)(nil)
	if _, err = r.in(ctx, command{args: args, env: env}); err != nil && !errors.As(err, &failed) {
		return answer, err
	}
	if failed != nil {
		if answer.Conflicts, err = r.conflicts(ctx); err != nil {
			return answer, err
		}
		if len(answer.Conflicts) == 0 || !strings.HasPrefix(spec.Action, engine.StashPop) && spec.Action != engine.StashApply {
			return answer, explainStash(failed)
		}
	}
	if answer.Entries, err = r.stashes(ctx); err != nil {
		return answer, err
	}
	if spec.Action == engine.StashPush && len(answer.Entries) > len(before) {
		answer.Commit = answer.Entries[0].Commit
	}
	return answer, nil
}

func (r *repo) stashCommand(spec engine.StashSpec) (args, env []string) {
	env = append(identity("AUTHOR", spec.By), identity("COMMITTER", spec.By)...)
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
		paths, more := r.without(spec.Paths)
		return append(append(args, "--"), paths...), append(env, more...)
	}
	if spec.Index && spec.Action != engine.StashDrop {
		args = append(args, "--index")
	}
	return append(args, fmt.Sprintf("stash@{%d}", spec.Entry)), env
}

// stashes lists the entries, newest first. They are numbered here: git's own names turn into dates by a setting.
func (r *repo) stashes(ctx context.Context) ([]engine.StashEntry, error) {
	entries := []engine.StashEntry{}
	if id, ok := r.ref("refs/stash"); ok && id == "" && r.plainRefs() {
		return entries, nil
	}
	args := append(historySettings(), "stash", "list", "-z", "--no-color", "--encoding=UTF-8", "--format=tformat:%H%x00%ct%x00%gs")
	out, err := r.read(ctx, args...)
	if err != nil {
		return nil, explain(err, "stash_failed")
	}
	fields := split(out)
	for i := 0; i+2 < len(fields); i += 3 {
		entries = append(entries, engine.StashEntry{Index: i / 3, Commit: fields[i], Date: date(fields[i+1]), Message: fields[i+2]})
	}
	return entries, nil
}

// conflicts lists the files that are in conflict, sorted.
func (r *repo) conflicts(ctx context.Context) ([]string, error) {
	args := append(diffSettings(), "diff", "--name-only", "-z", "--diff-filter=U")
	out, err := r.read(ctx, append(append(args, plainDiff(false)...), "--")...)
	if err != nil {
		return nil, explain(err, "status_failed")
	}
	return append([]string{}, split(out)...), nil
}

// explainStash gives the failures of a stash their code.
func explainStash(f *failure) error {
	switch {
	case strings.Contains(f.stderr, "would be overwritten"), strings.Contains(f.stderr, "already exists, no checkout"), strings.Contains(f.stderr, "could not restore untracked"):
		return engine.WouldOverwrite(nil, "%v", f)
	case strings.Contains(f.stderr, "did not match any file"):
		return engine.NoSuchPath("%v", f)
	case strings.Contains(f.stderr, "needs merge"), strings.Contains(f.stderr, "unmerged"):
		return engine.Conflict(nil, "%v", f)
	case strings.Contains(f.stderr, "do not have the initial commit"):
		return fault.Failed("no_commits", "%v", f).WithHint("a stash goes on top of a commit; make the first one with git.commit")
	}
	return explain(f, "stash_failed")
}
