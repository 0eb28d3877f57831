package native

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/ignore"
	"golang.org/x/sys/unix"
)

// cutGitFile reads a .git that is a file: where the repository is.
func cutGitFile(data []byte) (string, bool) {
	return strings.CutPrefix(strings.TrimRight(string(data), "\n"), "gitdir: ")
}

// run walks the tree and settles which tracked files are gone.
func (s *scan) run() error {
	fd, err := unix.Dup(s.tree.fd)
	if err != nil {
		return err
	}
	err = s.folder(fd, "", s.rules.With("", s.tree.small(ignore.File)), false)
	unix.Close(fd)
	if err != nil {
		return err
	}
	for i := range s.index.Entries {
		e := &s.index.Entries[i]
		if s.seen[i] || !under(e.Path, s.paths) {
			continue
		}
		switch {
		case e.Stage != 0:
			s.found[e.Path] = work{"U", 0}
		case !e.AssumeValid && !e.SkipWorktree:
			s.found[e.Path] = work{"D", 0}
		}
	}
	return nil
}

// wanted reports whether a folder may hold what is asked for.
func (s *scan) wanted(dir string) bool {
	if under(dir, s.paths) {
		return true
	}
	for _, p := range s.paths {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// folder looks at what a folder of the tree holds, which has tracked files or is asked for; ignored says that it is in or
// below an ignored one.
func (s *scan) folder(fd int, dir string, rules *ignore.Rules, ignored bool) error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	entries, err := list(fd)
	if err != nil {
		return &fs.PathError{Op: "read", Path: dir, Err: err}
	}
	for _, e := range entries {
		if e.name == ".git" {
			continue
		}
		path := e.name
		if dir != "" {
			path = dir + "/" + e.name
		}
		if err := s.one(fd, e, path, rules, ignored); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) one(fd int, e dirEntry, path string, rules *ignore.Rules, ignored bool) error {
	if i, ok := s.files[path]; ok {
		tracked, err := s.tracked(fd, e, path, i)
		if tracked || err != nil {
			return err
		}
	}
	if !e.dir {
		if e.odd || !under(path, s.paths) {
			return nil
		}
		s.other(path, ignored || rules.Match(path, false))
		return nil
	}
	if !s.wanted(path) {
		return nil
	}
	if s.dirs[path] || !under(path, s.paths) {
		return s.below(fd, e.name, path, rules, ignored || rules.Match(path, true), func(fd int, rules *ignore.Rules, ignored bool) error {
			return s.folder(fd, path, rules, ignored)
		})
	}
	if s.untracked == engine.UntrackedNo && !s.ignored {
		return nil
	}
	return s.foreign(fd, e.name, path, rules, ignored || rules.Match(path, true))
}

// below enters a folder.
func (s *scan) below(fd int, name, path string, rules *ignore.Rules, ignored bool, do func(int, *ignore.Rules, bool) error) error {
	child, err := openFolder(fd, name)
	if isAbsent(err) {
		return nil // it went meanwhile
	}
	if errors.Is(err, unix.EACCES) {
		return nil // git warns and goes on
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(child)
	if !ignored {
		rules = rules.With(path, s.tree.small(path+"/"+ignore.File))
	}
	return do(child, rules, ignored)
}

// other notes a file that is not tracked. A folder in the place of a tracked file is no news by itself: git shows the file
// as deleted.
func (s *scan) other(path string, ignored bool) {
	_, was := s.files[strings.TrimSuffix(path, "/")]
	switch {
	case was:
	case ignored && s.ignored:
		s.others = append(s.others, engine.StatusEntry{Path: path, Index: "!", Worktree: "!", Type: "file"})
	case !ignored && s.untracked != engine.UntrackedNo:
		s.others = append(s.others, engine.StatusEntry{Path: path, Index: "?", Worktree: "?", Type: "file"})
	}
}

// foreign notes a folder without tracked files: as a whole where it is asked for so, else by its files.
func (s *scan) foreign(fd int, name, path string, rules *ignore.Rules, ignored bool) error {
	if ignored && !s.ignored {
		return nil
	}
	if s.isRepository(path) {
		s.other(path+"/", ignored)
		return nil
	}
	if s.untracked == engine.UntrackedAll {
		return s.below(fd, name, path, rules, ignored, func(fd int, rules *ignore.Rules, ignored bool) error {
			return s.folder(fd, path, rules, ignored)
		})
	}
	has, err := s.survey(fd, name, path, rules, ignored)
	switch {
	case err != nil:
		return err
	case ignored && has != (content{}), !ignored && !has.untracked && has.ignored:
		s.other(path+"/", true)
	case has.untracked:
		s.other(path+"/", false)
		if has.ignored && s.ignored {
			return s.ignoredBelow(fd, name, path, rules)
		}
	}
	return nil
}

// ignoredBelow notes what is ignored in a folder that was noted as untracked.
func (s *scan) ignoredBelow(fd int, name, path string, rules *ignore.Rules) error {
	untracked := s.untracked
	s.untracked = engine.UntrackedNo
	err := s.below(fd, name, path, rules, false, func(fd int, rules *ignore.Rules, ignored bool) error {
		return s.folder(fd, path, rules, ignored)
	})
	s.untracked = untracked
	return err
}

// content is what a folder without tracked files holds.
type content struct{ untracked, ignored bool }

// survey finds out what a folder holds, looking no further than it must.
func (s *scan) survey(fd int, name, path string, rules *ignore.Rules, ignored bool) (content, error) {
	var has content
	err := s.below(fd, name, path, rules, ignored, func(fd int, rules *ignore.Rules, ignored bool) error {
		entries, err := list(fd)
		if err != nil {
			return &fs.PathError{Op: "read", Path: path, Err: err}
		}
		for _, e := range entries {
			if e.name == ".git" || e.odd {
				continue
			}
			child := path + "/" + e.name
			out := ignored || rules.Match(child, e.dir)
			if e.dir && !s.isRepository(child) {
				if out && !s.ignored {
					continue
				}
				inner, err := s.survey(fd, e.name, child, rules, out)
				if err != nil {
					return err
				}
				has.untracked, has.ignored = has.untracked || inner.untracked, has.ignored || inner.ignored
			} else {
				has.untracked, has.ignored = has.untracked || !out, has.ignored || out
			}
			if has.untracked && (has.ignored || !s.ignored) || ignored && has.ignored {
				break
			}
		}
		return nil
	})
	return has, err
}

// tracked compares a file with its entry. It reports false where a folder stands in the file's place, which is looked
// into as any other.
func (s *scan) tracked(fd int, d dirEntry, path string, i int) (bool, error) {
	e := &s.index.Entries[i]
	if d.dir && e.Mode != objects.ModeSubmodule {
		if s.isRepository(path) {
			return true, engine.Refuse(engine.Native, "a repository in the place of the file "+path)
		}
		return false, nil
	}
	for j := i; j < len(s.index.Entries) && s.index.Entries[j].Path == path; j++ {
		s.seen[j] = true
	}
	if !under(path, s.paths) {
		return true, nil
	}
	st, err := lstatAt(fd, d.name)
	if isAbsent(err) {
		for j := i; j < len(s.index.Entries) && s.index.Entries[j].Path == path; j++ {
			s.seen[j] = false
		}
		return true, nil
	}
	if err != nil {
		return true, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if e.Stage != 0 {
		s.found[path] = work{"U", modeOf(st, s.fileMode, e.Mode)}
		return true, nil
	}
	if e.AssumeValid || e.SkipWorktree {
		return true, nil
	}
	w, err := s.differs(path, e, st)
	if err != nil {
		return true, err
	}
	if w.letter != "" {
		s.found[path] = w
	}
	return true, nil
}

// differs compares a file with its entry as git does: by what the index remembers of it and, where that does not settle
// it, by content.
func (s *scan) differs(path string, e *index.Entry, st *unix.Stat_t) (work, error) {
	mode := modeOf(st, s.fileMode, e.Mode)
	switch {
	case e.Mode == objects.ModeSubmodule:
		if mode != objects.ModeSubmodule {
			return work{"T", mode}, nil
		}
		if s.isRepository(path) {
			return work{}, engine.Refuse(engine.Native, "the submodule "+path+" that is checked out")
		}
		return work{}, nil
	case e.IntentToAdd:
		return work{"A", mode}, nil
	case mode == 0:
		return work{"M", objects.ModeFile}, nil
	case kind(mode) != kind(e.Mode):
		return work{"T", mode}, nil
	}
	now := statOf(st)
	if sameStat(now, e.Stat) && !racy(e.Stat, s.written) {
		if mode != e.Mode {
			return work{"M", mode}, nil
		}
		return work{}, nil
	}
	if e.Stat.Size != now.Size && e.Stat.Size != 0 {
		return work{"M", mode}, nil
	}
	same, err := s.sameContent(path, e, st)
	switch {
	case err != nil:
		return work{}, err
	case !same || mode != e.Mode:
		return work{"M", mode}, nil
	}
	if s.refresh && e.Stat != now {
		e.Stat, s.refreshed = now, true
	}
	return work{}, nil
}

// sameContent compares a file with the blob of its entry, and refuses where git would convert it first.
func (s *scan) sameContent(path string, e *index.Entry, st *unix.Stat_t) (bool, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		if c := s.attrs.conversionOf(path); !c.trivial() {
			data, err := s.tree.whole(path, st.Size)
			if err != nil {
				return false, err
			}
			if what := c.convertsIn(data); what != "" && !strings.HasPrefix(what, "the filter") {
				return false, unconverted(path, what)
			}
		}
	}
	have, err := s.tree.hash(path, st)
	if errors.Is(err, objects.ErrChanged) {
		return false, nil
	}
	return have == e.ID, err
}
