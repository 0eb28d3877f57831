package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// defaultRepo is where a run's repository lies.
const defaultRepo = "repo"

// repo is an opened repository. Git is told where it is; it discovers nothing, so no repository around or elsewhere is
// ever taken for it, and its owner does not matter: what its configuration could do is checked instead.
type repo struct {
	*system
	root   *workspace.Root
	rel    string // of the work tree, relative to the workspace
	dir    string // the work tree
	gitDir string
}

// maxSmall is more than git's own small files have, in bytes. They are read and written through the workspace, because
// anybody in the sprite can put a FIFO, a link or a huge file in their place.
const maxSmall = 1 << 20

// open opens the repository whose top folder is name, and refuses one whose configuration could run programs.
func (f family) open(ctx context.Context, c *skill.Call, name string, trust bool) (*repo, error) {
	rel, err := c.Root.Rel(cmp.Or(name, defaultRepo))
	if err != nil {
		return nil, err
	}
	dir, ok := inside(c.Root.Dir(), filepath.Join(c.Root.Dir(), rel))
	if _, err := c.Root.Stat(rel); errors.Is(err, fs.ErrNotExist) {
		return nil, notRepository("%s is not there", rel)
	} else if err != nil {
		return nil, err
	} else if !ok {
		return nil, skill.Unsafe("unsafe_path", "%s leads out of the workspace", rel)
	}
	gitDir, err := findGitDir(c.Root, dir)
	if err != nil {
		return nil, err
	}
	s, err := f.newSystem(ctx, c)
	if err != nil {
		return nil, err
	}
	r := &repo{system: s, root: c.Root, rel: rel, dir: dir, gitDir: gitDir}
	if err := r.checkConfig(ctx, executable, trust); err != nil {
		return nil, err
	}
	return r, nil
}

// findGitDir follows .git, a folder or a file that names one, as long as it stays in the workspace.
func findGitDir(root *workspace.Root, dir string) (string, error) {
	name := filepath.Join(dir, ".git")
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notRepository("%s is not a git repository", filepath.Base(dir))
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		data, err := root.ReadFile(name, maxSmall)
		if err != nil {
			return "", err
		}
		target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
		if !ok {
			return "", notRepository("%s is not a git repository", filepath.Base(dir))
		}
		if name = target; !filepath.IsAbs(name) {
			name = filepath.Join(dir, target)
		}
	}
	real, ok := inside(root.Dir(), name)
	if !ok {
		return "", skill.Unsafe("unsafe_path", "the .git of %s leads out of the workspace", filepath.Base(dir))
	}
	if _, err := os.Stat(filepath.Join(real, "HEAD")); err != nil {
		return "", notRepository("%s is not a git repository", filepath.Base(dir))
	}
	return real, nil
}

// git runs a command in the repository.
func (r *repo) git(ctx context.Context, args ...string) ([]byte, error) {
	return r.in(ctx, command{args: args})
}

// read runs a command that takes no locks.
func (r *repo) read(ctx context.Context, args ...string) ([]byte, error) {
	return r.in(ctx, command{args: args, reading: true})
}

func (r *repo) in(ctx context.Context, cmd command) ([]byte, error) {
	cmd.dir = r.dir
	cmd.env = append(cmd.env, "GIT_DIR="+r.gitDir, "GIT_WORK_TREE="+r.dir, "GIT_LITERAL_PATHSPECS=1")
	return r.run(ctx, cmd)
}

// checkConfig refuses a repository whose own configuration has such keys. git config --file parses and runs nothing.
func (r *repo) checkConfig(ctx context.Context, patterns []string, trust bool) error {
	if trust {
		return nil
	}
	common := r.gitDir
	data, err := r.root.ReadFile(filepath.Join(r.gitDir, "commondir"), maxSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if common = strings.TrimSpace(string(data)); !filepath.IsAbs(common) {
			common = filepath.Join(r.gitDir, common)
		}
	}
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(r.gitDir, "config.worktree")} {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out, err := r.run(ctx, command{args: []string{"config", "--file", file, "--no-includes", "--name-only", "-z", "--list"}})
		if err != nil {
			return explain(err, "bad_config")
		}
		if found := dangerous(split(out), patterns); len(found) > 0 {
			return skill.Unsafe("unsafe_config", "the configuration of %s can run programs or redirect: %s", r.rel, strings.Join(found, ", ")).
				WithHint(`remove these keys, or set "trust_repo_config":true when you know them`).
				WithDetails(map[string]any{"keys": found})
		}
	}
	return nil
}

// resolve returns the commit that a revision names, "" when it names none.
func (r *repo) resolve(ctx context.Context, revision string) (string, error) {
	out, err := r.in(ctx, command{
		args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"}, ok: []int{1, 128}, reading: true,
	})
	if err != nil {
		return "", err
	}
	// Older versions print the separator too.
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), "--end-of-options"))
	if !isCommitID(text) {
		return "", nil
	}
	return text, nil
}

// branch returns the current branch, "" when HEAD is detached.
func (r *repo) branch(ctx context.Context) (string, error) {
	out, err := r.in(ctx, command{args: []string{"symbolic-ref", "--quiet", "--short", "HEAD"}, ok: []int{1}, reading: true})
	return strings.TrimSpace(string(out)), err
}

// setting is the last value of a key of the repository's configuration, "" when it has none.
func (r *repo) setting(ctx context.Context, key string) (string, error) {
	out, err := r.in(ctx, command{args: []string{"config", "--get", key}, ok: []int{1}, reading: true})
	if err != nil {
		return "", explain(err, "bad_config")
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// exclude keeps the runtime's folder and its temporary files out of the repository.
func (r *repo) exclude() error {
	name := filepath.Join(r.gitDir, "info", "exclude")
	data, err := r.root.ReadFile(name, maxSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have := strings.Split(string(data), "\n")
	add := slices.DeleteFunc([]string{"/" + protocol.Dir + "/", workspace.TempPattern}, func(line string) bool {
		return slices.Contains(have, line)
	})
	if len(add) == 0 {
		return nil
	}
	if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
		data = append(data, '\n')
	}
	if err := r.root.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return r.root.WriteFile(name, append(data, strings.Join(add, "\n")+"\n"...), 0)
}

// split splits the NUL-terminated records of -z.
func split(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}
