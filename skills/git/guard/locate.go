// Package guard checks names and repositories before git sees them. [Locate] finds a repository in the workspace;
// [ReadConfig], [RefuseKeys], [RefuseWaiting], [CheckFiles] and [CheckIndex] refuse one that could run programs, write
// outside the workspace or block. The other Check functions refuse names, paths and revisions that git could take for
// options or that leave the repository.
package guard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// MaxSmall bounds git's own small files, in bytes. They are read and written through the workspace, because any process in
// the sprite can replace them with a FIFO, a link or a huge file.
const MaxSmall = 1 << 20

// Locate finds the repository whose top folder is name.
func Locate(root *workspace.Root, name string) (engine.Location, error) {
	rel, err := root.Rel(name)
	if err != nil {
		return engine.Location{}, err
	}
	dir, ok := Inside(root.Dir(), filepath.Join(root.Dir(), rel))
	if _, err := root.Stat(rel); errors.Is(err, fs.ErrNotExist) {
		return engine.Location{}, engine.NotRepository("%s is not there", rel)
	} else if err != nil {
		return engine.Location{}, err
	} else if !ok {
		return engine.Location{}, fault.Unsafe("unsafe_path", "%s leads out of the workspace", rel)
	}
	at := engine.Location{Root: root, Name: rel, Dir: dir}
	if at.GitDir, err = findGitDir(root, dir); err != nil {
		return engine.Location{}, err
	}
	at.CommonDir, err = findCommonDir(root, at)
	return at, err
}

// findCommonDir follows commondir of a linked work tree; the target must lie in the workspace.
func findCommonDir(root *workspace.Root, at engine.Location) (string, error) {
	data, err := root.ReadFile(filepath.Join(at.GitDir, "commondir"), MaxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return at.GitDir, nil
	}
	if err != nil {
		return "", err
	}
	real, ok := Inside(root.Dir(), targetOf(at.GitDir, string(data)))
	if !ok {
		return "", fault.Unsafe("unsafe_path", "the commondir of %s leads out of the workspace", at.Name)
	}
	return real, nil
}

// ReadConfig reads the configuration of the repository and of its work tree.
func ReadConfig(at engine.Location) (gitconfig.Config, error) {
	var all gitconfig.Config
	for _, file := range []string{filepath.Join(at.CommonDir, "config"), filepath.Join(at.GitDir, "config.worktree")} {
		data, err := at.Root.ReadFile(file, MaxSmall)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		config, err := gitconfig.Parse(data)
		if err != nil {
			return nil, fault.Failed("bad_config", "read the configuration of %s: %v", at.Name, err).
				WithHint("look at %s", file)
		}
		all = append(all, config...)
	}
	return all, nil
}

// RefuseKeys refuses a configuration with keys that match patterns.
func RefuseKeys(name string, config gitconfig.Config, patterns []string) error {
	found := config.Dangerous(patterns)
	if len(found) == 0 {
		return nil
	}
	return fault.Unsafe("unsafe_config", "the configuration of %s can run programs or redirect: %s", name, strings.Join(found, ", ")).
		WithHint(`remove these keys, or set "trust_repo_config":true when you know them`).
		WithDetails(map[string]any{"keys": found})
}

// findGitDir follows .git, a folder or a file that names one; the target must lie in the workspace.
func findGitDir(root *workspace.Root, dir string) (string, error) {
	name := filepath.Join(dir, ".git")
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		data, err := root.ReadFile(name, MaxSmall)
		if err != nil {
			return "", err
		}
		target, ok := strings.CutPrefix(string(data), "gitdir: ")
		if !ok {
			return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
		}
		name = targetOf(dir, target)
	}
	real, ok := Inside(root.Dir(), name)
	if !ok {
		return "", fault.Unsafe("unsafe_path", "the .git of %s leads out of the workspace", filepath.Base(dir))
	}
	if _, err := os.Stat(filepath.Join(real, "HEAD")); err != nil {
		return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
	}
	return real, nil
}

// targetOf returns the path in a file of git such as .git or commondir. Like git, it removes newlines only, and resolves a path
// relative to dir. It does not clean the path, because a .. may follow a link.
func targetOf(dir, content string) string {
	name := strings.TrimRight(content, "\r\n")
	if filepath.IsAbs(name) {
		return name
	}
	return dir + string(filepath.Separator) + name
}

// ExcludeOwn excludes the runtime's folder and its temporary files from the repository, in info/exclude.
func ExcludeOwn(root *workspace.Root, gitDir string) error {
	name := filepath.Join(gitDir, "info", "exclude")
	data, err := root.ReadFile(name, MaxSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have := strings.Split(string(data), "\n")
	add := slices.DeleteFunc(engine.Excludes(), func(line string) bool {
		return slices.Contains(have, line)
	})
	if len(add) == 0 {
		return nil
	}
	if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
		data = append(data, '\n')
	}
	if err := root.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return root.WriteFile(name, append(data, strings.Join(add, "\n")+"\n"...), 0)
}

// Inside resolves the symlinks of a path and reports whether the result lies in the workspace.
func Inside(root, name string) (string, bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(root, real)
	return real, err == nil && filepath.IsLocal(rel)
}
