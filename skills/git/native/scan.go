package native

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/skills/ignore"
	"github.com/spritekit/lattice/spritekit/fault"
)

// scan is one walk over the work tree, against the index. Every folder is opened relative to the one that holds it and
// no symlink is followed, so that a path of the tree is never anything but itself.
type scan struct {
	ctx      context.Context
	repo     *repo
	stage    *stage
	fileMode bool
	dirs     map[string]bool // folders that hold tracked files
	seen     map[string]bool // tracked files that are there

	// The request of the caller.
	paths     []string
	untracked string
	ignored   bool
	store     func(path string, ignored bool) bool // says which files to stage; nil stages none

	// The findings of the walk.
	changed map[string]side // tracked files that differ from the index; a zero side is gone
	others  []engine.StatusEntry
	put     map[string]indexEntry // files to stage
	touched bool                  // files whose times alone changed were noted in the index
}

func (r *repo) newScan(ctx context.Context, s *stage) *scan {
	w := &scan{
		ctx: ctx, repo: r, stage: s, fileMode: r.Config.Bool("core", "", "filemode", true), dirs: map[string]bool{".": true},
		seen: map[string]bool{}, changed: map[string]side{}, put: map[string]indexEntry{}, untracked: engine.UntrackedAll,
	}
	s.fresh = map[string]bool{}
	for _, e := range s.files {
		for dir := path.Dir(e.Name); !w.dirs[dir]; dir = path.Dir(dir) {
			w.dirs[dir] = true
		}
	}
	return w
}

var errChanged = errors.New("changed while it was read")

// folder is a folder of the work tree that is open.
type folder struct {
	*os.File
	path    string // "" for the top
	rules   *ignore.Rules
	attrs   attributes
	ignored bool
}

// walkTree walks the tree.
func (s *scan) walkTree() error {
	exclude, err := s.repo.ReadSmall("info/exclude")
	if err != nil {
		return err
	}
	info, err := s.repo.ReadSmall("info/attributes")
	if err != nil {
		return err
	}
	top, err := os.OpenFile(s.repo.at.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	dir := &folder{File: top, rules: ignore.New(exclude), attrs: attributes(nil).withFile("", info)}
	defer dir.Close()
	if s.others, err = s.scanFolder(dir); err != nil {
		return err
	}
	for i := range s.stage.files {
		if name := s.stage.files[i].Name; !s.seen[name] && isUnder(name, s.paths) {
			s.changed[name] = side{}
		}
	}
	return nil
}

// scanFolder looks at the files of a folder and returns those that are not tracked.
func (s *scan) scanFolder(dir *folder) ([]engine.StatusEntry, error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	dir.rules = dir.rules.With(dir.path, dir.readSmall(ignore.File))
	dir.attrs = dir.attrs.withFile(dir.path, dir.readSmall(attributesFile))
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	var others []engine.StatusEntry
	for _, e := range entries {
		name := path.Join(dir.path, e.Name())
		if e.Name() == ".git" {
			continue
		}
		if was := s.stage.findFile(name); was != nil && !e.IsDir() {
			if err := s.compareTracked(dir, e.Name(), was); err != nil {
				return nil, fmt.Errorf("look at %s: %w", name, err)
			}
			continue
		}
		var found []engine.StatusEntry
		if e.IsDir() {
			found, err = s.scanBelow(dir, e.Name(), name)
		} else if t := e.Type(); t.IsRegular() || t == fs.ModeSymlink {
			found, err = s.scanUntracked(dir, e.Name(), name)
		}
		if err != nil {
			return nil, err
		}
		others = append(others, found...)
	}
	return others, nil
}

// scanBelow looks into a folder. One without tracked files is listed as a whole, unless each file is asked for.
func (s *scan) scanBelow(dir *folder, base, name string) ([]engine.StatusEntry, error) {
	ignored := dir.ignored || dir.rules.Match(name, true)
	within := isUnder(name+"/", s.paths)
	if !within && !slices.ContainsFunc(s.paths, func(p string) bool { return strings.HasPrefix(p, name+"/") }) {
		return nil, nil
	}
	if !s.dirs[name] && (ignored && !s.ignored || s.untracked == engine.UntrackedNo) {
		return nil, nil
	}
	if !s.dirs[name] && s.isRepository(name) {
		if s.store != nil && s.store(name, ignored) {
			return nil, engine.Refuse("staging " + name + ", which is a repository of its own")
		}
		if s.stage.findFile(name) != nil {
			return nil, engine.Refuse("a repository in the place of the file " + name)
		}
		return s.listUntracked(name+"/", ignored), nil
	}
	child, err := dir.openAt(base, unix.O_DIRECTORY)
	if isAbsent(err) || errors.Is(err, unix.EACCES) {
		return nil, nil // it went, or git would warn and go on
	}
	if err != nil {
		return nil, err
	}
	defer child.Close()
	found, err := s.scanFolder(&folder{File: child, path: name, rules: dir.rules, attrs: dir.attrs, ignored: ignored})
	if s.dirs[name] || s.untracked != engine.UntrackedNormal || !within || len(found) == 0 || err != nil {
		return found, err
	}
	kept := slices.DeleteFunc(slices.Clone(found), func(e engine.StatusEntry) bool { return e.Index != "!" })
	switch {
	case len(kept) == len(found):
		return s.listUntracked(name+"/", true), nil
	case s.stage.findFile(name) != nil:
		return kept, nil // the file whose place the folder took is shown as deleted
	}
	return append(kept, s.listUntracked(name+"/", false)...), nil
}

// scanUntracked looks at a file that is not tracked.
func (s *scan) scanUntracked(dir *folder, base, name string) ([]engine.StatusEntry, error) {
	ignored := dir.ignored || dir.rules.Match(name, false)
	if !isUnder(name, s.paths) {
		return nil, nil
	}
	if s.store != nil && s.store(name, ignored) {
		st, err := dir.lstatAt(base)
		if isAbsent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return nil, s.stageFile(dir, base, name, st, 0)
	}
	return s.listUntracked(name, ignored), nil
}

// listUntracked lists an untracked file if the request includes it.
func (s *scan) listUntracked(name string, ignored bool) []engine.StatusEntry {
	letter := "?"
	if ignored {
		letter = "!"
	}
	if ignored && !s.ignored || !ignored && s.untracked == engine.UntrackedNo {
		return nil
	}
	return []engine.StatusEntry{{Path: name, Index: letter, Worktree: letter, Type: "file"}}
}

// isRepository reports whether a folder of the work tree is the top of a repository.
func (s *scan) isRepository(dir string) bool {
	git := filepath.Join(s.repo.at.Dir, filepath.FromSlash(dir), ".git")
	info, err := os.Lstat(git)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return info.Mode().IsRegular() // it names a repository elsewhere, or is close enough to it to be left alone
	}
	_, err = os.Lstat(filepath.Join(git, "HEAD"))
	return err == nil
}

// compareTracked compares a file with its entry in the index: by its times and size and, where they do not settle it, by content.
func (s *scan) compareTracked(dir *folder, base string, e *indexEntry) error {
	st, err := dir.lstatAt(base)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.seen[e.Name] = true
	if !isUnder(e.Name, s.paths) {
		return nil
	}
	mode := modeOf(st, s.fileMode, e.Mode)
	changed := mode != e.Mode
	if !changed {
		if hasStat(e, st) && !s.stage.isRacy(e) {
			return nil
		}
		if changed = e.Size != uint32(st.Size) && e.Size != 0; !changed {
			id, err := s.hashFile(dir, base, e.Name, st)
			if err != nil && !errors.Is(err, errChanged) {
				return err
			}
			changed = err != nil || id != e.Hash
		}
	}
	if !changed {
		setStat(e, st)
		s.stage.fresh[e.Name], s.touched = true, true
		return nil
	}
	s.changed[e.Name] = side{mode: cmp.Or(mode, filemode.Regular)}
	if s.store != nil && s.store(e.Name, false) {
		if mode == 0 { // a device or socket in its place
			s.changed[e.Name] = side{}
			return nil
		}
		return s.stageFile(dir, base, e.Name, st, e.Mode)
	}
	return nil
}

// hashFile returns the id of a file's content.
func (s *scan) hashFile(dir *folder, base, name string, st *unix.Stat_t) (plumbing.Hash, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := dir.readLink(base)
		return plumbing.ComputeHash(plumbing.BlobObject, target), err
	}
	if c := dir.attrs.joinAttributes(name); c.text || c.auto || c.always != "" {
		c.filter = ""
		if err := c.checkIn(name, func() ([]byte, error) { return dir.readSized(base, st.Size) }); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	f, err := dir.openAt(base, 0)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer f.Close()
	h := plumbing.NewHasher(plumbing.BlobObject, st.Size)
	n, err := io.Copy(h, io.LimitReader(f, st.Size+1))
	if err == nil && n != st.Size {
		err = errChanged
	}
	return h.Sum(), err
}

// stageFile stores a file's content and stages it.
func (s *scan) stageFile(dir *folder, base, name string, st *unix.Stat_t, was filemode.FileMode) error {
	e := indexEntry{Name: name, Mode: modeOf(st, s.fileMode, was)}
	if e.Mode == 0 {
		return fault.Failed("add_failed", "%s is not a file that git can store", name)
	}
	if problem := patch.Judge(name, e.Mode == modeSymlink); problem != "" {
		return fmt.Errorf("%w: the path %q %s", gitdir.ErrHostile, name, problem)
	}
	setStat(&e, st)
	var err error
	if e.Hash, err = s.storeContent(dir, base, &e, st.Size); errors.Is(err, errChanged) {
		failed := fault.Failed("add_failed", "%s changed while it was staged", name)
		failed.Retryable = true
		return failed.WithHint("stage it when no program writes it any more")
	}
	s.put[name], s.stage.fresh[name] = e, true
	return err
}

func (s *scan) storeContent(dir *folder, base string, e *indexEntry, size int64) (plumbing.Hash, error) {
	if e.Mode == modeSymlink {
		target, err := dir.readLink(base)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		return s.repo.Write(plumbing.BlobObject, target)
	}
	var data []byte
	read := func() (_ []byte, err error) {
		if data == nil {
			data, err = dir.readSized(base, size)
		}
		return data, err
	}
	if err := dir.attrs.joinAttributes(e.Name).checkIn(e.Name, read); err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := read(); err != nil {
		return plumbing.ZeroHash, err
	}
	return s.repo.Write(plumbing.BlobObject, data)
}

// updateIndex updates the index with the findings of the walk. It reports whether the index changed.
func (s *scan) updateIndex() bool {
	gone := map[string]bool{}
	for name, now := range s.changed {
		if _, put := s.put[name]; !put && now.mode == 0 && s.store(name, false) {
			gone[name] = true
		}
	}
	if len(gone)+len(s.put) == 0 {
		return s.touched
	}
	folders := map[string]bool{} // of the files to stage
	for name := range s.put {
		for dir := path.Dir(name); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	files := slices.DeleteFunc(s.stage.files, func(e indexEntry) bool {
		_, put := s.put[e.Name]
		return put || gone[e.Name] || folders[e.Name] || s.isReplaced(e.Name)
	})
	for _, e := range s.put {
		files = append(files, e)
	}
	slices.SortFunc(files, func(a, b indexEntry) int { return cmp.Compare(a.Name, b.Name) })
	s.stage.files = files
	return true
}

// isReplaced reports whether a file is staged in the place of a folder that held this one.
func (s *scan) isReplaced(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, put := s.put[dir]; put {
			return true
		}
	}
	return false
}

// isAbsent reports whether nothing is there, or something on the way is not a folder.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func (d *folder) lstatAt(base string) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstatat(int(d.Fd()), base, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path.Join(d.path, base), Err: err}
	}
	return st, nil
}

// openAt opens a regular file or, with O_DIRECTORY, a folder.
func (d *folder) openAt(base string, flags int) (*os.File, error) {
	name := path.Join(d.path, base)
	fd, err := unix.Openat(int(d.Fd()), base, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || flags&unix.O_DIRECTORY == 0 && !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name), f.Close())
	}
	return f, nil
}

// readSized returns the content of a file of a size.
func (d *folder) readSized(base string, size int64) ([]byte, error) {
	if size > gitdir.MaxUnpacked {
		return nil, engine.Refuse(fmt.Sprintf("%s of %d bytes", base, size))
	}
	f, err := d.openAt(base, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, size+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) != size {
		return nil, errChanged
	}
	return b.Bytes(), nil
}

// readSmall reads a file such as .gitignore; one that is missing, too large or not a regular file is empty.
func (d *folder) readSmall(base string) []byte {
	f, err := d.openAt(base, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, ignore.MaxFile+1))
	if err != nil || len(data) > ignore.MaxFile {
		return nil
	}
	return data
}

func (d *folder) readLink(base string) ([]byte, error) {
	buf := make([]byte, 4097)
	n, err := unix.Readlinkat(int(d.Fd()), base, buf)
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: path.Join(d.path, base), Err: err}
	}
	return buf[:n], nil
}
