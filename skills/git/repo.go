package git

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// defaultRepo is where a run's repository lies.
const defaultRepo = "repo"

// maxSmall bounds git's own small files, in bytes. They are read and written through the workspace, because any process in
// the sprite can put a FIFO, a link or a huge file in their place.
const maxSmall = 1 << 20

// on is the part of the input that every verb on a repository has.
type on struct {
	Repo      string `json:"repo"`
	Engine    string `json:"engine"`
	Trust     bool   `json:"trust_repo_config"`
	TimeoutMS int    `json:"timeout_ms"`
}

// about is the part of the result that every verb on a repository has.
type about struct {
	Repo   string `json:"repo"`
	Engine string `json:"engine"`
}

// repo is an open repository. The engine gets its location and discovers nothing, so that an enclosing repository is never
// taken for it. The owner of its files does not matter, because its configuration is checked instead.
type repo struct {
	engine.Repo
	at     engine.Location
	config gitconfig.Config
	engine string
	cancel context.CancelFunc
}

// open opens the repository that a call names; it refuses one whose configuration could run programs. The returned context
// has the timeout of the call. The caller must close the repository.
func (f family) open(ctx context.Context, c *skill.Call, in on) (context.Context, *repo, error) {
	r := &repo{}
	var err error
	if r.at, err = locate(c.Root, place(c.Root, cmp.Or(in.Repo, defaultRepo))); err != nil {
		return nil, nil, err
	}
	if err := refuseWaiting(r.at); err != nil {
		return nil, nil, err
	}
	if r.config, err = readConfig(r.at); err != nil {
		return nil, nil, err
	}
	r.at.Config = r.config
	if !in.Trust {
		if err := refuseKeys(r.at.Name, r.config, gitconfig.Executable()); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel, err := limited(ctx, in.TimeoutMS)
	if err != nil {
		return nil, nil, err
	}
	e, err := f.pick(ctx, c, in.Engine)
	// The native engine does not follow links that lead out, and so cannot read them either.
	if err == nil && (c.Class != "read" || e.Name() == engine.Native) {
		err = refuseLinks(r.at)
	}
	if err == nil && c.Class != "read" {
		err = judgeIndex(r.at, in.Trust)
	}
	if err == nil {
		r.Repo, err = e.Open(ctx, r.at)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r.engine, r.cancel = e.Name(), cancel
	return ctx, r, nil
}

// place returns the folder of a repository: a workspace without a folder of the default name may itself be the repository.
func place(root *workspace.Root, name string) string {
	if name != defaultRepo {
		return name
	}
	if _, err := root.Stat(defaultRepo); errors.Is(err, fs.ErrNotExist) {
		if _, err := root.Stat(".git"); err == nil {
			return "."
		}
	}
	return name
}

// close closes the repository and ends its context.
func (r *repo) close() {
	_ = r.Close() // nothing is written late
	r.cancel()
}

func (r *repo) about() about { return about{Repo: r.at.Name, Engine: r.engine} }

// limited returns ctx with the timeout of an input, in milliseconds; 0 leaves the manifest's.
func limited(ctx context.Context, ms int) (context.Context, context.CancelFunc, error) {
	switch {
	case ms < 0:
		return nil, nil, skill.BadInput("/timeout_ms", "is negative")
	case ms == 0:
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	limit := time.Duration(ms) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fault.Timeout("timeout", "the %v that the call gave itself are over", limit))
	return ctx, cancel, nil
}

// locate finds the repository whose top folder is name.
func locate(root *workspace.Root, name string) (engine.Location, error) {
	rel, err := root.Rel(name)
	if err != nil {
		return engine.Location{}, err
	}
	dir, ok := inside(root.Dir(), filepath.Join(root.Dir(), rel))
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

// findCommonDir follows commondir of a linked work tree, as long as it stays in the workspace.
func findCommonDir(root *workspace.Root, at engine.Location) (string, error) {
	data, err := root.ReadFile(filepath.Join(at.GitDir, "commondir"), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return at.GitDir, nil
	}
	if err != nil {
		return "", err
	}
	common := strings.TrimSpace(string(data))
	if !filepath.IsAbs(common) {
		common = filepath.Join(at.GitDir, common)
	}
	real, ok := inside(root.Dir(), common)
	if !ok {
		return "", fault.Unsafe("unsafe_path", "the commondir of %s leads out of the workspace", at.Name)
	}
	return real, nil
}

// readConfig reads the repository's own configuration, and that of its work tree.
func readConfig(at engine.Location) (gitconfig.Config, error) {
	var all gitconfig.Config
	for _, file := range []string{filepath.Join(at.CommonDir, "config"), filepath.Join(at.GitDir, "config.worktree")} {
		data, err := at.Root.ReadFile(file, maxSmall)
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

// refuseKeys refuses a configuration with keys that match patterns.
func refuseKeys(name string, config gitconfig.Config, patterns []string) error {
	found := config.Dangerous(patterns)
	if len(found) == 0 {
		return nil
	}
	return fault.Unsafe("unsafe_config", "the configuration of %s can run programs or redirect: %s", name, strings.Join(found, ", ")).
		WithHint(`remove these keys, or set "trust_repo_config":true when you know them`).
		WithDetails(map[string]any{"keys": found})
}

// findGitDir follows .git, a folder or a file that names one, as long as it stays in the workspace.
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
		data, err := root.ReadFile(name, maxSmall)
		if err != nil {
			return "", err
		}
		target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
		if !ok {
			return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
		}
		if name = target; !filepath.IsAbs(name) {
			name = filepath.Join(dir, target)
		}
	}
	real, ok := inside(root.Dir(), name)
	if !ok {
		return "", fault.Unsafe("unsafe_path", "the .git of %s leads out of the workspace", filepath.Base(dir))
	}
	if _, err := os.Stat(filepath.Join(real, "HEAD")); err != nil {
		return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
	}
	return real, nil
}

// staging calls do, which stages files, after it has excluded the runtime's own in .git/info/exclude. The native engine
// never stages them, and refuses before anything has changed.
func (r *repo) staging(do func() error) error {
	if r.engine == engine.Native {
		if err := do(); err != nil {
			return err
		}
		return exclude(r.at.Root, r.at.CommonDir)
	}
	if err := exclude(r.at.Root, r.at.CommonDir); err != nil {
		return err
	}
	return do()
}

// exclude keeps the runtime's folder and its temporary files out of the repository.
func exclude(root *workspace.Root, gitDir string) error {
	name := filepath.Join(gitDir, "info", "exclude")
	data, err := root.ReadFile(name, maxSmall)
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

// inside reports whether a path, symlinks resolved, lies in the workspace, and returns it resolved.
func inside(root, name string) (string, bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(root, real)
	return real, err == nil && filepath.IsLocal(rel)
}

// tracked returns the number of files in the index, from its header.
func tracked(root *workspace.Root, gitDir string) int {
	f, err := root.Open(filepath.Join(gitDir, "index"))
	if err != nil {
		return 0 // nothing was checked out
	}
	defer f.Close()
	var header [12]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:4]) != "DIRC" {
		return 0
	}
	return int(binary.BigEndian.Uint32(header[8:]))
}
