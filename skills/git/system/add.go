package system

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Add is git add, then a comparison of the index with HEAD.
func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	var env []string
	if spec.DryRun {
		var release func()
		var err error
		if env, release, err = r.pretend(); err != nil {
			return engine.Added{}, err
		}
		defer release()
	}
	if err := r.stage(ctx, spec, env); err != nil {
		return engine.Added{}, err
	}
	return r.staged(ctx, spec.Max, env)
}

// stage runs git add.
func (r *repo) stage(ctx context.Context, spec engine.AddSpec, env []string) error {
	args := []string{"add", "--all"}
	if spec.Update {
		args[1] = "--update"
	}
	if spec.Force {
		args = append(args, "--force")
	}
	paths := spec.Paths
	if spec.Force || r.at.Name == "." {
		paths = withoutOwn(paths)
		env = append(env, "GIT_LITERAL_PATHSPECS=0")
	}
	_, err := r.in(ctx, command{args: append(append(args, "--"), paths...), env: env})
	var f *failure
	switch {
	case !errors.As(err, &f):
		return err
	case strings.Contains(f.stderr, "did not match any files"):
		return engine.NoSuchPath("%v", f)
	case strings.Contains(f.stderr, "paths are ignored by"):
		return engine.Ignored("%v", f)
	}
	return explain(err, "add_failed")
}

// withoutOwn are literal paths that leave out the runtime's own, where .git/info/exclude does not: it has no say over files
// that are tracked already, nor with --force. The folder is named by a pattern, because git add takes the plain name of
// something ignored, even of what is to be left out, for a request to stage it.
func withoutOwn(paths []string) []string {
	last := len(protocol.Dir) - 1
	own := protocol.Dir[:last] + "[" + protocol.Dir[last:] + "]"
	specs := []string{
		":(exclude,top,glob)" + own + "/**", ":(exclude,top,glob)**/" + workspace.TempPattern, ":(exclude,top,glob)**/" + workspace.TempPattern + "/**",
	}
	if len(paths) == 0 {
		return append(specs, ":(top)")
	}
	for _, p := range paths {
		specs = append(specs, ":(literal)"+p)
	}
	return specs
}

// pretend is an environment in which git stages into a copy of the index, and stores objects next to those of the
// repository; release removes both.
func (r *repo) pretend() (env []string, release func(), err error) {
	dir, release, err := r.at.Root.Scratch(".")
	if err != nil {
		return nil, nil, err
	}
	index := filepath.Join(dir, "index")
	if err := copyFile(r.at.Root, filepath.Join(r.at.GitDir, "index"), index); err != nil {
		release()
		return nil, nil, err
	}
	objects := filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o755); err != nil {
		release()
		return nil, nil, err
	}
	return []string{
		"GIT_INDEX_FILE=" + index, "GIT_OBJECT_DIRECTORY=" + objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(r.at.CommonDir, "objects"),
	}, release, nil
}

// copyFile copies a file of the workspace; one that is not there stays away.
func copyFile(root *workspace.Root, from, to string) error {
	in, err := root.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// staged lists what differs between HEAD and the index, sorted by path as git does.
func (r *repo) staged(ctx context.Context, limit int, env []string) (engine.Added, error) {
	added := engine.Added{Staged: []engine.StagedEntry{}, Removed: []string{}}
	letter := ""
	out := &records{end: 0, each: func(record []byte) error {
		if letter == "" {
			letter = string(record[:min(1, len(record))])
			return nil
		}
		e := engine.StagedEntry{Path: string(record), Index: letter}
		letter = ""
		take(&added, e, limit)
		return nil
	}}
	_, err := r.in(ctx, command{
		args:    []string{"diff", "--cached", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--"},
		reading: true, stdout: out, env: env,
	})
	return added, explain(out.finish(err), "add_failed")
}

func take(added *engine.Added, e engine.StagedEntry, limit int) {
	added.Count++
	if limit > 0 && added.Count > limit {
		added.Truncated = true
		return
	}
	added.Staged = append(added.Staged, e)
	if e.Index == "D" {
		added.Removed = append(added.Removed, e.Path)
	}
}
