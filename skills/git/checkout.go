package git

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
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
	if err := in.check(); err != nil {
		return nil, err
	}
	ctx, r, err := f.open(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	done, err := r.Checkout(ctx, engine.CheckoutSpec{
		Ref: in.Ref, Create: in.Create, StartPoint: in.StartPoint, Paths: in.Paths, Detach: in.Detach, Force: in.Force, Merge: in.Merge,
		Follow: follow(c),
	})
	if err != nil {
		return nil, err
	}
	if in.Create {
		err = emitBranch(c, done.Branch, done.Commit)
	}
	return &checkoutData{about: r.about(), CheckedOut: done}, err
}

func (in *checkoutInput) check() error {
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
	if err := checkPaths(in.Paths); err != nil {
		return err
	}
	if in.StartPoint != "" {
		if err := checkRevision(in.StartPoint, "/start_point"); err != nil {
			return err
		}
	}
	if in.Create {
		return checkRef(in.Ref, "/ref")
	}
	if in.Ref == "" {
		return nil
	}
	return checkRevision(in.Ref, "/ref")
}

// follow tells the caller of progress.
func follow(c *skill.Call) engine.Follow {
	return func(p engine.Progress) { c.Progress(p.Phase, p) }
}
