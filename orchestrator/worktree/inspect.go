package worktree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// Request is a push that a sprite asks for. Everything but Repo and Run comes from the sprite.
type Request struct {
	Repo   string // spec of the repository that the run was seeded from: URL or absolute path
	Run    string // names the destination lattice/<run> when Repo is a path
	Bundle string // file on this machine
	Branch string // as requested; the destination when Repo is a URL
	Base   string // full commit id; must be in Repo
	Head   string // full commit id, or "" = whatever the bundle's one head is
	// Hide names environment variables that the git that pushes does not get: those of the agent.
	Hide []string
	// Review, if set, examines the content of the push. It returns warnings, or a refusal that Inspect returns.
	Review func(context.Context, Content) (warnings []string, err error)
}

// Push is the verified effect of a request. An approval binds RemoteURL, Branch, Base, Head and DiffDigest; the rest is for
// people, truncated to a bounded size.
type Push struct {
	Request   Request `json:"-"`
	RemoteURL string  `json:"remote"` // credentials removed; of a local repository its path
	Branch    string  `json:"branch"` // the destination
	Base      string  `json:"base"`
	Head      string  `json:"head"`
	Old       string  `json:"old"` // the current commit of the destination, "" = it does not exist
	// DiffDigest is the sha256 (hex) of the output of git diff-tree -r -z --full-index --no-renames BASE HEAD.
	DiffDigest string `json:"diff_digest"`
	Diff
	Warnings []string `json:"warnings,omitempty"` // for the person who approves
	// Note is a line for the note about Head in NotesRef, "" for none.
	Note string `json:"-"`
}

// Inspect verifies an untrusted bundle against its target repository and describes the effect of pushing it. It changes
// nothing. If it cannot be pushed, the error is a *lattice.Refusal with one of the codes bad_request, bad_branch,
// protected_branch, bad_bundle, unknown_base, head_mismatch, not_a_descendant, nothing_to_push, not_fast_forward,
// branch_checked_out, limit_exceeded.
func (g *Git) Inspect(ctx context.Context, q Request) (Push, error) {
	s, remove, err := g.inspectBundle(ctx, q)
	if err != nil {
		return Push{}, err
	}
	defer remove()
	return s.Push, s.checkForward(ctx)
}

// staged is an inspected push with the scratch repository that holds its objects.
type staged struct {
	Push
	target target
	repo   quarantine
}

// inspectBundle is like Inspect but keeps the scratch repository until remove is called. On error, remove is nil.
func (g *Git) inspectBundle(ctx context.Context, q Request) (s staged, remove func(), err error) {
	branch, err := g.destinationOf(q)
	if err != nil {
		return s, nil, err
	}
	t, err := g.openTarget(ctx, q.Repo, q.Base)
	if err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			t.release()
		}
	}()
	s = staged{target: t, Push: Push{Request: q, RemoteURL: t.remote, Branch: branch, Base: q.Base}}
	if s.Old, err = g.currentCommit(ctx, t, branch); err != nil {
		return s, nil, err
	}
	dir, discard, err := g.tempDir("inspect")
	if err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			discard()
		}
	}()
	if s.repo, s.Head, err = g.admitBundle(ctx, t, q, filepath.Join(dir, "repo.git")); err != nil {
		return s, nil, err
	}
	if err = s.describeDiff(ctx); err != nil {
		return s, nil, err
	}
	return s, func() { discard(); t.release() }, nil
}

// checkForward refuses a push that would drop commits of the destination.
func (s *staged) checkForward(ctx context.Context) error {
	if s.Old == "" {
		return nil
	}
	ok, err := s.repo.isAncestor(ctx, s.Old, s.Head)
	if err == nil && !ok {
		err = gitexec.Refuse("not_fast_forward", "push to another branch, or rebase onto it; a branch of an earlier try may be deleted there", "the branch %s of %s has commits that this push would drop", s.Branch, s.RemoteURL)
	}
	return err
}

// destinationOf returns the destination branch of a request, or a refusal, without contacting the remote.
func (g *Git) destinationOf(q Request) (string, error) {
	if !remote.IsOID(q.Base) || (q.Head != "" && !remote.IsOID(q.Head)) {
		return "", gitexec.Refuse("bad_request", "give full commit ids, as git rev-parse prints them", "base and head must be full commit ids")
	}
	if err := remote.CheckBranch(q.Branch); err != nil {
		return "", err
	}
	if remote.IsURL(q.Repo) {
		return q.Branch, g.checkProtected(q.Branch, "")
	}
	if !filepath.IsAbs(q.Repo) {
		return "", fmt.Errorf("the repository path %q is not absolute", q.Repo)
	}
	branch := "lattice/" + q.Run
	if err := remote.CheckBranch(branch); err != nil {
		return "", fmt.Errorf("name the branch of run %q: %w", q.Run, errors.New(err.Error()))
	}
	return branch, nil
}

// currentCommit returns the current commit of the destination, "" if the branch does not exist. It refuses branches that
// the target protects: the default branch of a remote, or a branch that is checked out.
func (g *Git) currentCommit(ctx context.Context, t target, branch string) (string, error) {
	ref := "refs/heads/" + branch
	if !t.local {
		refs, err := g.remote.List(ctx, t.url, "HEAD", ref)
		if err != nil {
			return "", err
		}
		return refs.Values[ref], g.checkProtected(branch, refs.Head)
	}
	r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"worktree", "list", "--porcelain"}})
	if err != nil {
		return "", err
	}
	if checkedOut(r.StdoutText(), ref) {
		return "", gitexec.Refuse("branch_checked_out", "check out another branch, then approve again", "the branch %s is checked out in %s", branch, t.remote)
	}
	return g.commitTree(ctx, t.top, ref)
}
