package native

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Commit commits what is staged. Objects are durable first, then the new index lies beside the old one, then the branch
// moves, then the index takes its place: as with git, a crash between any two leaves a repository that is whole.
func (r *repo) Commit(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	done, err := r.commit(ctx, spec)
	return done, explain(err, "commit_failed")
}

func (r *repo) commit(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	_, head, err := r.head()
	if err != nil {
		return engine.Committed{}, err
	}
	if already, err := r.carries(head, spec.Key); err != nil || already {
		if err != nil {
			return engine.Committed{}, err
		}
		done, err := r.committed(head)
		done.Already = true
		return done, err
	}
	if spec.ExpectHead != "" && hexOf(head) != spec.ExpectHead {
		return engine.Committed{}, engine.HeadMoved(hexOf(head), spec.ExpectHead)
	}
	var made made
	err = r.changeIndex(ctx, false, func(s *scan) error {
		made, err = r.commitIndex(s, spec, head)
		return err
	}, func() error { return r.conclude(head, made) })
	if err != nil {
		return engine.Committed{}, err
	}
	return r.committed(made.id)
}

// made is a commit that no ref points to yet.
type made struct {
	id      id
	by, why string // for the log
}

// conclude moves the branch, and ends a merge.
func (r *repo) conclude(head id, m made) error {
	if err := r.move(head, m.id, m.by, m.why); err != nil {
		return err
	}
	for _, name := range []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "SQUASH_MSG"} {
		if err := r.refs.Own().Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (r *repo) carries(head id, key string) (bool, error) {
	if head.IsZero() || key == "" {
		return false, nil
	}
	c, err := r.objects.Commit(head)
	if err != nil {
		return false, err
	}
	return engine.HasKey(c.Message, key), nil
}

// commitIndex makes the commit.
func (r *repo) commitIndex(s *scan, spec engine.CommitSpec, head id) (made, error) {
	x := s.index
	if s.index.Unmerged() {
		files := conflicts(x)
		return made{}, engine.Conflict(files, "conflicts are left in %d files of %s", len(files), r.at.Name)
	}
	if err := r.plainCommit(spec); err != nil {
		return made{}, err
	}
	switch {
	case spec.All:
		if err := s.stage(engine.AddSpec{All: true}); err != nil {
			return made{}, err
		}
	case len(spec.Paths) > 0:
		if err := r.stageTracked(s, spec.Paths, head); err != nil {
			return made{}, err
		}
	default:
		if err := s.settle(); err != nil {
			return made{}, err
		}
	}
	c, why, err := r.draft(spec, head)
	if err != nil {
		return made{}, err
	}
	if c.Tree, err = r.treeToCommit(x, spec, head); err != nil {
		return made{}, err
	}
	s.refreshed = true // it remembers trees now
	merge := strings.HasPrefix(why, "commit (merge)")
	if !spec.AllowEmpty && !spec.Amend && !merge {
		if empty, err := r.nothingNew(x, c.Tree, head); err != nil || empty {
			return made{}, errors.Join(err, nothing(empty, r.at.Name))
		}
	}
	commit, err := r.objects.Write(objects.Commit, c.Encode())
	if err != nil {
		return made{}, err
	}
	subject, _, _ := strings.Cut(c.Message, "\n")
	return made{commit, c.Committer.String(), why + ": " + subject}, nil
}

func nothing(empty bool, name string) error {
	if !empty {
		return nil
	}
	return engine.NothingToCommit(name)
}

// nothingNew reports whether a commit would change nothing.
func (r *repo) nothingNew(x *index.Index, tree, head id) (bool, error) {
	if head.IsZero() {
		return !slices.ContainsFunc(x.Entries, func(e index.Entry) bool { return !e.IntentToAdd }), nil
	}
	before, err := r.treeOf(head)
	return before == tree, err
}

// conflicts lists the files in conflict.
func conflicts(x *index.Index) []string {
	var files []string
	for i := range x.Entries {
		if x.Entries[i].Stage != 0 {
			files = append(files, x.Entries[i].Path)
		}
	}
	return slices.Compact(files)
}

// plainCommit refuses to conclude what takes more than a commit.
func (r *repo) plainCommit(spec engine.CommitSpec) error {
	switch operation := r.operation(); operation {
	case "", "bisecting":
	case "merging":
		if spec.Amend {
			return skill.Failed("commit_failed", "a merge is going on: its commit cannot amend another")
		}
		if len(spec.Paths) > 0 {
			return skill.Failed("commit_failed", "a merge is going on: it is committed as a whole")
		}
	default:
		return engine.Refuse(engine.Native, "committing while "+operation)
	}
	return nil
}

// draft is the commit without its tree, and what the log will say.
func (r *repo) draft(spec engine.CommitSpec, head id) (*objects.CommitData, string, error) {
	c := &objects.CommitData{Message: spec.Message, Committer: signature(spec.Committer)}
	if c.Author = c.Committer; spec.Author != nil {
		c.Author = signature(*spec.Author)
	}
	if spec.Amend {
		if head.IsZero() {
			return nil, "", skill.Failed("commit_failed", "there is no commit yet that could be amended")
		}
		old, err := r.objects.Commit(head)
		if err != nil {
			return nil, "", err
		}
		c.Parents, c.Extra = r.parents(head, old), old.Extra
		if spec.Author == nil {
			c.Author = old.Author
		}
		return c, "commit (amend)", nil
	}
	if head.IsZero() {
		return c, "commit (initial)", nil
	}
	c.Parents = []id{head}
	data, err := refs.ReadFile(r.refs.Own(), "MERGE_HEAD", maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return c, "commit", nil
	}
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(string(data)) {
		merged, ok := objects.ParseID(strings.TrimSpace(line))
		if !ok {
			return nil, "", skill.Failed("commit_failed", "MERGE_HEAD names no commit")
		}
		if typ, err := r.objects.TypeOf(merged); err != nil || typ != objects.Commit {
			return nil, "", errors.Join(err, engine.Refuse(engine.Native, "concluding the merge of a tag"))
		}
		if !slices.Contains(c.Parents, merged) {
			c.Parents = append(c.Parents, merged)
		}
	}
	return c, "commit (merge)", nil
}

// signature is who and when, without the characters that git strips from names.
func signature(s engine.Signature) objects.Person {
	return objects.Person{Name: withoutCrud(s.Name), Email: withoutCrud(s.Email), When: s.When}
}

// withoutCrud takes off what git takes for dirt around a name, and what would break the line.
func withoutCrud(s string) string {
	trimmed := strings.TrimFunc(s, func(c rune) bool { return c <= ' ' || strings.ContainsRune(".,:;<>\"\\'", c) })
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '<' || c == '>' {
			return -1
		}
		return c
	}, trimmed)
}

// stageTracked stages files that git knows, each path naming at least one.
func (r *repo) stageTracked(s *scan, paths []string, head id) error {
	tree, err := r.treeOf(head)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if p == "." || s.index.Has(p) || s.index.HasBelow(p) {
			continue
		}
		there, err := r.entryAt(tree, p)
		if err != nil {
			return err
		}
		if !there.there() {
			return engine.NoSuchPath("%s matches no file that is tracked in %s", p, r.at.Name)
		}
	}
	return s.stage(engine.AddSpec{Paths: paths, Update: true})
}

// treeToCommit writes the tree: of the index or, with paths, of HEAD with these files from the index.
func (r *repo) treeToCommit(x *index.Index, spec engine.CommitSpec, head id) (id, error) {
	tree, err := r.writeTree(x)
	if err != nil || len(spec.Paths) == 0 {
		return tree, err
	}
	before, err := r.treeOf(head)
	if err != nil {
		return id{}, err
	}
	partial := index.New()
	err = r.leaves(before, "", nil, func(path string, s side) error {
		if !under(path, spec.Paths) {
			partial.Entries = append(partial.Entries, index.Entry{Path: path, Mode: s.mode, ID: s.id})
		}
		return nil
	})
	if err != nil {
		return id{}, err
	}
	for _, e := range x.Entries {
		if under(e.Path, spec.Paths) {
			partial.Entries = append(partial.Entries, e)
		}
	}
	slices.SortFunc(partial.Entries, func(a, b index.Entry) int { return cmp.Compare(a.Path, b.Path) })
	return r.writeTree(partial)
}

// move makes HEAD's branch, or HEAD itself, point to a commit, if it is still where it was.
func (r *repo) move(from, to id, by, why string) error {
	branch, _, err := r.head()
	if err != nil {
		return err
	}
	return r.refs.Update(refs.Change{Name: cmp.Or(branch, refs.Head), New: to, Old: &from, By: by, Why: why})
}

// committed describes a commit that HEAD is at.
func (r *repo) committed(commit id) (engine.Committed, error) {
	done := engine.Committed{Commit: commit.String(), Parents: []string{}}
	branch, _, err := r.head()
	if err != nil {
		return done, err
	}
	done.Branch = short(branch)
	c, err := r.objects.Commit(commit)
	if err != nil {
		return done, err
	}
	parents := r.parents(commit, c)
	done.Tree, done.Parents = c.Tree.String(), hexes(parents)
	first := id{}
	if len(parents) > 0 {
		if first, err = r.treeOf(parents[0]); err != nil {
			return done, err
		}
	}
	changes, err := r.between(first, c.Tree)
	if err != nil {
		return done, err
	}
	stats, err := r.count(changes, r.attributes(r.attributesOnDisk))
	done.FilesChanged, done.Additions, done.Deletions = stats.Files, stats.Additions, stats.Deletions
	done.Empty = done.FilesChanged == 0
	return done, err
}
