package worktree

import (
	"context"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// PushStatus says how a destination came to be at the wanted commit.
type PushStatus string

const (
	Pushed       PushStatus = "pushed"
	AlreadyThere PushStatus = "already_there" // pushed by an earlier attempt, or by someone else
)

// PushResult is the outcome of a push.
type PushResult struct {
	Ref    string     `json:"ref"` // refs/heads/…
	Old    string     `json:"old"` // "" = the branch is new
	New    string     `json:"new"`
	Status PushStatus `json:"status"`
	URL    string     `json:"url"` // credentials removed
}

// Push performs the push that Inspect described: it moves p.Branch from p.Old to p.Head, or changes nothing. It is
// idempotent. It verifies the bundle again, never forces, and refuses protected branches before it contacts the remote. A
// *lattice.Refusal is final: a code of Inspect, binding_changed (the request now has another effect), stale (the branch
// moved) or rejected_by_remote (a hook or rule of the remote, whose message it quotes). With p.Note it pushes that line to NotesRef
// before.
func (g *Git) Push(ctx context.Context, p Push) (PushResult, error) {
	s, remove, err := g.inspectBundle(ctx, p.Request)
	if err != nil {
		return PushResult{}, err
	}
	defer remove()
	res := PushResult{Ref: "refs/heads/" + p.Branch, Old: p.Old, New: p.Head, Status: Pushed, URL: s.RemoteURL}
	there, err := p.Compare(s.Push)
	if err != nil {
		return PushResult{}, err
	}
	if !there {
		if err := s.checkForward(ctx); err != nil {
			return PushResult{}, err
		}
	}
	if s.Note = p.Note; s.Note != "" { // first, so that no commit is there without it
		if err := (notes{g}).pushNote(ctx, s); err != nil {
			return PushResult{}, err
		}
	}
	if there {
		res.Status = AlreadyThere
		return res, nil
	}
	return g.pushBranch(ctx, s, res)
}

// Compare compares p with the same push as it is now. It reports whether the destination has the commits already, and refuses a
// push that is not the one that was approved.
func (p Push) Compare(now Push) (there bool, err error) {
	if err := p.Same(now); err != nil {
		return false, err
	}
	if now.Old != p.Head && now.Old != p.Old {
		return false, staleRefusal(p.Branch, now.RemoteURL)
	}
	return now.Old == p.Head, nil
}

// Same returns a refusal if now differs from p in a part that an approval binds. It does not compare the current commit of
// the destination, which Push checks.
func (p Push) Same(now Push) error {
	for _, d := range []struct{ what, was, is string }{
		{"remote", p.RemoteURL, now.RemoteURL},
		{"branch", p.Branch, now.Branch},
		{"base", p.Base, now.Base},
		{"head", p.Head, now.Head},
		{"diff", p.DiffDigest, now.DiffDigest},
	} {
		if d.was != d.is {
			return gitexec.Refuse("binding_changed", "inspect and approve it again", "the %s has changed since the approval: it is %s, not %s", d.what, gitexec.CleanLine(d.is), gitexec.CleanLine(d.was))
		}
	}
	return nil
}

// pushRef runs git push, the only command with an effect outside. The lease makes it a compare-and-swap from old to head; the
// caller has checked that the update is a fast-forward, so the lease never forces.
func (g *Git) pushRef(ctx context.Context, s staged, ref, old, head string) (gitexec.Result, error) {
	return g.remote.Run(ctx, s.target.url, gitexec.Command{Dir: s.repo.dir, User: true, Hide: s.Request.Hide, Limits: gitexec.PushLimits, Args: []string{"push", "--porcelain", "--no-verify", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease=" + ref + ":" + old, "--end-of-options", s.target.url, head + ":" + ref}})
}

// pushBranch pushes the branch.
func (g *Git) pushBranch(ctx context.Context, s staged, res PushResult) (PushResult, error) {
	r, err := g.pushRef(ctx, s, res.Ref, res.Old, res.New)
	if err != nil {
		return PushResult{}, err
	}
	flag, reason := parsePorcelain(string(r.Stdout), res.Ref)
	switch {
	case r.Exit == 0 && flag == '=':
		res.Status = AlreadyThere
		return res, nil
	case r.Exit == 0:
		return res, nil
	}
	// Read the branch instead of trusting git's exit code: losing a race against another copy of this push looks like a
	// rejection, and so does a reply that was lost after the update.
	now, err := g.currentCommit(ctx, s.target, s.Branch)
	switch {
	case err != nil && !gitexec.IsRefusal(err):
		return PushResult{}, &remote.Error{Doing: "push to " + s.RemoteURL, Stderr: r.Stderr}
	case err != nil:
		return PushResult{}, err
	case now == res.New:
		res.Status = AlreadyThere
		return res, nil
	case now != res.Old:
		return PushResult{}, staleRefusal(s.Branch, s.RemoteURL)
	case flag == '!':
		return PushResult{}, gitexec.Refuse("rejected_by_remote", "ask the owners of that repository, or push to another branch",
			"%s rejected the branch %s (%s): %s", s.RemoteURL, s.Branch, reason, remoteReason(r.Stderr))
	}
	return PushResult{}, &remote.Error{Doing: "push to " + s.RemoteURL, Stderr: r.Stderr}
}

func staleRefusal(branch, remote string) error {
	return gitexec.Refuse("stale", "look at what changed, then ask for the push again", "the branch %s of %s moved since the push was inspected", branch, remote)
}

// parsePorcelain finds the line of ref in git push --porcelain: "FLAG\tFROM:TO\tSUMMARY (REASON)".
func parsePorcelain(out, ref string) (flag byte, reason string) {
	for l := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(l, "\n"), "\t", 3)
		if len(f) == 3 && len(f[0]) == 1 && strings.HasSuffix(f[1], ":"+ref) {
			return f[0][0], gitexec.CleanLine(f[2])
		}
	}
	return 0, ""
}

// remoteReason returns the lines of stderr that come from the remote; git's own lines repeat the reason.
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
