package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/skills/ignore"
	"github.com/spritekit/lattice/spritekit/skill"
	"golang.org/x/sys/unix"
)

// Add stages, under index.lock, and says what is staged then.
func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	var added engine.Added
	err := r.changeIndex(ctx, spec.DryRun, func(s *scan) error {
		if err := s.stage(spec); err != nil {
			return err
		}
		var err error
		added, err = r.added(s.index, spec.Max)
		return err
	}, nil)
	return added, explain(err, "add_failed")
}

// changeIndex lets do change the index while its lock is held. Then objects become durable, the index is written beside
// the old one, then does what is to happen before it takes its place, and it takes it. With pretend nothing is kept.
func (r *repo) changeIndex(ctx context.Context, pretend bool, do func(*scan) error, then func() error) error {
	var lock *refs.Lock
	if !pretend {
		var err error
		if lock, err = r.lockIndex(); err != nil {
			return err
		}
		defer lock.Release()
	}
	x, written, err := r.readIndex()
	if err != nil {
		return err
	}
	s, err := r.newScan(ctx, x, written)
	if err != nil {
		return err
	}
	defer s.close()
	s.refresh = true
	if err := do(s); err != nil || pretend {
		return err
	}
	if err := r.objects.Flush(); err != nil {
		return err
	}
	if s.refreshed {
		if err := lock.Write(x.Encode()); err != nil {
			return err
		}
	}
	if then != nil {
		if err := then(); err != nil {
			return err
		}
	}
	if !s.refreshed {
		return nil
	}
	return lock.Commit()
}

// Staged lists what differs between HEAD and the index, sorted by path, of the repositories that this engine knows.
func Staged(at engine.Location, limit int) (engine.Added, error) {
	r, err := open(at)
	if err != nil {
		return engine.Added{}, err
	}
	defer r.Close()
	x, _, err := r.readIndex()
	if err != nil {
		return engine.Added{}, err
	}
	return r.added(x, limit)
}

// added lists what differs between HEAD and the index.
func (r *repo) added(x *index.Index, limit int) (engine.Added, error) {
	added := engine.Added{Staged: []engine.StagedEntry{}, Removed: []string{}}
	_, head, err := r.head()
	if err != nil {
		return added, err
	}
	tree, err := r.treeOf(head)
	if err != nil {
		return added, err
	}
	changes, err := r.staged(tree, x)
	if err != nil {
		return added, err
	}
	for _, c := range withConflicts(changes, x) {
		if added.Count++; limit > 0 && added.Count > limit {
			added.Truncated = true
			continue
		}
		added.Staged = append(added.Staged, engine.StagedEntry{Path: c.path, Index: c.letter})
		if c.letter == "D" {
			added.Removed = append(added.Removed, c.path)
		}
	}
	return added, nil
}

type lettered struct{ path, letter string }

// withConflicts adds the files in conflict, which git lists as U, in their place.
func withConflicts(changes []change, x *index.Index) []lettered {
	var list []lettered
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Stage == 0 || i > 0 && x.Entries[i-1].Path == e.Path {
			continue
		}
		for len(changes) > 0 && changes[0].path < e.Path {
			list = append(list, lettered{changes[0].path, changes[0].letter()})
			changes = changes[1:]
		}
		list = append(list, lettered{e.Path, "U"})
	}
	for _, c := range changes {
		list = append(list, lettered{c.path, c.letter()})
	}
	return list
}

// own are the runtime's files, which are never staged.
func own() *ignore.Tree {
	lines := strings.Join(engine.Excludes(), "\n") + "\n"
	return ignore.NewTree(ignore.New([]byte(lines)), func(string) []byte { return nil })
}

// stage brings the index to the state of the work tree, as far as spec reaches.
func (s *scan) stage(spec engine.AddSpec) error {
	s.paths, s.untracked = spec.Paths, engine.UntrackedAll
	if spec.Update {
		s.untracked = engine.UntrackedNo
	}
	s.ignored = spec.Force && len(spec.Paths) > 0
	if err := s.named(spec); err != nil {
		return err
	}
	if err := s.run(); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	mine := own()
	gone := map[string]bool{}
	var put []index.Entry
	for path, w := range s.found {
		if mine.Ignored(path, false) {
			continue
		}
		st, err := s.tree.lstat(path)
		if isAbsent(err) || err == nil && w.mode == 0 {
			gone[path] = true
			continue
		}
		if err != nil {
			return err
		}
		e, err := s.entry(path, st)
		if err != nil {
			return err
		}
		put = append(put, e)
	}
	for _, o := range s.others {
		e, skip, err := s.newcomer(o.Path, mine)
		if err != nil {
			return err
		}
		if !skip {
			put = append(put, e)
		}
	}
	if len(gone)+len(put) > 0 {
		s.refreshed = true
		s.index.RemoveAll(gone)
		s.index.PutAll(put)
	}
	return nil
}

// newcomer makes the entry of a file that is not tracked.
func (s *scan) newcomer(path string, mine *ignore.Tree) (index.Entry, bool, error) {
	if dir, isRepo := strings.CutSuffix(path, "/"); isRepo {
		if mine.Ignored(dir, true) {
			return index.Entry{}, true, nil
		}
		return index.Entry{}, true, engine.Refuse(engine.Native, "staging the repository "+dir+" inside of this one")
	}
	if mine.Ignored(path, false) {
		return index.Entry{}, true, nil
	}
	st, err := s.tree.lstat(path)
	if isAbsent(err) {
		return index.Entry{}, true, nil // it went meanwhile
	}
	if err != nil {
		return index.Entry{}, true, err
	}
	e, err := s.entry(path, st)
	return e, false, err
}

// named judges each path by itself: it must be there or tracked, lie behind no symlink, and not be ignored.
func (s *scan) named(spec engine.AddSpec) error {
	tree := ignore.NewTree(s.rules, s.tree.small)
	for _, p := range spec.Paths {
		if p == "." || s.index.Has(p) || s.index.HasBelow(p) {
			continue
		}
		st, err := s.tree.lstat(p)
		if isAbsent(err) {
			if s.behindLink(p) {
				return skill.Failed("add_failed", "%s lies behind a symlink", p).WithHint("stage the symlink itself, or the file where it really is")
			}
			return engine.NoSuchPath("%s matches no file of %s", p, s.repo.at.Name)
		}
		if err != nil {
			return err
		}
		if !spec.Force && tree.Ignored(p, st.Mode&unix.S_IFMT == unix.S_IFDIR) {
			return engine.Ignored("%s is ignored", p)
		}
	}
	return nil
}

// behindLink reports whether a folder on the way to a path is a symlink.
func (s *scan) behindLink(path string) bool {
	for dir := parentOf(path); dir != ""; dir = parentOf(dir) {
		if st, err := s.tree.lstat(dir); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return true
		}
	}
	return false
}

// inMemory is up to where a file is read whole, to see whether its blob is there already, in bytes.
const inMemory = 1 << 20

// entry stores a file and makes its entry.
func (s *scan) entry(path string, st *unix.Stat_t) (index.Entry, error) {
	previous := uint32(0)
	if old := s.index.Find(path); old != nil {
		previous = old.Mode
	}
	e := index.Entry{Path: path, Mode: modeOf(st, s.fileMode, previous), Stat: statOf(st)}
	isLink := e.Mode == objects.ModeSymlink
	if e.Mode == 0 || e.Mode == objects.ModeSubmodule {
		return e, skill.Failed("add_failed", "%s is no file that git can store", path)
	}
	if err := verifyPath(path, isLink); err != nil {
		return e, err
	}
	var err error
	switch {
	case isLink:
		var target []byte
		if target, err = s.tree.link(path); err == nil {
			e.ID, err = s.repo.objects.Write(objects.Blob, target)
		}
	default:
		e.ID, err = s.file(path, st)
	}
	if errors.Is(err, objects.ErrChanged) {
		failed := skill.Failed("add_failed", "%s changed while it was staged", path)
		failed.Retryable = true
		return e, failed.WithHint("stage it when nobody writes it any more")
	}
	return e, err
}

// file stores the content of a regular file. git would convert the content of some; those are refused.
func (s *scan) file(path string, st *unix.Stat_t) (id, error) {
	c := s.attrs.conversionOf(path)
	if c.refuse != "" {
		return id{}, unconverted(path, c.refuse)
	}
	f, err := s.tree.open(path)
	if err != nil {
		return id{}, err
	}
	defer f.Close()
	if st.Size > inMemory && c.trivial() {
		return s.repo.objects.WriteFrom(objects.Blob, st.Size, f)
	}
	if st.Size > objects.MaxInMemory {
		return id{}, fmt.Errorf("stage %s: %w", path, objects.ErrTooLarge)
	}
	var b bytes.Buffer
	b.Grow(int(st.Size))
	if _, err := io.Copy(&b, io.LimitReader(f, st.Size+1)); err != nil {
		return id{}, err
	}
	if int64(b.Len()) != st.Size {
		return id{}, objects.ErrChanged
	}
	if what := c.convertsIn(b.Bytes()); what != "" {
		return id{}, unconverted(path, what)
	}
	return s.repo.objects.Write(objects.Blob, b.Bytes())
}

// settle keeps git's promise to itself before the index gets a younger time: an entry whose file changed in the very
// moment in which the old index was written loses its size, so that the next look compares content.
func (s *scan) settle() error {
	for i := range s.index.Entries {
		e := &s.index.Entries[i]
		if e.Stage != 0 || e.Mode == objects.ModeSubmodule || !racy(e.Stat, s.written) || s.seen[i] && under(e.Path, s.paths) {
			continue
		}
		st, err := s.tree.lstat(e.Path)
		if err != nil || !sameStat(statOf(st), e.Stat) {
			continue // that shows by itself
		}
		have, err := s.tree.hash(e.Path, st)
		if err != nil || have != e.ID {
			e.Stat.Size = 0
		}
	}
	return nil
}
