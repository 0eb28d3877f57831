package system

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Branches is one git for-each-ref, which also counts how far branches are from their upstreams.
func (r *repo) Branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	args := []string{
		"-c", "core.warnAmbiguousRefs=false", "for-each-ref", "--sort=refname",
		"--format=%(refname)%00%(objectname)%00%(HEAD)%00%(upstream)%00%(upstream:track)%00%(symref)",
	}
	switch {
	case spec.Name != "":
		args = append(args, "--", "refs/heads/"+spec.Name)
	case spec.Remote:
		args = append(args, "--", "refs/heads/", "refs/remotes/")
	default:
		args = append(args, "--", "refs/heads/")
	}
	list := []engine.Branch{}
	current := false
	out := &records{end: '\n', each: func(line []byte) error {
		fields := strings.Split(string(line), "\x00")
		if len(fields) != 6 {
			return fmt.Errorf("read git for-each-ref: unexpected line %q", line)
		}
		if fields[5] != "" && strings.HasSuffix(fields[0], "/HEAD") || spec.Name != "" && fields[0] != "refs/heads/"+spec.Name {
			return nil // a remote's HEAD is not a branch; and a name matches what lies below it, too
		}
		b := parseBranch(fields)
		current = current || b.Current
		if spec.Max == 0 || len(list) < spec.Max {
			list = append(list, b)
		}
		return nil
	}}
	_, err := r.in(ctx, command{args: args, reading: true, stdout: out})
	if err := out.finish(err); err != nil {
		return nil, explain(err, "branch_failed")
	}
	if ref, commit, ok := r.head(); ok && !current && commit == "" && (spec.Name == "" || ref == "refs/heads/"+spec.Name) {
		// A branch before its first commit is not a ref yet.
		list = append([]engine.Branch{{Name: strings.TrimPrefix(ref, "refs/heads/"), Current: true}}, list...)
	}
	return list, nil
}

func parseBranch(fields []string) engine.Branch {
	b := engine.Branch{Commit: fields[1], Current: fields[2] == "*", Upstream: short(fields[3])}
	name, local := strings.CutPrefix(fields[0], "refs/heads/")
	b.Name, b.Remote = name, !local
	if b.Remote {
		b.Name = strings.TrimPrefix(fields[0], "refs/remotes/")
	}
	track := strings.Trim(fields[4], "[]") // "ahead 1, behind 2" or "gone"
	for part := range strings.SplitSeq(track, ", ") {
		word, number, _ := strings.Cut(part, " ")
		n, _ := strconv.Atoi(number) // without a number it is 0
		switch word {
		case "ahead":
			b.Ahead = n
		case "behind":
			b.Behind = n
		case "gone":
			b.Gone = true
		}
	}
	return b
}

// short is a ref as people name it.
func short(ref string) string {
	for _, prefix := range []string{"refs/heads/", "refs/remotes/", "refs/tags/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok {
			return name
		}
	}
	return ref
}

// ChangeBranch is one git branch.
func (r *repo) ChangeBranch(ctx context.Context, spec engine.BranchChange) error {
	args := []string{"branch"}
	if spec.Force {
		args = append(args, "--force")
	}
	switch spec.Action {
	case engine.BranchCreate:
		if spec.NoTrack {
			args = append(args, "--no-track")
		}
		args = append(args, "--", spec.Name)
		if spec.StartPoint != "" {
			args = append(args, spec.StartPoint)
		}
	case engine.BranchDelete:
		args = append(args, "--delete", "--", spec.Name)
	case engine.BranchRename:
		args = append(args, "--move", "--", spec.Name, spec.NewName)
	default:
		return fmt.Errorf("change a branch: %q is not an action", spec.Action)
	}
	_, err := r.git(ctx, args...)
	return branchFailed(err, "branch_failed")
}

// branchFailed gives what git says of branches its code.
func branchFailed(err error, code string) error {
	f, ok := err.(*failure)
	if !ok {
		return err
	}
	has := func(text string) bool { return strings.Contains(f.stderr, text) }
	switch {
	case has("already exists"):
		return engine.Exists("%v", f)
	case has("not fully merged"):
		return engine.NotMerged("%v", f)
	case has("checked out at"), has("used by worktree at"), has("Cannot force update the current branch"), has("already checked out"), has("already used by"):
		return engine.InUse("%v", f)
	case has("invalid reference"), has("not found"), has("No branch named"), has("no branch named"), has("is not a commit"), has("not a commit and a branch"):
		return engine.RefNotFound("%v", f)
	case has("cannot lock ref"), has("unable to create directory for"), has("cannot be resolved"):
		// refs/heads/a is in the way of refs/heads/a/b
		return engine.Exists("%v", f)
	}
	return explainRevision(f, code)
}
