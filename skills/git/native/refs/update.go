package refs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Change moves one ref.
type Change struct {
	Name string
	New  ID
	Old  *ID    // what it must be now, the zero ID for not there; nil does not ask
	By   string // "Name <email> seconds zone", for the log
	Why  string // for the log; "" writes none
}

// Update moves a ref. If HEAD stands for it, HEAD's log tells of it, too.
func (s *Store) Update(c Change) error {
	l, old, err := s.lock(c.Name, c.Old)
	if err != nil {
		return err
	}
	defer l.Release()
	if old.IsZero() {
		if err := s.free(c.Name); err != nil {
			return err
		}
	}
	if err := l.Replace([]byte(c.New.String() + "\n")); err != nil {
		return err
	}
	return s.logged(c, old)
}

// logged writes the logs of a change that was made.
func (s *Store) logged(c Change, old ID) error {
	if c.Why == "" {
		return nil
	}
	if err := s.Log(c.Name, old, c.New, c.By, c.Why); err != nil {
		return err
	}
	head, err := s.Read(Head)
	if c.Name == Head || err != nil || head.Target != c.Name {
		return nil
	}
	return s.Log(Head, old, c.New, c.By, c.Why)
}

// lock takes the lock of a ref and judges where it is now.
func (s *Store) lock(name string, want *ID) (*Lock, ID, error) {
	if !ValidName(name) {
		return nil, ID{}, fmt.Errorf("%w: %q is no name of a ref", ErrConflict, name)
	}
	root := s.root(name)
	for dir := path.Dir(name); dir != "refs" && dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
			return nil, ID{}, fmt.Errorf("%w: %s is in the way of %s", ErrConflict, dir, name)
		}
	}
	l, err := Acquire(root, name)
	if err != nil {
		return nil, ID{}, err
	}
	s.loaded = false // somebody may have packed it meanwhile
	now, err := s.Read(name)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	if err == nil && want != nil && now.ID != *want {
		err = fmt.Errorf("%w: %s is at %s, not at %s", ErrMoved, name, now.ID, *want)
	}
	if err != nil {
		return nil, ID{}, errors.Join(err, l.Release())
	}
	return l, now.ID, nil
}

// free makes sure that a new name is no folder of others and that no other is a folder of it. Empty folders that earlier
// refs left are removed.
func (s *Store) free(name string) error {
	packed, err := s.packedRefs()
	if err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "refs" && dir != "."; dir = path.Dir(dir) {
		if _, ok := slices.BinarySearchFunc(packed, dir, func(r Ref, n string) int { return strings.Compare(r.Name, n) }); ok {
			return fmt.Errorf("%w: %s is in the way of %s", ErrConflict, dir, name)
		}
	}
	below, err := s.List(name + "/")
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return fmt.Errorf("%w: %s is in the way of %s", ErrConflict, below[0].Name, name)
	}
	removeEmpty(s.root(name), name)
	removeEmpty(s.root(name), "logs/"+name)
	return nil
}

// removeEmpty removes a folder that holds nothing but folders; what cannot be removed shows when the name is used.
func removeEmpty(root *os.Root, name string) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(root, name+"/"+e.Name())
		}
	}
	_ = root.Remove(name)
}

// Delete removes a ref and its log: from packed-refs first, so that no moment shows an old value.
func (s *Store) Delete(name string, want *ID) error {
	l, _, err := s.lock(name, want)
	if err != nil {
		return err
	}
	defer l.Release()
	if err := s.unpack(name); err != nil {
		return err
	}
	root := s.root(name)
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	if err := root.Remove("logs/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("delete the log of %s: %w", name, err)
	}
	if err := l.Release(); err != nil {
		return err
	}
	for dir := path.Dir(name); strings.Count(dir, "/") > 1; dir = path.Dir(dir) {
		if root.Remove(dir) != nil { // in use, mostly
			break
		}
	}
	for dir := path.Dir("logs/" + name); strings.Count(dir, "/") > 2; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// unpack takes a name out of packed-refs.
func (s *Store) unpack(name string) error {
	packed, err := s.packedRefs()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(packed, func(r Ref) bool { return r.Name == name }) {
		return nil
	}
	l, err := Acquire(s.common, "packed-refs")
	if err != nil {
		return err
	}
	defer l.Release()
	data, err := ReadFile(s.common, "packed-refs", maxFile)
	if err != nil {
		return err
	}
	kept := make([]byte, 0, len(data))
	dropping := false
	for line := range strings.Lines(string(data)) {
		if line[0] != '^' {
			_, is, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			dropping = line[0] != '#' && is == name
		}
		if !dropping {
			kept = append(kept, line...)
		}
	}
	s.loaded = false
	return l.Replace(kept)
}

// SetSymbolic makes a name stand for another.
func (s *Store) SetSymbolic(name, target string) error {
	if !ValidName(name) || !ValidName(target) {
		return fmt.Errorf("%w: %q cannot stand for %q", ErrConflict, name, target)
	}
	l, err := Acquire(s.root(name), name)
	if err != nil {
		return err
	}
	return l.Replace([]byte("ref: " + target + "\n"))
}

// Log adds a line to the log of a ref that has one, or is to have one.
func (s *Store) Log(name string, old, new ID, by, why string) error {
	root, file := s.root(name), "logs/"+name
	flags := os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if name == Head || strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/remotes/") || strings.HasPrefix(name, "refs/notes/") {
		flags |= os.O_CREATE
		if err := root.MkdirAll(path.Dir(file), 0o777); err != nil {
			return fmt.Errorf("log %s: %w", name, err)
		}
	}
	f, err := root.OpenFile(file, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	why = strings.Join(strings.Fields(why), " ")
	_, err = f.WriteString(old.String() + " " + new.String() + " " + by + "\t" + why + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	return nil
}

// MoveLog gives the log of a ref to another one.
func (s *Store) MoveLog(from, to string) error {
	root := s.root(from)
	if err := root.MkdirAll(path.Dir("logs/"+to), 0o777); err != nil {
		return err
	}
	err := root.Rename("logs/"+from, "logs/"+to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// LogEntries returns the ids that the log of a ref tells of, the newest first: entry n is what NAME@{n} stands for.
func (s *Store) LogEntries(name string) ([]ID, error) {
	data, err := ReadFile(s.root(name), "logs/"+name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []ID
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 3 {
			continue
		}
		if len(ids) == 0 {
			if r, err := parse(name, fields[0]); err == nil {
				ids = append(ids, r.ID)
			}
		}
		if r, err := parse(name, fields[1]); err == nil {
			ids = append(ids, r.ID)
		}
	}
	slices.Reverse(ids)
	return ids, nil
}
