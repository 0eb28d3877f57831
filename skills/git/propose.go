package git

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Bundled is a branch whose new commits lie in a bundle, for the orchestrator to verify and to push.
type Bundled struct {
	Branch     string
	Base, Head string // commits
	Path       string // of the bundle, absolute
	SHA256     string
}

// Bundle writes the commits of a branch ("" is the current one) of repo that base, a branch or commit of the remote,
// lacks, as git.push does before it requests the push. Skills whose action includes a push use it.
func Bundle(r *proc.Reaper, native engine.Engine) func(ctx context.Context, c *skill.Call, repo, branch, base string) (Bundled, error) {
	f := family{reaper: r, native: native}
	return func(ctx context.Context, c *skill.Call, repo, branch, base string) (Bundled, error) {
		in := pushInput{on: on{Repo: repo}, Ref: branch, Base: base}
		if err := in.checkInput(); err != nil {
			return Bundled{}, err
		}
		ctx, opened, err := f.openRepo(ctx, c, in.on)
		if err != nil {
			return Bundled{}, err
		}
		defer opened.close()
		p, err := opened.planPush(ctx, &in)
		if err != nil {
			return Bundled{}, err
		}
		name := outDir + "/" + p.Head + ".bundle"
		digest, err := opened.writeBundle(ctx, c, name, engine.BundleSpec{Base: p.Base, Ref: in.Ref})
		return Bundled{Branch: p.Branch, Base: p.Base, Head: p.Head, Path: c.Root.Own(name), SHA256: digest}, err
	}
}
