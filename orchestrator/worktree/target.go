package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/mirror"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// target is the user's repository, which a run is seeded from and pushed to. For a URL, the objects are those of its
// mirror.
type target struct {
	url     string // the URL or path for git push
	remote  string // the same without credentials
	local   bool
	gitdir  string // absolute: of the repository, or of the mirror
	top     string // absolute: the working tree, or the bare repository; "" for a URL
	bare    bool
	objects string // absolute
	more    string // further objects, of the whole history of a shallow clone; "" = none
	format  string // sha1 | sha256
	shallow bool
	head    string // of a URL: the remote's default branch, "" when it has none
	// release unlocks the mirror. The caller of openTarget must call it.
	release func()
}

// openTarget opens the repository that spec names. For a URL it updates the mirror, which then also has want: a branch, tag
// or commit, or "".
func (g *Git) openTarget(ctx context.Context, spec, want string) (target, error) {
	if spec == "" {
		return target{}, gitexec.Refuse("no_repository", "name one with --repo URL|PATH", "no repository was given")
	}
	if remote.IsURL(spec) {
		if err := remote.CheckURL(spec); err != nil {
			return target{}, err
		}
		m, err := g.mirrors.Open(ctx, spec, want)
		return mirrorTarget(spec, m), err
	}
	return g.locateRepo(ctx, spec)
}

func mirrorTarget(url string, m mirror.Mirror) target {
	return target{url: url, remote: remote.StripCredentials(url), gitdir: m.GitDir, objects: filepath.Join(m.GitDir, "objects"), format: m.Format, head: m.Head, release: m.Release}
}

// locateRepo returns a local repository with the paths of its parts.
func (g *Git) locateRepo(ctx context.Context, path string) (target, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return target{}, fmt.Errorf("locate the repository: %w", err)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !info.IsDir()) {
		return target{}, gitexec.Refuse("not_a_repository", "give the directory of a git repository, or its URL", "there is no directory %s", gitexec.CleanLine(path))
	}
	if err != nil {
		return target{}, fmt.Errorf("locate the repository: %w", err)
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: dir, User: true, Args: []string{"rev-parse", "--path-format=absolute",
		"--is-bare-repository", "--show-object-format", "--is-shallow-repository", "--absolute-git-dir", "--git-path", "objects"}})
	if err != nil {
		return target{}, err
	}
	if r.Exit != 0 {
		hint := "run git init there and commit, or give another path"
		if strings.Contains(r.Stderr, "dubious ownership") {
			hint = "if you trust it: git config --global --add safe.directory " + dir
		}
		return target{}, gitexec.Refuse("not_a_repository", hint, "%s cannot be read as a git repository: %s", gitexec.CleanLine(path), r.Stderr)
	}
	lines := strings.Split(r.StdoutText(), "\n")
	if len(lines) != 5 {
		return target{}, gitexec.Refuse("unsupported_repository", "move it to a path without line breaks", "the path of the repository contains a line break")
	}
	t := target{release: func() {}, local: true, bare: lines[0] == "true", format: lines[1], shallow: lines[2] == "true", gitdir: lines[3], objects: lines[4], top: lines[3]}
	if !t.bare {
		r, err := g.proc.Run(ctx, gitexec.Command{Dir: dir, User: true, Args: []string{"rev-parse", "--show-toplevel"}})
		if err != nil {
			return target{}, err
		}
		if r.Exit != 0 {
			return target{}, gitexec.Refuse("not_a_repository", "give the working tree that it belongs to", "%s is inside a .git directory", gitexec.CleanLine(path))
		}
		t.top = r.StdoutText()
	}
	t.url, t.remote = t.top, t.top
	return t, nil
}

// borrowObjects creates an empty bare repository in dir that has the objects of t as alternates, but neither its refs nor
// its configuration.
func (g *Git) borrowObjects(ctx context.Context, t target, dir string) error {
	if strings.ContainsAny(t.objects, "\n") {
		return gitexec.Refuse("unsupported_repository", "move it to a path without line breaks", "the path of the repository contains a line break")
	}
	if _, err := g.proc.MustRun(ctx, gitexec.Command{Args: []string{"init", "-q", "--bare", "--template=", "--object-format=" + t.format, dir}}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "objects", "info"), 0o700); err != nil {
		return fmt.Errorf("borrow objects: %w", err)
	}
	alternates := t.objects + "\n"
	if t.more != "" {
		alternates += t.more + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(alternates), 0o600); err != nil {
		return fmt.Errorf("borrow objects: %w", err)
	}
	if !t.shallow {
		return nil
	}
	roots, err := g.shallowRoots(ctx, t)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "shallow"), roots, 0o600); err != nil {
		return fmt.Errorf("borrow objects: %w", err)
	}
	return nil
}

// shallowRoots reads the file with the commits at the boundary of a shallow clone, a line each.
func (g *Git) shallowRoots(ctx context.Context, t target) (roots []byte, err error) {
	r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"rev-parse", "--path-format=absolute", "--git-path", "shallow"}})
	if err != nil {
		return nil, err
	}
	if roots, err = os.ReadFile(r.StdoutText()); err != nil {
		return nil, fmt.Errorf("read the shallow boundary: %w", err)
	}
	return roots, nil
}
