package native

import (
	"cmp"
	"context"
	"slices"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Diff lists the files that differ between the index and the work tree, HEAD and the index, or two commits. It refuses to
// make a patch, because the hunks of git's patches follow heuristics of its own.
func (r *repo) Diff(ctx context.Context, spec engine.DiffSpec) (engine.Diff, error) {
	diff := engine.Diff{Files: []engine.DiffFile{}}
	if spec.Format != engine.FormatNameStatus || spec.Renames {
		return diff, engine.Refuse(`a diff other than "format":"name-status" without renames`)
	}
	spec.Paths = cleanPaths(spec.Paths)
	changes, err := r.listChanges(ctx, spec)
	if err != nil {
		return diff, explainError(err, "diff_failed")
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.path, b.path) })
	for _, c := range changes {
		if !isUnder(c.path, spec.Paths) {
			continue
		}
		if diff.Totals.Files++; spec.Max > 0 && diff.Totals.Files > spec.Max {
			diff.Truncated = true
			continue
		}
		diff.Files = append(diff.Files, engine.DiffFile{Path: c.path, Status: c.statusLetter()})
	}
	return diff, nil
}

func (r *repo) listChanges(ctx context.Context, spec engine.DiffSpec) (changes []change, err error) {
	switch {
	case spec.From != "" && spec.To != "" && !spec.Staged:
		from, err := r.ResolveCommit(spec.From)
		if err != nil {
			return nil, err
		}
		to, err := r.ResolveCommit(spec.To)
		if err != nil {
			return nil, err
		}
		if from, err = r.TreeOf(from); err != nil {
			return nil, err
		}
		if to, err = r.TreeOf(to); err != nil {
			return nil, err
		}
		err = r.compareTrees(ctx, from, to, func(c change) error {
			changes = append(changes, c)
			return nil
		})
		return changes, err
	case spec.From != "" || spec.To != "":
		return nil, engine.Refuse("the comparison of a commit with the index or the work tree")
	}
	x, err := r.readIndex()
	if err != nil || spec.Staged {
		if err == nil {
			changes, err = r.listStaged(x)
		}
		return changes, err
	}
	s := r.newScan(ctx, x)
	s.paths, s.untracked = spec.Paths, engine.UntrackedNo
	if err := s.walkTree(); err != nil {
		return nil, err
	}
	for path, now := range s.changed {
		changes = append(changes, change{path, side{mode: x.findFile(path).Mode}, now})
	}
	return changes, nil
}
