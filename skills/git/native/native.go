// Package native is the engine for images without git: clone, status, add, commit, log, branch, rev_parse, merge_base and
// direct push, done here on go-git's plumbing. Everything else is refused as unsupported, and so is ssh: remotes are
// reached by HTTP and git's own port. Start with Engine and repo; the parts below know nothing of each other: objects (the
// store), index (the file that lists what is staged), refs (names, locks, logs) and wire (talking to a remote).
//
// What it does it does as git does, to the bit: ids, index, logs, locks. It never touches a file that is not tracked,
// follows no symlink of the work tree, runs no program, and refuses what it would do differently from git: filters and
// conversions of line ends that matter for a path, sparse, split and partial repositories, other formats than SHA-1 with
// files for refs.
package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/spritekit/skill"
)

// id names an object.
type id = objects.ID

// Engine is the native engine. Its zero value is ready.
type Engine struct{}

var (
	_ engine.Engine = Engine{}
	_ engine.Repo   = (*repo)(nil)
)

// Name is engine.Native.
func (Engine) Name() string { return engine.Native }

// repo is an open repository. What it is not made for, engine.Unsupported refuses.
type repo struct {
	engine.Unsupported
	at      engine.Location
	config  engine.Config
	objects *objects.Store
	refs    *refs.Store
	shallow map[id]bool // commits whose parents are not here
}

// Open opens a repository.
func (Engine) Open(ctx context.Context, at engine.Location) (engine.Repo, error) {
	r, err := open(at)
	if err != nil {
		return nil, explain(err, "open_failed")
	}
	return r, nil
}

func open(at engine.Location) (*repo, error) {
	r := &repo{Unsupported: engine.Unsupported{Engine: engine.Native}, at: at, config: at.Config}
	if r.config == nil {
		r.config = gitconfig.Config{}
	}
	if err := r.supported(); err != nil {
		return nil, err
	}
	if err := realFolders(at.CommonDir, "objects", "objects/pack", "objects/info", "refs", "logs", "info"); err != nil {
		return nil, err
	}
	var err error
	if r.objects, err = objects.Open(filepath.Join(at.CommonDir, "objects")); err != nil {
		return nil, err
	}
	if r.refs, err = refs.Open(at.GitDir, at.CommonDir); err != nil {
		return nil, err
	}
	if err := r.readShallow(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close gives files back and throws away what was written in vain.
func (r *repo) Close() error { return errors.Join(r.objects.Close(), r.refs.Close()) }

// realFolders refuses folders of .git that are links: what is written there would land elsewhere.
func realFolders(dir string, names ...string) error {
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return skill.Unsafe("unsafe_path", "%s in the .git folder is no folder", name).
				WithHint("something in the sprite put it there: clone the repository anew")
		}
	}
	return nil
}

// supported refuses repositories whose form this engine does not know.
func (r *repo) supported() error {
	for _, c := range []struct{ section, name, want, what string }{
		{"extensions", "objectformat", "sha1", "SHA-256 repositories"},
		{"extensions", "refstorage", "files", "reftable repositories"},
		{"extensions", "partialclone", "", "partial clones"},
		{"extensions", "compatobjectformat", "", "repositories of two object formats"},
	} {
		if v, ok := r.config.Value(c.section, "", c.name); ok && !strings.EqualFold(v, c.want) {
			return engine.Refuse(engine.Native, c.what)
		}
	}
	for _, c := range []struct{ section, name, what string }{
		{"core", "sparsecheckout", "sparse checkouts"},
		{"core", "splitindex", "split indexes"},
		{"core", "ignorecase", "work trees that ignore case"},
		{"core", "bare", "bare repositories"},
	} {
		if r.truth(c.section, "", c.name, false) {
			return engine.Refuse(engine.Native, c.what)
		}
	}
	if v, ok := r.config.Value("core", "", "worktree"); ok && v != "" {
		return engine.Refuse(engine.Native, "repositories whose work tree lies elsewhere (core.worktree)")
	}
	version, _ := r.config.Value("core", "", "repositoryformatversion")
	if n, err := strconv.Atoi(version); version != "" && (err != nil || n > 1) {
		return engine.Refuse(engine.Native, "repositories of format version "+version)
	}
	return nil
}

// truth is a switch of the configuration.
func (r *repo) truth(section, subsection, name string, fallback bool) bool {
	v, ok := r.config.Value(section, subsection, name)
	if !ok {
		return fallback
	}
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1", "":
		return true
	case "false", "no", "off", "0":
		return false
	}
	return fallback
}

// maxSmall is more than git's own small files have, in bytes.
const maxSmall = 1 << 20

func (r *repo) readShallow() error {
	data, err := refs.ReadFile(r.refs.Common(), "shallow", 64*maxSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read shallow: %w", err)
	}
	r.shallow = map[id]bool{}
	for line := range strings.Lines(string(data)) {
		if commit, ok := objects.ParseID(strings.TrimSpace(line)); ok {
			r.shallow[commit] = true
		}
	}
	return nil
}

// parents are the parents of a commit that are here.
func (r *repo) parents(commit id, c *objects.CommitData) []id {
	if r.shallow[commit] {
		return nil
	}
	return c.Parents
}

// maxIndex bounds an index, in bytes: about two million files.
const maxIndex = 256 << 20

// readIndex reads the index and when it was written, a new one if there is none.
func (r *repo) readIndex() (*index.Index, stamp, error) {
	f, err := r.refs.Own().Open("index")
	if errors.Is(err, fs.ErrNotExist) {
		return index.New(), stamp{}, nil
	}
	if err != nil {
		return nil, stamp{}, fmt.Errorf("read the index: %w", err)
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, stamp{}, fmt.Errorf("read the index: %w", err)
	}
	data, err := refs.ReadFile(r.refs.Own(), "index", maxIndex)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("read the index: %w", err)
	}
	x, err := index.Decode(data)
	if errors.Is(err, index.ErrUnsupported) {
		return nil, stamp{}, engine.Refuse(engine.Native, fmt.Sprintf("that index (%v)", err))
	}
	if err != nil {
		return nil, stamp{}, skill.Failed("corrupt", "%v", err).WithHint("restore a checkpoint, or remove .git/index and stage everything again")
	}
	return x, stampOf(info.ModTime()), nil
}

// lockIndex takes index.lock.
func (r *repo) lockIndex() (*refs.Lock, error) { return refs.Acquire(r.refs.Own(), "index") }

// explain turns what the parts below say into errors that callers act upon; code is for what none of them named.
func explain(err error, code string) error {
	var known *skill.Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, refs.ErrLocked):
		return skill.Busy("%v", err).WithHint("another git works in this repository; when none does, it was killed: remove that file and try again")
	case errors.Is(err, refs.ErrMoved):
		return skill.Busy("%v", err).WithHint("something else moved it at the same moment; look and try again")
	case errors.Is(err, errHostile), errors.Is(err, objects.ErrHostile):
		return skill.Unsafe("unsafe", "%v", err).WithHint("this repository is made to do harm, or broken; do not work with it")
	case errors.Is(err, objects.ErrTooLarge):
		return skill.Limit("too_large", "%v", err)
	case errors.Is(err, errors.ErrUnsupported):
		return engine.Refuse(engine.Native, "this repository: "+err.Error())
	}
	for _, failure := range []error{refs.ErrConflict, refs.ErrBroken, refs.ErrNotFound, objects.ErrNotFound, objects.ErrCorrupt, objects.ErrChanged} {
		if errors.Is(err, failure) {
			return skill.Failed(code, "%v", err)
		}
	}
	return err
}

// head is where HEAD is: the full name of its branch, "" when detached, and the commit, zero before the first one.
func (r *repo) head() (branch string, commit id, err error) {
	h, err := r.refs.Read(refs.Head)
	if err != nil {
		return "", id{}, err
	}
	if h.Target == "" {
		return "", h.ID, nil
	}
	last, err := r.refs.Resolve(refs.Head)
	return last.Name, last.ID, err
}

// short is a ref as people say it.
func short(ref string) string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok {
			return name
		}
	}
	return ref
}

// hexOf is an id in digits, "" for none.
func hexOf(i id) string {
	if i.IsZero() {
		return ""
	}
	return i.String()
}

func hexes(ids []id) []string {
	list := make([]string, 0, len(ids))
	for _, i := range ids {
		list = append(list, i.String())
	}
	return list
}

// under reports whether a path is one of paths or lies below one; no paths are all.
func under(path string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		return p == "." || path == p || strings.HasPrefix(path, p) && path[len(p)] == '/'
	})
}
