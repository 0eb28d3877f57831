package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// Patch is a change as git diff prints it. Its text is untrusted.
type Patch struct {
	Text string
	Cut  bool // there is more
}

// patchFlags make git print plain content and ignore attributes that would run programs.
var patchFlags = []string{"--patch", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"}

// Patch returns the content of a push that Inspect accepted. It contacts no remote for a request whose base is known.
func (g *Git) Patch(ctx context.Context, r Request) (Patch, error) {
	if !remote.IsOID(r.Base) || !remote.IsOID(r.Head) {
		return Patch{}, gitexec.Refuse("bad_request", "", "base and head must be full commit ids")
	}
	t, err := g.openTarget(ctx, r.Repo, r.Base)
	if err != nil {
		return Patch{}, err
	}
	defer t.release()
	dir, remove, err := g.tempDir("patch")
	if err != nil {
		return Patch{}, err
	}
	defer remove()
	q, _, err := g.admitBundle(ctx, t, r, filepath.Join(dir, "repo.git"))
	if err != nil {
		return Patch{}, err
	}
	if err := q.checkPaths(ctx, r.Base, r.Head); err != nil {
		return Patch{}, err
	}
	return q.printPatch(ctx, append(append([]string{"diff-tree", "-r"}, patchFlags...), r.Base, r.Head)...)
}

// printPatch runs a git command that prints a patch, truncated to maxOutput.
func (q quarantine) printPatch(ctx context.Context, args ...string) (Patch, error) {
	out, err := q.run(ctx, args...)
	p := Patch{Text: string(out.Stdout), Cut: out.Cut}
	switch {
	case out.Cut && ctx.Err() == nil:
		return p, nil
	case err != nil:
		return Patch{}, err
	case out.Exit > 1: // 1: git diff found a difference
		return Patch{}, fmt.Errorf("git %s (exit %d): %s", args[0], out.Exit, out.Stderr)
	}
	return p, nil
}

// FilePair is the content of a file before and after; nil if it did not exist. Path is absolute, in the sprite.
type FilePair struct {
	Path          string
	Before, After []byte
}

// PatchOf returns the differences of files as a patch.
func (g *Git) PatchOf(ctx context.Context, files []FilePair) (Patch, error) {
	dir, remove, err := g.tempDir("patch")
	if err != nil {
		return Patch{}, err
	}
	defer remove()
	size := int64(0)
	for _, f := range files {
		size += int64(len(f.Before) + len(f.After))
		if err := errors.Join(writeBelow(filepath.Join(dir, "a"), f.Path, f.Before), writeBelow(filepath.Join(dir, "b"), f.Path, f.After)); err != nil {
			return Patch{}, fmt.Errorf("compare files: %w", err)
		}
	}
	q := quarantine{git: g, dir: dir, limits: gitexec.ReadLimits(size)}
	args := append([]string{"diff", "--no-index", "--no-prefix"}, patchFlags...)
	return q.printPatch(ctx, append(args, "--", "a", "b")...)
}

// writeBelow writes a file of a sprite inside dir, whatever its name. It creates dir even if content is nil.
func writeBelow(dir, name string, content []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil || content == nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return root.WriteFile(name, content, 0o600)
}
