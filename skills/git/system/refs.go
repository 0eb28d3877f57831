package system

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/skills/git/gitfiles"
)

// refs reads HEAD, refs and commits: from the repository's files where that is simple and exact, and by git otherwise.
type refs struct {
	gitcmd.WorkTree
	files gitfiles.Files
}

// commitOf returns the commit of HEAD or of a full ref, "" when there is none.
func (r refs) commitOf(ctx context.Context, name string) (string, error) {
	var commit string
	var ok bool
	if name == "HEAD" {
		_, commit, ok = r.files.Head()
	} else if r.files.PlainRefs() && strings.HasPrefix(name, "refs/heads/") && filepath.IsLocal(name) {
		commit, ok = r.files.Ref(name)
	}
	if ok {
		return commit, nil
	}
	return r.resolveCommit(ctx, name)
}

// currentBranch returns the current branch, "" when HEAD is detached.
func (r refs) currentBranch(ctx context.Context) (string, error) {
	if ref, _, ok := r.files.Head(); ok {
		return strings.TrimPrefix(ref, "refs/heads/"), nil
	}
	out, err := r.Run(ctx, gitcmd.Command{Args: []string{"symbolic-ref", "--quiet", "--short", "HEAD"}, OK: []int{1}, Reading: true})
	return strings.TrimSpace(string(out)), gitcmd.Explain(err, "branch_failed")
}

// resolveCommit returns the commit of a revision, "" when the revision does not exist or is not a commit.
func (r refs) resolveCommit(ctx context.Context, revision string) (string, error) {
	out, err := r.Run(ctx, gitcmd.Command{
		Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"}, OK: []int{1, 128}, Reading: true,
	})
	if err != nil {
		return "", err
	}
	// Older versions print the separator too.
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), "--end-of-options"))
	if !engine.IsCommitID(text) {
		return "", nil
	}
	return text, nil
}

// readMessage returns the message of a commit.
func (r refs) readMessage(ctx context.Context, commit string) (string, error) {
	kind, content, ok := r.files.LooseObject(commit)
	if !ok || kind != "commit" {
		out, err := r.Read(ctx, "cat-file", "commit", commit)
		if err != nil {
			return "", err
		}
		content = out
	}
	_, message, _ := bytes.Cut(content, []byte("\n\n"))
	return string(message), nil
}

// headState returns the full name of HEAD's branch, "" when detached, and its commit, "" when there is none.
func (r refs) headState(ctx context.Context) (ref, commit string, err error) {
	if ref, commit, ok := r.files.Head(); ok {
		return ref, commit, nil
	}
	branch, err := r.currentBranch(ctx)
	if err != nil {
		return "", "", err
	}
	if branch != "" {
		ref = "refs/heads/" + branch
	}
	commit, err = r.resolveCommit(ctx, "HEAD")
	return ref, commit, err
}

// allRefs returns the refs that all work trees share, by full name, without symbolic ones.
func (r refs) allRefs(ctx context.Context) (map[string]string, error) {
	if all, ok := r.files.AllRefs(); ok {
		return all, nil
	}
	all := map[string]string{}
	list := gitcmd.Command{Args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)"}, Reading: true}
	err := r.Scan(ctx, list, '\n', func(line []byte) error {
		fields := strings.Split(string(line), "\x00")
		if len(fields) == 3 && fields[2] == "" {
			all[fields[0]] = fields[1]
		}
		return nil
	})
	return all, gitcmd.Explain(err, "branch_failed")
}
