package native

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Resolve finds the object that a revision names.
func (r *repo) Resolve(_ context.Context, revision string) (engine.Object, error) {
	ref, id, err := r.ResolveRevision(revision)
	if err != nil {
		return engine.Object{}, explainError(err, "rev_parse_failed")
	}
	o, err := r.Store.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return engine.Object{}, explainError(err, "rev_parse_failed")
	}
	found := engine.Object{ID: id.String(), Type: o.Type().String(), Ref: ref}
	if commit, typ, err := r.Peel(id); err == nil && typ == plumbing.CommitObject {
		found.Commit = commit.String()
	}
	return found, nil
}
