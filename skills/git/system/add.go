package system

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Add is git add, then a comparison of the index with HEAD.
func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	var env []string
	if spec.DryRun {
		var release func()
		var err error
		if env, release, err = r.copyIndex(); err != nil {
			return engine.Added{}, err
		}
		defer release()
	}
	if err := r.runAdd(ctx, spec, env); err != nil {
		return engine.Added{}, err
	}
	return r.listStaged(ctx, spec.Max, env)
}

// runAdd runs git add.
func (r *repo) runAdd(ctx context.Context, spec engine.AddSpec, env []string) error {
	args := []string{"add", "--all"}
	if spec.Update {
		args[1] = "--update"
	}
	if spec.Force {
		args = append(args, "--force")
	}
	paths := spec.Paths
	if spec.Force || r.at.Name == "." {
		paths = r.excludeOwn(paths)
		env = append(env, "GIT_LITERAL_PATHSPECS=0")
	}
	_, err := r.Run(ctx, gitcmd.Command{Args: append(append(args, "--"), paths...), Env: env})
	var f *gitcmd.Failure
	switch {
	case !errors.As(err, &f):
		return err
	case f.Says("did not match any files"):
		return engine.NoSuchPath("%v", f)
	case f.Says("paths are ignored by"):
		return engine.Ignored("%v", f)
	}
	return gitcmd.Explain(err, "add_failed")
}

// excludeOwn returns literal pathspecs that exclude the runtime's own files where .git/info/exclude does not: it has no
// effect on tracked files, nor with --force.
func (r *repo) excludeOwn(paths []string) []string {
	specs := append(r.excludeRuntime(), ":(exclude,top,glob)**/"+workspace.TempPattern, ":(exclude,top,glob)**/"+workspace.TempPattern+"/**")
	if len(paths) == 0 {
		return append(specs, ":(top)")
	}
	for _, p := range paths {
		specs = append(specs, ":(literal)"+p)
	}
	return specs
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// excludeRuntime returns pathspecs that exclude the runtime's entries of .lattice: those that are known, and those that are there
// and not a board's. The folder is written as a pattern, because git add and git stash report the plain name of an ignored file,
// even in an exclusion, as a request to stage it.
func (r *repo) excludeRuntime() (specs []string) {
	own := slices.Clone(protocol.RuntimeEntries)
	entries, _ := os.ReadDir(filepath.Join(r.at.Dir, protocol.Dir)) // an unreadable folder has no entries to stage
	for _, e := range entries {
		if name := e.Name(); !slices.Contains(own, name) && protocol.IsRuntime(protocol.Dir+"/"+name) {
			own = append(own, name)
		}
	}
	last := len(protocol.Dir) - 1
	for _, name := range own {
		spec := ":(exclude,top,glob)" + protocol.Dir[:last] + "[" + protocol.Dir[last:] + "]/" + escapeGlob.Replace(name)
		specs = append(specs, spec, spec+"/**")
	}
	return specs
}

// copyIndex returns an environment in which git stages into a copy of the index and stores objects outside the repository.
// release removes both.
func (r *repo) copyIndex() (env []string, release func(), err error) {
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

// copyFile copies a file of the workspace if it exists.
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

// listStaged lists the differences between HEAD and the index, sorted by path as git does.
func (r *repo) listStaged(ctx context.Context, limit int, env []string) (engine.Added, error) {
	added := engine.Added{Staged: []engine.StagedEntry{}, Removed: []string{}}
	cmd := gitcmd.Command{
		Args:    []string{"diff", "--cached", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--"},
		Reading: true, Env: env,
	}
	letter := ""
	err := r.Scan(ctx, cmd, 0, func(record []byte) error {
		if letter == "" {
			letter = string(record[:min(1, len(record))])
			return nil
		}
		keepEntry(&added, engine.StagedEntry{Path: string(record), Index: letter}, limit)
		letter = ""
		return nil
	})
	return added, gitcmd.Explain(err, "add_failed")
}

// keepEntry counts an entry and keeps it up to the limit.
func keepEntry(added *engine.Added, e engine.StagedEntry, limit int) {
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
