package native

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/skills/ignore"
)

// Status compares HEAD with the index and the index with the work tree. It writes nothing, so that what it found out
// about a file whose times changed is found out again by the next one; add and commit remember it.
func (r *repo) Status(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	if spec.Renames {
		return engine.Status{}, engine.Refuse(engine.Native, "the detection of renames")
	}
	s, err := r.status(ctx, spec)
	return s, explain(err, "status_failed")
}

func (r *repo) status(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	var out engine.Status
	branch, head, err := r.head()
	if err != nil {
		return out, err
	}
	out.Branch, out.Head, out.Detached = short(branch), hexOf(head), branch == ""
	if err := r.follow(ctx, &out, branch, head); err != nil {
		return out, err
	}
	x, written, err := r.readIndex()
	if err != nil {
		return out, err
	}
	tree, err := r.treeOf(head)
	if err != nil {
		return out, err
	}
	staged, err := r.staged(tree, x)
	if err != nil {
		return out, err
	}
	s, err := r.newScan(ctx, x, written)
	if err != nil {
		return out, err
	}
	defer s.close()
	s.paths, s.untracked, s.ignored = spec.Paths, spec.Untracked, spec.Ignored
	if err := s.run(); err != nil {
		return out, err
	}
	for _, e := range s.merge(staged) {
		out.Take(e, spec.Max)
	}
	for _, e := range s.others {
		if !engine.Hidden(r.at.Name, e.Path) {
			out.Take(e, spec.Max)
		}
	}
	out.Settle(r.operation())
	return out, nil
}

// treeOf is the tree of a commit, zero for no commit.
func (r *repo) treeOf(commit id) (id, error) {
	if commit.IsZero() {
		return id{}, nil
	}
	c, err := r.objects.Commit(commit)
	if err != nil {
		return id{}, err
	}
	return c.Tree, nil
}

// operation names what the repository is in the middle of, "" when nothing.
func (r *repo) operation() string {
	for _, o := range engine.Operations() {
		if _, err := r.refs.Own().Lstat(o[0]); err == nil {
			return o[1]
		}
	}
	return ""
}

// everywhere are the patterns that hold for the whole tree.
func (r *repo) everywhere(extra ...string) (*ignore.Rules, error) {
	data, err := refs.ReadFile(r.refs.Common(), filepath.Join("info", "exclude"), ignore.MaxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, refs.ErrBroken) {
		return nil, err
	}
	rules := ignore.New(data)
	for _, line := range extra {
		rules = rules.With("", []byte(line+"\n"))
	}
	return rules, nil
}

// scan is one walk over the work tree, against the index.
type scan struct {
	ctx      context.Context
	repo     *repo
	index    *index.Index
	written  stamp // when the index was
	tree     *worktree
	attrs    *attributes
	rules    *ignore.Rules
	fileMode bool

	paths     []string
	untracked string
	ignored   bool
	refresh   bool // remember in the index what files look like now that turned out unchanged
	refreshed bool // something was remembered

	files  map[string]int  // entry of the index by path; of a conflict the first
	dirs   map[string]bool // folders that hold tracked files
	found  map[string]work // tracked files that differ
	seen   []bool          // entries whose file was met
	others []engine.StatusEntry
}

// work is how a tracked file differs from the index.
type work struct {
	letter string
	mode   uint32
}

func (r *repo) newScan(ctx context.Context, x *index.Index, written stamp) (*scan, error) {
	tree, err := openWorktree(r.at.Dir)
	if err != nil {
		return nil, err
	}
	s := &scan{
		ctx: ctx, repo: r, index: x, written: written, tree: tree, fileMode: r.truth("core", "", "filemode", true),
		files: make(map[string]int, len(x.Entries)), dirs: map[string]bool{"": true}, found: map[string]work{}, seen: make([]bool, len(x.Entries)),
	}
	if s.rules, err = r.everywhere(); err != nil {
		tree.close()
		return nil, err
	}
	s.attrs = r.attributes(tree.small)
	for i := range x.Entries {
		path := x.Entries[i].Path
		if _, ok := s.files[path]; !ok {
			s.files[path] = i
		}
		for dir := parentOf(path); dir != "" && !s.dirs[dir]; dir = parentOf(dir) {
			s.dirs[dir] = true
		}
	}
	return s, nil
}

func (s *scan) close() { s.tree.close() }

// attributes answers by the files that read returns.
func (r *repo) attributes(read func(string) []byte) *attributes {
	info, err := refs.ReadFile(r.refs.Common(), filepath.Join("info", "attributes"), ignore.MaxFile)
	if err != nil {
		info = nil // not there, as a rule
	}
	return newAttributes(r.config, info, read)
}

func parentOf(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}

// merge joins what differs on either side, in the order of the index and HEAD.
func (s *scan) merge(staged []change) []engine.StatusEntry {
	var entries []engine.StatusEntry
	done := map[string]bool{}
	for _, c := range staged {
		if !under(c.path, s.paths) {
			continue
		}
		done[c.path] = true
		w, changed := s.found[c.path]
		e := engine.StatusEntry{Path: c.path, Index: c.letter(), Worktree: ".", Type: "file"}
		mode := c.to.mode
		if changed {
			e.Worktree, mode = w.letter, w.mode
		}
		if i, ok := s.files[c.path]; ok && s.index.Entries[i].IntentToAdd && !c.to.there() {
			e.Index = "D" // HEAD has it, the index only the intent
		}
		e.Type = typeOf(mode, c.from.mode, c.to.mode)
		entries = append(entries, e)
	}
	for path, w := range s.found {
		if done[path] {
			continue
		}
		i := s.files[path]
		now := s.index.Entries[i].Mode
		e := engine.StatusEntry{Path: path, Index: ".", Worktree: w.letter, Type: typeOf(w.mode, now)}
		if s.index.Entries[i].Stage != 0 {
			e.Conflict = s.conflict(i)
			e.Index, e.Worktree = e.Conflict[:1], e.Conflict[1:]
		}
		entries = append(entries, e)
	}
	return entries
}

// typeOf is the type of a file whose mode in the work tree comes first.
func typeOf(mode uint32, others ...uint32) string {
	for _, m := range append(others, mode) {
		if m == objects.ModeSubmodule {
			return "submodule"
		}
	}
	if mode == objects.ModeSymlink {
		return "symlink"
	}
	return "file"
}

// conflict is the code of a file whose first stage is entry i.
func (s *scan) conflict(i int) string {
	stages := 0
	for path := s.index.Entries[i].Path; i < len(s.index.Entries) && s.index.Entries[i].Path == path; i++ {
		stages |= 1 << s.index.Entries[i].Stage
	}
	return [8]string{"", "DD", "AU", "UD", "UA", "DU", "AA", "UU"}[stages>>1&7]
}

// follow fills in what the branch follows and how far they are apart.
func (r *repo) follow(ctx context.Context, out *engine.Status, branch string, head id) error {
	upstream := r.upstream(branch)
	if upstream == "" {
		return nil
	}
	out.Upstream = short(upstream)
	there, err := r.refs.Resolve(upstream)
	if errors.Is(err, refs.ErrNotFound) || err == nil && (there.ID.IsZero() || head.IsZero()) {
		return nil
	}
	if err != nil {
		return err
	}
	commit, _, err := r.objects.Peel(there.ID)
	if err != nil {
		return err
	}
	out.Ahead, out.Behind, err = r.apart(ctx, head, commit)
	return err
}

// isRepository reports whether a folder of the work tree is the top of a repository of its own.
func (s *scan) isRepository(dir string) bool {
	git := filepath.Join(s.repo.at.Dir, filepath.FromSlash(dir), ".git")
	info, err := os.Lstat(git)
	if err != nil {
		return false
	}
	if info.Mode().IsRegular() {
		data := s.tree.small(dir + "/.git")
		target, ok := cutGitFile(data)
		if !ok {
			return false
		}
		if git = target; !filepath.IsAbs(git) {
			git = filepath.Join(s.repo.at.Dir, filepath.FromSlash(dir), git)
		}
	}
	_, err = os.Lstat(filepath.Join(git, "HEAD"))
	return err == nil
}
