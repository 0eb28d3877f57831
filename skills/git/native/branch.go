package native

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Branches lists branches.
func (r *repo) Branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	list, err := r.listBranches(ctx, spec)
	return list, explainError(err, "branch_failed")
}

func (r *repo) listBranches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	current, head, err := r.Head()
	if err != nil {
		return nil, err
	}
	found, err := r.ListRefs(gitdir.Heads)
	if err != nil {
		return nil, err
	}
	if spec.Remote && spec.Name == "" {
		remote, err := r.ListRefs("refs/remotes/")
		if err != nil {
			return nil, err
		}
		found = append(found, remote...)
	}
	list := []engine.Branch{}
	if strings.HasPrefix(current, gitdir.Heads) && head.IsZero() && (spec.Name == "" || current == gitdir.Heads+spec.Name) {
		list = append(list, engine.Branch{Name: shortenRef(current), Current: true, Upstream: shortenRef(r.Upstream(current))})
	}
	for _, ref := range found {
		if ref.Target != "" && strings.HasSuffix(ref.Name, "/HEAD") || spec.Name != "" && ref.Name != gitdir.Heads+spec.Name {
			continue
		}
		if spec.Max > 0 && len(list) >= spec.Max {
			break
		}
		b := engine.Branch{
			Name: shortenRef(ref.Name), Commit: ref.ID.String(), Current: ref.Name == current, Remote: !strings.HasPrefix(ref.Name, gitdir.Heads),
		}
		if upstream := r.Upstream(ref.Name); upstream != "" {
			b.Upstream = shortenRef(upstream)
			if b.Ahead, b.Behind, b.Gone, err = r.compareUpstream(ctx, ref.ID, upstream); err != nil {
				return nil, err
			}
		}
		list = append(list, b)
	}
	return list, nil
}

// compareUpstream counts the commits by which a branch and its upstream differ.
func (r *repo) compareUpstream(ctx context.Context, commit plumbing.Hash, upstream string) (ahead, behind int, gone bool, err error) {
	_, there, err := r.ResolveRef(upstream)
	if err != nil || there.IsZero() || commit.IsZero() {
		return 0, 0, there.IsZero(), err
	}
	ahead, behind, err = r.CountApart(ctx, commit, there)
	return ahead, behind, false, err
}

// ChangeBranch creates a branch.
func (r *repo) ChangeBranch(_ context.Context, spec engine.BranchChange) error {
	if !gitdir.IsRefName(gitdir.Heads + spec.Name) {
		return fault.Unsafe("unsafe", "%q is not the name of a branch", spec.Name)
	}
	if spec.Action != engine.BranchCreate {
		return engine.Refuse("deleting and renaming branches")
	}
	return explainError(r.createBranch(spec), "branch_failed")
}

func (r *repo) createBranch(spec engine.BranchChange) error {
	name := gitdir.Heads + spec.Name
	current, _, err := r.Head()
	if err != nil {
		return err
	}
	start := cmp.Or(spec.StartPoint, string(plumbing.HEAD))
	from, _, err := r.ResolveRevision(start)
	if err != nil {
		return err
	}
	if strings.HasPrefix(from, "refs/remotes/") && !spec.NoTrack {
		return engine.Refuse("letting a branch follow another; it can be created with \"track\":false")
	}
	commit, err := r.ResolveCommit(start)
	if err != nil {
		return err
	}
	_, old, err := r.ResolveRef(name)
	if err != nil {
		return err
	}
	switch {
	case old.IsZero():
	case spec.Force:
		return engine.Refuse("moving a branch that exists (force)")
	default:
		return engine.Exists("there is a branch %s already", spec.Name)
	}
	why := "branch: Created from " + cmp.Or(spec.StartPoint, shortenRef(current), string(plumbing.HEAD))
	return r.UpdateRef(gitdir.RefChange{Name: name, To: commit, Old: &old, By: r.Committer(), Reason: why})
}

// branchHeader is the line with which git begins the section of a branch.
func branchHeader(name string) string {
	return `[branch "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"]`
}

// quoteValue writes a value as git reads it back.
func quoteValue(text string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text)
	if quoted != text || strings.ContainsAny(text, "#;") || strings.TrimSpace(text) != text {
		return `"` + quoted + `"`
	}
	return text
}
