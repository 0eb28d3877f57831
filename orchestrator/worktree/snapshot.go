package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// snapshotTree commits the working tree of t as it is, on top of s.Head, into the scratch repository repo. The user's index
// is copied first (its stat data makes this fast), and new objects go to the scratch repository: nothing of the user's
// is written. It returns s.Head itself when there is nothing to add.
func (g *Git) snapshotTree(ctx context.Context, t target, s Seeded, scratch, repo string, opt SeedOptions) (string, error) {
	if !t.local || t.bare {
		return "", gitexec.Refuse("no_working_tree", "leave --include-uncommitted out", "%s has no working tree with uncommitted changes", t.remote)
	}
	if at, err := g.commitTree(ctx, t.top, "HEAD"); err != nil {
		return "", err
	} else if at != s.Head || (opt.Ref != "" && s.Branch == "" && opt.Ref != at) {
		return "", gitexec.Refuse("ref_not_checked_out", "check it out, or leave --include-uncommitted out", "the working tree is not on %q", opt.Ref)
	}
	r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"rev-parse", "--path-format=absolute", "--git-path", "index"}})
	if err != nil {
		return "", err
	}
	index := filepath.Join(scratch, "index")
	if err := copyFile(index, r.StdoutText()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("copy the index: %w", err)
	}
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_OBJECT_DIRECTORY=" + filepath.Join(repo, "objects")}
	git := func(args ...string) (string, error) {
		r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: t.top, User: true, Env: env, Args: args})
		return r.StdoutText(), err
	}

	if unmerged, err := git("ls-files", "--unmerged"); err != nil {
		return "", err
	} else if unmerged != "" {
		return "", gitexec.Refuse("unmerged_paths", "resolve the conflicts, or leave --include-uncommitted out", "the working tree has unresolved merge conflicts")
	}
	if _, err := git("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false", "add", "-A", "--", "."); err != nil {
		return "", err
	}
	tree, err := git("write-tree")
	if err != nil {
		return "", err
	}
	before, err := git("rev-parse", s.Head+"^{tree}")
	if err != nil || before == tree {
		return s.Head, err
	}
	name, email := s.AuthorName, s.AuthorEmail
	if strings.TrimSpace(name) == "" || email == "" {
		name, email = "lattice", "lattice@localhost"
	}
	env = append(env, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email)
	return git("commit-tree", "--no-gpg-sign", "-p", s.Head, "-m", "Uncommitted changes at the start of the run", tree)
}

func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the copy's error says more
		return err
	}
	return out.Close()
}
