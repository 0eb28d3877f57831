package git

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

type checkoutInput struct {
	on
	Ref        string   `json:"ref"`
	Create     bool     `json:"create"`
	StartPoint string   `json:"start_point"`
	Paths      []string `json:"paths"`
	Detach     bool     `json:"detach"`
	Force      bool     `json:"force"`
	Merge      bool     `json:"merge"`
}

type checkoutData struct {
	about
	engine.CheckedOut
}

// Checkout is git.checkout.
func (f family) Checkout(ctx context.Context, c *skill.Call, in checkoutInput) (*checkoutData, error) {
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	done, err := r.Checkout(ctx, engine.CheckoutSpec{
		Ref: in.Ref, Create: in.Create, StartPoint: in.StartPoint, Paths: in.Paths, Detach: in.Detach, Force: in.Force, Merge: in.Merge,
		Follow: reportProgress(c),
	})
	if err != nil {
		return nil, err
	}
	if in.Create {
		err = emitBranch(c, done.Branch, done.Commit)
	}
	return &checkoutData{about: r.describe(), CheckedOut: done}, err
}

// checkInput validates the input alone.
func (in *checkoutInput) checkInput() error {
	switch {
	case in.Ref == "" && len(in.Paths) == 0:
		return skill.BadInput("/ref", "or paths: one of them says what to check out")
	case len(in.Paths) > 0 && (in.Create || in.Detach || in.Merge || in.StartPoint != ""):
		return skill.BadInput("/paths", "are put back as they are in ref; HEAD does not move, so that create, start_point, detach and merge mean nothing")
	case in.StartPoint != "" && !in.Create:
		return skill.BadInput("/start_point", "is where a new branch starts: create is not set")
	case in.Create && in.Detach:
		return skill.BadInput("/detach", "and create contradict each other")
	case in.Force && in.Merge:
		return skill.BadInput("/merge", "and force contradict each other: edits are merged or given up")
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return err
	}
	if in.StartPoint != "" {
		if err := guard.CheckRevision(in.StartPoint, "/start_point"); err != nil {
			return err
		}
	}
	if in.Create {
		return guard.CheckRef(in.Ref, "/ref")
	}
	if in.Ref == "" {
		return nil
	}
	return guard.CheckRevision(in.Ref, "/ref")
}

// reportProgress returns a function that reports progress to the caller.
func reportProgress(c *skill.Call) engine.Follow {
	return func(p engine.Progress) { c.Progress(p.Phase, p) }
}
