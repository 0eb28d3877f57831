package gitdir

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Reach adds the commits that others reach, themselves included, to seen, and returns those that were not there.
func (d *Dir) Reach(ctx context.Context, from []plumbing.Hash, seen map[plumbing.Hash]bool) ([]*object.Commit, error) {
	var found []*object.Commit
	for left := slices.Clone(from); len(left) > 0; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		id := left[len(left)-1]
		left = left[:len(left)-1]
		if seen[id] {
			continue
		}
		c, err := d.ReadCommit(id)
		if err != nil {
			return nil, err
		}
		seen[id] = true
		found = append(found, c)
		left = append(left, c.ParentHashes...)
	}
	return found, nil
}

// CountApart counts the commits that only one of two commits reaches.
func (d *Dir) CountApart(ctx context.Context, ours, theirs plumbing.Hash) (ahead, behind int, err error) {
	if ours == theirs {
		return 0, 0, nil
	}
	left, right := map[plumbing.Hash]bool{}, map[plumbing.Hash]bool{}
	if _, err := d.Reach(ctx, []plumbing.Hash{ours}, left); err != nil {
		return 0, 0, err
	}
	if _, err := d.Reach(ctx, []plumbing.Hash{theirs}, right); err != nil {
		return 0, 0, err
	}
	both := 0
	for id := range left {
		if right[id] {
			both++
		}
	}
	return len(left) - both, len(right) - both, nil
}

// Missing lists the objects that want needs and have lacks: the commits between and, of their trees, what the trees at
// the border do not hold. borders are the commits of have that the others build upon.
func (d *Dir) Missing(ctx context.Context, want, have []plumbing.Hash) (objects, borders []plumbing.Hash, err error) {
	had := map[plumbing.Hash]bool{}
	if _, err := d.Reach(ctx, have, had); err != nil {
		return nil, nil, err
	}
	commits, err := d.Reach(ctx, want, maps.Clone(had))
	if err != nil {
		return nil, nil, err
	}
	seen := map[plumbing.Hash]bool{}
	for _, c := range commits {
		objects = append(objects, c.Hash)
		for _, parent := range c.ParentHashes {
			if had[parent] && !seen[parent] {
				seen[parent] = true
				borders = append(borders, parent)
			}
		}
	}
	for _, border := range borders {
		tree, err := d.TreeOf(border)
		if err == nil {
			err = d.listTree(ctx, tree, seen, nil)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, c := range commits {
		if err := d.listTree(ctx, c.TreeHash, seen, &objects); err != nil {
			return nil, nil, err
		}
	}
	return objects, borders, nil
}

// ListReached lists the commits, tags, trees and blobs that refs reach.
func (d *Dir) ListReached(ctx context.Context, want []plumbing.Hash) ([]plumbing.Hash, error) {
	var tags, commits []plumbing.Hash
	for _, id := range want {
		for tag, err := object.GetTag(d.Store, id); err == nil; tag, err = object.GetTag(d.Store, id) {
			tags, id = append(tags, id), tag.Target
		}
		if _, typ, err := d.Peel(id); err != nil || typ != plumbing.CommitObject {
			return nil, errors.Join(err, engine.Refuse("refs that do not name a commit"))
		}
		commits = append(commits, id)
	}
	objects, _, err := d.Missing(ctx, commits, nil)
	return append(tags, objects...), err
}

// listTree adds a tree and everything in it to the list, except those that were seen.
func (d *Dir) listTree(ctx context.Context, tree plumbing.Hash, seen map[plumbing.Hash]bool, list *[]plumbing.Hash) error {
	add := func(id plumbing.Hash) bool {
		if seen[id] {
			return false
		}
		seen[id] = true
		if list != nil {
			*list = append(*list, id)
		}
		return true
	}
	if !add(tree) {
		return nil
	}
	return d.WalkTree(tree, func(_ string, e object.TreeEntry) (bool, error) {
		return e.Mode != filemode.Submodule && add(e.Hash), context.Cause(ctx)
	})
}
