package native

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// side is a file in a tree or in the index; its mode is zero where there is none.
type side struct {
	mode filemode.FileMode
	id   plumbing.Hash
}

// change is a file that differs between two sides.
type change struct {
	path     string
	from, to side
}

// statusLetter returns the letter that git has for a change.
func (c change) statusLetter() string {
	switch {
	case c.from.mode == 0:
		return "A"
	case c.to.mode == 0:
		return "D"
	case kindOf(c.from.mode) != kindOf(c.to.mode):
		return "T"
	}
	return "M"
}

// kindOf tells files, symlinks and submodules apart.
func kindOf(mode filemode.FileMode) filemode.FileMode { return mode & 0o170000 }

// compareTrees calls f for each file that differs between two trees, either of which may be zero.
func (r *repo) compareTrees(ctx context.Context, from, to plumbing.Hash, f func(change) error) error {
	var trees [2]*object.Tree
	for i, id := range []plumbing.Hash{from, to} {
		if id.IsZero() {
			continue
		}
		var err error
		if trees[i], err = object.GetTree(r.Store, id); err != nil {
			return fmt.Errorf("read tree %s: %w", id, err)
		}
	}
	changes, err := object.DiffTreeContext(ctx, trees[0], trees[1])
	if err != nil {
		return err
	}
	for _, c := range changes {
		from, to := c.From.TreeEntry, c.To.TreeEntry
		if err := f(change{cmp.Or(c.To.Name, c.From.Name), side{from.Mode, from.Hash}, side{to.Mode, to.Hash}}); err != nil {
			return err
		}
	}
	return nil
}
