package git

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Bundled is a branch whose new commits lie in a bundle, for the orchestrator to verify and to push.
type Bundled struct {
	Branch     string
	Base, Head string // commits
	Path       string // of the bundle, absolute
	SHA256     string
	Origin     string // the URL that the repository was cloned from, "" if it was a file of the sprite
}

// Bundle writes the commits of a branch ("" is the current one) of repo that base, a branch or commit of the remote,
// lacks, as git.push does before it requests the push. Skills whose action includes a push use it.
func Bundle(r *proc.Reaper, native engine.Engine) func(ctx context.Context, c *skill.Call, repo, branch, base string) (Bundled, error) {
	f := family{reaper: r, native: native}
	return func(ctx context.Context, c *skill.Call, repo, branch, base string) (Bundled, error) {
		return f.bundle(ctx, c, pushInput{on: on{Repo: repo}, Ref: branch, Base: base})
	}
}

func (f family) bundle(ctx context.Context, c *skill.Call, in pushInput) (Bundled, error) {
	if err := in.checkInput(); err != nil {
		return Bundled{}, err
	}
	ctx, opened, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return Bundled{}, err
	}
	defer opened.close()
	p, err := opened.planPush(ctx, &in, false)
	if err != nil {
		return Bundled{}, err
	}
	name := outDir + "/" + p.Head + ".bundle"
	digest, err := opened.writeBundle(ctx, c, name, engine.BundleSpec{Base: p.Base, Ref: in.Ref})
	b := Bundled{Branch: p.Branch, Base: p.Base, Head: p.Head, Path: c.Root.Own(name), SHA256: digest}
	if origin, _ := opened.config.Value("remote", originName, "url"); strings.Contains(origin, ":") {
		b.Origin = remote.WithoutUser(origin)
	}
	return b, err
}

// alsoInput is a further repository of the workspace whose commits are pushed with those of the first.
type alsoInput struct {
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	Base   string `json:"base"`
	Ref    string `json:"ref"`
	Target string `json:"target"`
}

// checkAlso refuses a further repository that is not named.
func checkAlso(also []alsoInput) error {
	if len(also) > protocol.MaxAlso {
		return skill.BadInput("/also", "has %d entries, at most %d are allowed", len(also), protocol.MaxAlso)
	}
	for i, a := range also {
		if a.Repo == "" {
			return skill.BadInput(fmt.Sprintf("/also/%d/repo", i), "is missing: the folder of the repository")
		}
	}
	return nil
}

// bundleAlso writes the bundles of further repositories.
func (f family) bundleAlso(ctx context.Context, c *skill.Call, also []alsoInput) (pushes []protocol.AlsoPush, err error) {
	for i, a := range also {
		b, err := f.bundle(ctx, c, pushInput{on: on{Repo: a.Repo}, Branch: a.Branch, Base: a.Base, Ref: a.Ref})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Repo, err)
		}
		to := cmp.Or(a.Target, b.Origin)
		if to == "" {
			return nil, skill.BadInput(fmt.Sprintf("/also/%d/target", i), "is missing: %s was not cloned from the URL that the commits are for", a.Repo)
		}
		pushes = append(pushes, protocol.AlsoPush{Repo: to, Branch: b.Branch, Base: b.Base, Head: b.Head, Bundle: b.Path, SHA256: b.SHA256})
	}
	return pushes, nil
}
