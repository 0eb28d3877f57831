package git

import (
	"cmp"
	"context"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// pushDirectly pushes from the sprite. A branch that is up to date is not an error.
func (r *repo) pushDirectly(ctx context.Context, c *skill.Call, in pushInput) (*pushData, error) {
	if err := c.Require(remote.PushPermission); err != nil {
		return nil, err
	}
	name := cmp.Or(in.Remote, "origin")
	to, release, err := r.openRemote(ctx, c, name, in.Trust, in.Credential, remote.PushPermission)
	if err != nil {
		return nil, err
	}
	defer release()
	p, spec, err := r.directSpec(ctx, in, name)
	if err != nil {
		return nil, err
	}
	spec.To, spec.Follow = to, reportProgress(c)
	if p.Pushed, err = r.Push(ctx, spec); err != nil {
		return nil, err
	}
	for _, ref := range p.Pushed {
		if ref.Status != engine.PushRejected {
			continue
		}
		code := "rejected"
		if ref.Stale {
			code = "stale"
		}
		return nil, fault.Failed(code, "the remote refused the push to %s: %s", ref.Ref, ref.Reason).
			WithHint("fetch the branch, rebase onto it and push again").WithDetails(map[string]any{"pushed": p.Pushed})
	}
	if !to.Local {
		p.URL = remote.WithoutUser(to.URL)
	}
	if in.DryRun {
		return &p, nil
	}
	return p.emitBranch(c)
}

// directSpec returns the refs to push: one branch, or the refspecs.
func (r *repo) directSpec(ctx context.Context, in pushInput, remote string) (pushData, engine.PushSpec, error) {
	spec := engine.PushSpec{Remote: remote, DryRun: in.DryRun}
	if len(in.Refspecs) > 0 {
		p := pushData{about: r.describe()}
		for _, text := range in.Refspecs {
			ref, err := r.pushRef(ctx, text)
			if err != nil {
				return p, spec, err
			}
			if ref.Expect, err = r.expectedCommit(ctx, in, remote, ref.To); err != nil {
				return p, spec, err
			}
			spec.Refs = append(spec.Refs, ref)
		}
		p.Branch, p.Head = strings.TrimPrefix(spec.Refs[0].To, "refs/heads/"), spec.Refs[0].From
		return p, spec, nil
	}
	p, err := r.pushHead(ctx, &in)
	if err != nil {
		return p, spec, err
	}
	if p.Base, err = r.findBase(ctx, in.Base); err != nil {
		return p, spec, err
	}
	ref := engine.PushRef{From: p.Head, To: "refs/heads/" + p.Branch, Expect: in.ExpectRemote}
	if ref.Expect == "" {
		if ref.Expect, err = r.expectedCommit(ctx, in, remote, ref.To); err != nil {
			return p, spec, err
		}
	}
	spec.Refs = []engine.PushRef{ref}
	if !in.SetUpstream {
		return p, spec, nil
	}
	local, err := r.Resolve(ctx, in.Ref)
	if name, ok := strings.CutPrefix(local.Ref, "refs/heads/"); ok {
		spec.SetUpstream = name
	}
	if err == nil && spec.SetUpstream == "" {
		err = skill.BadInput("/set_upstream", "needs a branch to set it for: HEAD is on none")
	}
	return p, spec, err
}

// pushRef parses "src:dst", or a name for both: a branch, a tag or, on the left, a commit.
func (r *repo) pushRef(ctx context.Context, text string) (engine.PushRef, error) {
	src, dst, pair := strings.Cut(text, ":")
	if !pair {
		dst = src
	}
	if strings.HasPrefix(text, "+") {
		return engine.PushRef{}, skill.BadInput("/refspecs", "%q would force: force is an input of its own", text)
	}
	for _, side := range []string{src, dst} {
		if side == src && (src == "HEAD" || engine.IsCommitID(src)) && pair {
			continue
		}
		if err := guard.CheckRef(side, "/refspecs"); err != nil {
			return engine.PushRef{}, err
		}
	}
	var found engine.Object
	var err error
	for _, name := range []string{"refs/heads/" + src, "refs/tags/" + src, src} {
		if found, err = r.Resolve(ctx, name); err == nil || !fault.HasCode(err, "ref_not_found") {
			break
		}
	}
	if err != nil {
		return engine.PushRef{}, err
	}
	ref := engine.PushRef{From: found.ID, To: dst}
	switch {
	case strings.HasPrefix(dst, "refs/"):
	case strings.HasPrefix(found.Ref, "refs/tags/"):
		ref.To = "refs/tags/" + dst
	default:
		ref.To = "refs/heads/" + dst
	}
	if !strings.HasPrefix(ref.To, "refs/heads/") && !strings.HasPrefix(ref.To, "refs/tags/") {
		return ref, fault.Unsafe("unsafe", "/refspecs %q goes to %s: a push goes to branches and tags", text, ref.To)
	}
	return ref, nil
}

// expectedCommit returns the commit that a forced push expects at a branch: its remote-tracking ref, "0" if there is none.
func (r *repo) expectedCommit(ctx context.Context, in pushInput, remote, to string) (string, error) {
	branch, ok := strings.CutPrefix(to, "refs/heads/")
	if in.Force != forceWithLease || !ok {
		return "", nil
	}
	seen, err := r.Resolve(ctx, "refs/remotes/"+remote+"/"+branch)
	if fault.HasCode(err, "ref_not_found") {
		return "0", nil
	}
	return seen.Commit, err
}
