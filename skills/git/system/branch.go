package system

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Branches is one git for-each-ref, which also counts the distances to upstreams.
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
	err := r.Scan(ctx, gitcmd.Command{Args: args, Reading: true}, '\n', func(line []byte) error {
		fields := strings.Split(string(line), "\x00")
		if len(fields) != 6 {
			return fmt.Errorf("read git for-each-ref: unexpected line %q", line)
		}
		if fields[5] != "" && strings.HasSuffix(fields[0], "/HEAD") || spec.Name != "" && fields[0] != "refs/heads/"+spec.Name {
			return nil // a remote's HEAD is not a branch, and a name also matches the refs below it
		}
		b := parseBranch(fields)
		current = current || b.Current
		if spec.Max == 0 || len(list) < spec.Max {
			list = append(list, b)
		}
		return nil
	})
	if err != nil {
		return nil, gitcmd.Explain(err, "branch_failed")
	}
	if ref, commit, ok := r.files.Head(); ok && !current && commit == "" && (spec.Name == "" || ref == "refs/heads/"+spec.Name) {
		// Before its first commit a branch is not a ref.
		list = append([]engine.Branch{{Name: strings.TrimPrefix(ref, "refs/heads/"), Current: true}}, list...)
	}
	return list, nil
}

// parseBranch reads one line of for-each-ref.
func parseBranch(fields []string) engine.Branch {
	b := engine.Branch{Commit: fields[1], Current: fields[2] == "*", Upstream: shortName(fields[3])}
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

// shortName returns the name of a branch or tag without its prefix.
func shortName(ref string) string {
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
	_, err := r.Change(ctx, args...)
	return explainBranch(err, "branch_failed")
}

// explainBranch returns the error for a message of git about branches.
func explainBranch(err error, code string) error {
	f, ok := err.(*gitcmd.Failure)
	if !ok {
		return err
	}
	switch {
	case f.Says("already exists"):
		return engine.Exists("%v", f)
	case f.Says("not fully merged"):
		return engine.NotMerged("%v", f)
	case f.Says("checked out at", "used by worktree at", "Cannot force update the current branch", "already checked out", "already used by"):
		return engine.InUse("%v", f)
	case f.Says("invalid reference", "not found", "No branch named", "no branch named", "is not a commit", "not a commit and a branch"):
		return engine.RefNotFound("%v", f)
	case f.Says("cannot lock ref", "unable to create directory for", "cannot be resolved"):
		// refs/heads/a blocks refs/heads/a/b
		return engine.Exists("%v", f)
	}
	return explainRevision(f, code)
}
