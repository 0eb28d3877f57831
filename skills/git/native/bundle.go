package native

import (
	"context"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Bundle writes the commits of Ref that Base lacks, as git bundle create Base..Ref does.
func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	return explainError(r.writeBundle(ctx, spec, w), "push_failed")
}

func (r *repo) writeBundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	tip, err := r.ResolveCommit(spec.Ref)
	if err != nil {
		return err
	}
	base, err := r.ResolveCommit(spec.Base)
	if err != nil {
		return err
	}
	objects, borders, err := r.Missing(ctx, []plumbing.Hash{tip}, []plumbing.Hash{base})
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return fault.Failed("push_failed", "%s holds nothing that %s lacks", spec.Ref, spec.Base)
	}
	header := "# v2 git bundle\n"
	for _, border := range borders {
		c, err := r.ReadCommit(border)
		if err != nil {
			return err
		}
		subject, _ := splitMessage(c.Message)
		header += fmt.Sprintf("-%s %s\n", border, subject)
	}
	if _, err := fmt.Fprintf(w, "%s%s %s\n\n", header, tip, spec.Ref); err != nil {
		return err
	}
	return r.WritePack(ctx, w, objects)
}
