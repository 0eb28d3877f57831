package native

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/ignore"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Add stages files, under index.lock, and lists all staged files.
func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	added := engine.Added{Staged: []engine.StagedEntry{}, Removed: []string{}}
	err := r.changeIndex(ctx, spec.DryRun, func(s *scan) (bool, error) {
		changed, err := s.stageFiles(spec)
		if err != nil {
			return false, err
		}
		staged, err := r.listStaged(s.stage)
		for _, c := range staged {
			if added.Count++; spec.Max > 0 && added.Count > spec.Max {
				added.Truncated = true
				continue
			}
			added.Staged = append(added.Staged, engine.StagedEntry{Path: c.path, Index: c.statusLetter()})
			if c.to.mode == 0 {
				added.Removed = append(added.Removed, c.path)
			}
		}
		return changed, err
	}, nil)
	return added, explainError(err, "add_failed")
}

// changeIndex lets change work on the index while its lock is held, and writes the index if it reports true. Objects are
// durable before the new index lies next to the old one; then runs finish, and the new index takes its place. A crash
// between any two steps leaves a repository that is whole. A dry run keeps nothing but objects.
func (r *repo) changeIndex(ctx context.Context, dryRun bool, change func(*scan) (bool, error), finish func() error) error {
	var lock *gitdir.Lock
	if !dryRun {
		var err error
		if lock, err = r.lockIndex(); err != nil {
			return err
		}
		defer lock.Release()
	}
	x, err := r.readIndex()
	if err != nil {
		return err
	}
	changed, err := change(r.newScan(ctx, x))
	if err != nil || dryRun {
		return err
	}
	if err := r.Sync(); err != nil {
		return err
	}
	if changed {
		data, err := x.encodeIndex()
		if err != nil {
			return err
		}
		if _, err := lock.File.Write(data); err != nil {
			return err
		}
		if err := lock.File.Sync(); err != nil {
			return err
		}
	}
	if finish != nil {
		if err := finish(); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return lock.Commit()
}

// stageFiles brings the index to the state of the work tree, as far as spec reaches. It reports whether that changed the
// index.
func (s *scan) stageFiles(spec engine.AddSpec) (bool, error) {
	excluded := ignore.NewTree(ignore.New([]byte(strings.Join(engine.Excludes(), "\n")+"\n")), func(string) []byte { return nil })
	spec.Paths = cleanPaths(spec.Paths)
	found, refused := map[string]bool{}, map[string]bool{} // paths of spec that match files to stage, and ignored ones
	s.paths = spec.Paths
	s.untracked = engine.UntrackedAll
	if spec.Update {
		s.untracked = engine.UntrackedNo
	}
	s.ignored = len(spec.Paths) > 0 // so that the walk enters ignored folders
	s.store = func(path string, ignored bool) bool {
		if excluded.Ignored(path, false) {
			return false
		}
		put := s.stage.findFile(path) != nil || !spec.Update && (!ignored || spec.Force)
		for _, p := range spec.Paths {
			within := isUnder(path, []string{p})
			found[p], refused[p] = found[p] || within && put, refused[p] || within && ignored
		}
		return put
	}
	for _, p := range spec.Paths {
		found[p] = p == "." || s.dirs[strings.TrimSuffix(p, "/")] || s.stage.findFile(p) != nil
	}
	if err := s.walkTree(); err != nil {
		return false, err
	}
	for _, p := range spec.Paths {
		switch {
		case found[p]:
		case refused[p]:
			return false, engine.Ignored("%s is ignored", p)
		default:
			return false, engine.NoSuchPath("%s matches no file in %s", p, s.repo.at.Name)
		}
	}
	return s.updateIndex(), nil
}

// Commit commits the staged changes.
func (r *repo) Commit(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	done, err := r.commitStaged(ctx, spec)
	return done, explainError(err, "commit_failed")
}

func (r *repo) commitStaged(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	branch, head, err := r.Head()
	if err != nil {
		return engine.Committed{}, err
	}
	if spec.Key != "" && !head.IsZero() {
		c, err := r.ReadCommit(head)
		if err != nil {
			return engine.Committed{}, err
		}
		if engine.HasKey(c.Message, spec.Key) {
			done, err := r.describeCommit(ctx, head, branch)
			done.Already = true
			return done, err
		}
	}
	if spec.ExpectHead != "" && gitdir.Hex(head) != spec.ExpectHead {
		return engine.Committed{}, engine.HeadMoved(gitdir.Hex(head), spec.ExpectHead)
	}
	if op := r.findOperation(); op != "" && op != "bisecting" {
		return engine.Committed{}, engine.Refuse("committing while " + op)
	}
	var move gitdir.RefChange
	err = r.changeIndex(ctx, false, func(s *scan) (changed bool, err error) {
		switch {
		case spec.All:
			changed, err = s.stageFiles(engine.AddSpec{All: true})
		case len(spec.Paths) > 0:
			return false, engine.Refuse("committing some paths alone")
		}
		if err == nil {
			move, err = r.makeCommit(s.stage, spec, branch, head)
		}
		return changed, err
	}, func() error { return r.UpdateRef(move) })
	if err != nil {
		return engine.Committed{}, err
	}
	return r.describeCommit(ctx, move.To, branch)
}

// makeCommit stores the commit of an index and returns how the branch moves to it.
func (r *repo) makeCommit(s *stage, spec engine.CommitSpec, branch string, head plumbing.Hash) (gitdir.RefChange, error) {
	tree, err := r.WriteTree(s.files)
	if err != nil {
		return gitdir.RefChange{}, err
	}
	by := gitdir.Identify(spec.Committer)
	author, parents, reason := by, []plumbing.Hash{head}, "commit"
	if spec.Author != nil {
		author = gitdir.Identify(*spec.Author)
	}
	if head.IsZero() {
		parents, reason = nil, "commit (initial)"
	}
	if spec.Amend {
		if head.IsZero() {
			return gitdir.RefChange{}, fault.Failed("commit_failed", "there is no commit yet that could be amended")
		}
		old, err := r.ReadCommit(head)
		if err != nil {
			return gitdir.RefChange{}, err
		}
		if len(old.ExtraHeaders) > 0 || old.MergeTag != "" || string(old.Encoding) != "UTF-8" || r.Shallow[head] {
			return gitdir.RefChange{}, engine.Refuse("amending a commit with headers of its own, or one whose parents were not fetched")
		}
		if parents, reason = old.ParentHashes, "commit (amend)"; spec.Author == nil {
			author = gitdir.Identify(engine.Signature{Name: old.Author.Name, Email: old.Author.Email, When: old.Author.When})
		}
	} else if !spec.AllowEmpty {
		before, err := r.TreeOf(head)
		if err != nil {
			return gitdir.RefChange{}, err
		}
		if before == tree || head.IsZero() && len(s.files) == 0 {
			return gitdir.RefChange{}, engine.NothingToCommit(r.at.Name)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", author, by, spec.Message)
	id, err := r.Write(plumbing.CommitObject, b.Bytes())
	subject, _, _ := strings.Cut(spec.Message, "\n")
	if branch == "" {
		branch = string(plumbing.HEAD)
	}
	return gitdir.RefChange{Name: branch, To: id, Old: &head, By: by, Reason: reason + ": " + subject}, err
}

// describeCommit describes the commit at HEAD.
func (r *repo) describeCommit(ctx context.Context, id plumbing.Hash, branch string) (engine.Committed, error) {
	c, err := r.ReadCommit(id)
	if err != nil {
		return engine.Committed{}, err
	}
	stats, err := r.countCommit(ctx, c)
	return engine.Committed{
		Commit: id.String(), Tree: c.TreeHash.String(), Parents: gitdir.Hexes(c.ParentHashes), Branch: shortenRef(branch),
		FilesChanged: stats.Files, Additions: stats.Additions, Deletions: stats.Deletions, Empty: stats.Files == 0,
	}, err
}
