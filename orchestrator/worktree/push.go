package worktree

import (
	"context"
	"strings"
)

// PushStatus says how a destination came to be at the wanted commit.
type PushStatus string

const (
	Pushed       PushStatus = "pushed"
	AlreadyThere PushStatus = "already_there" // by an earlier try, or by somebody else
)

// PushResult is the outcome of a push.
type PushResult struct {
	Ref    string     `json:"ref"` // refs/heads/…
	Old    string     `json:"old"` // "" = the branch is new
	New    string     `json:"new"`
	Status PushStatus `json:"status"`
	URL    string     `json:"url"` // credentials removed
}

// Push performs what Inspect described: it moves p.Branch from p.Old to p.Head, or changes nothing. Doing it again is
// harmless. The bundle is verified again; nothing is forced, and protected branches are refused before the remote is
// contacted. A *lattice.Refusal is final: what Inspect refuses, binding_changed (the request amounts to something else
// by now), stale (the branch moved), rejected_by_remote (a hook or rule there said no, in its own words).
func (g *Git) Push(ctx context.Context, p Push) (PushResult, error) {
	s, remove, err := g.inspectBundle(ctx, p.Request)
	if err != nil {
		return PushResult{}, err
	}
	defer remove()
	if err := p.Same(s.Push); err != nil {
		return PushResult{}, err
	}
	res := PushResult{Ref: "refs/heads/" + p.Branch, Old: p.Old, New: p.Head, Status: Pushed, URL: s.RemoteURL}
	switch s.Old {
	case p.Head:
		res.Status = AlreadyThere
		return res, nil
	case p.Old:
	default:
		return PushResult{}, staleRefusal(p.Branch, s.RemoteURL)
	}
	if err := s.checkForward(ctx); err != nil {
		return PushResult{}, err
	}
	return g.pushBranch(ctx, s, res)
}

// Same refuses now when it is not what p was: an approval of p does not cover it. The destination's present value is
// not compared; Push decides that.
func (p Push) Same(now Push) error {
	for _, d := range []struct{ what, was, is string }{
		{"remote", p.RemoteURL, now.RemoteURL},
		{"branch", p.Branch, now.Branch},
		{"base", p.Base, now.Base},
		{"head", p.Head, now.Head},
		{"diff", p.DiffDigest, now.DiffDigest},
	} {
		if d.was != d.is {
			return newRefusal("binding_changed", "inspect and approve it again", "the %s is no longer what was approved: %s, not %s", d.what, cleanLine(d.is), cleanLine(d.was))
		}
	}
	return nil
}

// pushBranch is the one command that changes something outside. The lease makes it a compare-and-swap; Push has seen to it
// that the move is a fast-forward, so that the lease never forces.
func (g *Git) pushBranch(ctx context.Context, s staged, res PushResult) (PushResult, error) {
	r, err := g.run(ctx, command{dir: s.repo.dir, user: true, hide: s.Request.Hide, limits: pushLimits, args: []string{"push", "--porcelain", "--no-verify", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease=" + res.Ref + ":" + res.Old, "--end-of-options", s.target.url, res.New + ":" + res.Ref}})
	if err != nil {
		return PushResult{}, err
	}
	flag, reason := parsePorcelain(string(r.stdout), res.Ref)
	switch {
	case r.exit == 0 && flag == '=':
		res.Status = AlreadyThere
		return res, nil
	case r.exit == 0:
		return res, nil
	}
	// Whatever git says, the branch itself tells what happened: a race that another copy of this push won looks like a
	// rejection, and so does a reply that was lost after the update.
	now, err := g.currentCommit(ctx, s.target, s.Branch)
	switch {
	case err != nil && !isRefusal(err):
		return PushResult{}, &remoteError{"push to " + s.RemoteURL, r.stderr}
	case err != nil:
		return PushResult{}, err
	case now == res.New:
		res.Status = AlreadyThere
		return res, nil
	case now != res.Old:
		return PushResult{}, staleRefusal(s.Branch, s.RemoteURL)
	case flag == '!':
		return PushResult{}, newRefusal("rejected_by_remote", "ask whoever keeps that repository, or push to another branch",
			"%s rejected the branch %s (%s): %s", s.RemoteURL, s.Branch, reason, remoteReason(r.stderr))
	}
	return PushResult{}, &remoteError{"push to " + s.RemoteURL, r.stderr}
}

func staleRefusal(branch, remote string) error {
	return newRefusal("stale", "look at what changed, then ask for the push again", "the branch %s of %s moved since the push was inspected", branch, remote)
}

// parsePorcelain finds the line of ref in git push --porcelain: "FLAG\tFROM:TO\tSUMMARY (REASON)".
func parsePorcelain(out, ref string) (flag byte, reason string) {
	for l := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(l, "\n"), "\t", 3)
		if len(f) == 3 && len(f[0]) == 1 && strings.HasSuffix(f[1], ":"+ref) {
			return f[0][0], cleanLine(f[2])
		}
	}
	return 0, ""
}

// remoteReason keeps what the remote itself said; git's own lines repeat what the reason tells.
func remoteReason(stderr string) string {
	var out []string
	for l := range strings.SplitSeq(stderr, "\n") {
		if said, ok := strings.CutPrefix(l, "remote:"); ok && strings.TrimSpace(said) != "" {
			out = append(out, strings.TrimSpace(said))
		}
	}
	if out == nil {
		return stderr
	}
	return strings.Join(out, "\n")
}
