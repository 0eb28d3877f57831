package worktree

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// Find checks that a repository and a ref exist, without fetching: it only lists the refs of a remote. If not, the error is
// a *lattice.Refusal with the code repository_not_found, not_a_repository or ref_not_found. A ref that remotes do not
// list, such as a commit, is assumed to exist.
func (g *Git) Find(ctx context.Context, spec, ref string) error {
	if !remote.IsURL(spec) {
		t, err := g.openTarget(ctx, spec, "")
		if err != nil {
			return err
		}
		defer t.release()
		_, _, err = g.resolveRef(ctx, t, ref)
		return err
	}
	if err := remote.CheckURL(spec); err != nil {
		return err
	}
	name := strings.TrimPrefix(ref, "refs/heads/")
	refs, err := g.remote.List(ctx, spec, "HEAD", ref, "refs/heads/"+name, "refs/tags/"+name)
	var failed *remote.Error
	switch {
	case errors.As(err, &failed) && failed.IsAbsent():
		return gitexec.Refuse("repository_not_found", failed.Hint(), "%s: %s", failed.Doing, failed.Stderr)
	case errors.As(err, &failed):
		return gitexec.Refuse("repository_unreachable", failed.Hint(), "%s: %s", failed.Doing, failed.Stderr)
	case err != nil:
		return err
	case ref == "" || !plainName(ref):
		return nil
	}
	for _, at := range []string{ref, "refs/heads/" + name, "refs/tags/" + name} {
		if refs.Values[at] != "" {
			return nil
		}
	}
	return gitexec.Refuse("ref_not_found", "list them with git ls-remote", "%s has no branch or tag %q", remote.StripCredentials(spec), gitexec.CleanLine(ref))
}

// plainName reports whether a ref can only be the name of a branch or a tag: neither an abbreviated commit nor an
// expression such as main~1.
func plainName(ref string) bool {
	return strings.Trim(ref, "0123456789abcdef") != "" && !strings.ContainsAny(ref, "~^:@{")
}

// FindCommit returns the id of the commit that a revision of a repository on this machine names.
func (g *Git) FindCommit(ctx context.Context, repository, revision string) (string, error) {
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: repository, User: true, Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"}})
	if err == nil && r.Exit != 0 {
		err = gitexec.Refuse("commit_not_found", "git log lists the commits", "%q names no commit of %s", gitexec.CleanLine(revision), gitexec.CleanLine(repository))
	}
	return r.StdoutText(), err
}

// CountSince counts the commits of HEAD that a commit does not reach, in a repository on this machine.
func (g *Git) CountSince(ctx context.Context, repository, commit string) (int, error) {
	id, err := g.FindCommit(ctx, repository, commit)
	if err != nil {
		return 0, err
	}
	r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repository, User: true, Args: []string{"rev-list", "--count", id + "..HEAD", "--"}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(r.StdoutText())
}
