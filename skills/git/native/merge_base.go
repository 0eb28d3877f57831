package native

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spritekit/lattice/skills/git/engine"
)

// MergeBase finds the best common ancestors of two commits.
func (r *repo) MergeBase(ctx context.Context, spec engine.MergeBaseSpec) (engine.MergeBase, error) {
	answer := engine.MergeBase{Bases: []string{}}
	if len(spec.Commits) != 2 || len(r.Shallow) > 0 {
		return answer, engine.Refuse("the merge base of more than two commits, or in a shallow repository")
	}
	var commits [2]*object.Commit
	for i, revision := range spec.Commits {
		id, err := r.ResolveCommit(revision)
		if err == nil {
			commits[i], err = r.ReadCommit(id)
		}
		if err != nil {
			return answer, explainError(err, "merge_base_failed")
		}
	}
	bases, err := commits[0].MergeBase(commits[1])
	if err != nil {
		return answer, explainError(err, "merge_base_failed")
	}
	for _, base := range bases {
		answer.Bases = append(answer.Bases, base.Hash.String())
		answer.IsAncestor = answer.IsAncestor || base.Hash == commits[0].Hash
	}
	if !spec.All && len(bases) > 1 {
		return answer, engine.Refuse("the choice among several merge bases")
	}
	return answer, nil
}
