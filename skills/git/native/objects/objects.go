// Package objects is git's object store as the native engine needs it: loose objects and packs are read in bounded
// memory, new objects appear whole or not at all, and packs that arrive are indexed as they stream to disk. Start with
// Store. Formats and hashing are go-git's plumbing; what is here is where files lie, how they become durable, and what
// is refused.
//
// A Store belongs to one goroutine. Objects that were written are seen by it at once and by others after Flush.
package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// ID names an object by the SHA-1 of its type, size and content.
type ID = plumbing.Hash

// Type is the kind of an object.
type Type = plumbing.ObjectType

// The kinds of objects.
const (
	Commit = plumbing.CommitObject
	Tree   = plumbing.TreeObject
	Blob   = plumbing.BlobObject
	Tag    = plumbing.TagObject
)

// What a caller may want to tell apart.
var (
	ErrNotFound = errors.New("object not found")
	ErrCorrupt  = errors.New("corrupt object")
	ErrTooLarge = errors.New("object too large")
	ErrHostile  = errors.New("refused object")
)

// MaxInMemory is how large an object may be that is taken into memory whole, in bytes. Blobs that are stored as such
// stream and may be larger.
const MaxInMemory = 256 << 20

// ParseID reads a full id.
func ParseID(text string) (ID, bool) {
	if len(text) != 40 || !isHex(text) {
		return ID{}, false
	}
	return plumbing.NewHash(text), true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Store is the objects of one repository and of those that it borrows from.
type Store struct {
	dirs    []string // objects folders; the first is ours, the others are alternates
	packs   []*pack
	listed  bool
	pending map[ID]string // written, under a temporary name until Flush
	bases   *baseCache

	inflater inflater
}

// maxAlternates bounds how many stores a repository may borrow from.
const maxAlternates = 16

// Open opens the objects folder of a repository.
func Open(dir string) (*Store, error) {
	s := &Store{pending: map[ID]string{}, bases: newBaseCache()}
	if err := s.borrow(dir, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// borrow adds a folder and what its alternates file names.
func (s *Store) borrow(dir string, depth int) error {
	if slices.Contains(s.dirs, dir) {
		return nil
	}
	if len(s.dirs) > maxAlternates || depth > 5 {
		return fmt.Errorf("read alternates of %s: too many", s.dirs[0])
	}
	s.dirs = append(s.dirs, dir)
	data, err := readSmall(filepath.Join(dir, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read alternates: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			return fmt.Errorf("read alternates: %w: a quoted name", errors.ErrUnsupported)
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, line)
		}
		if info, err := os.Stat(line); err != nil || !info.IsDir() {
			continue // git only warns
		}
		if err := s.borrow(filepath.Clean(line), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readSmall reads one of git's own small files; anything but a regular file is refused.
func readSmall(name string) ([]byte, error) {
	const most = 1 << 20
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%w: %s is no small file", ErrHostile, name)
	}
	return os.ReadFile(name)
}

// Close closes the packs and throws away what was written and not flushed.
func (s *Store) Close() error {
	var err error
	for _, p := range s.packs {
		err = errors.Join(err, p.close())
	}
	s.packs, s.listed = nil, false
	return errors.Join(err, s.discard())
}

// Has reports whether an object is there.
func (s *Store) Has(id ID) (bool, error) {
	if _, ok := s.pending[id]; ok {
		return true, nil
	}
	if p, _, err := s.packed(id); p != nil || err != nil {
		return p != nil, err
	}
	for _, dir := range s.dirs {
		if _, err := os.Lstat(loosePath(dir, id)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// Object returns an object whole; one above MaxInMemory is ErrTooLarge.
func (s *Store) Object(id ID) (Type, []byte, error) {
	p, offset, err := s.packed(id)
	if err != nil {
		return 0, nil, err
	}
	if p != nil {
		typ, data, err := s.entry(p, offset)
		if err != nil {
			return 0, nil, fmt.Errorf("read object %s: %w", id, err)
		}
		return typ, data, nil
	}
	r, err := s.loose(id)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	data, err := r.all()
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return r.typ, data, nil
}

// Read returns the content of an object that must have this type.
func (s *Store) Read(id ID, want Type) ([]byte, error) {
	typ, data, err := s.Object(id)
	if err == nil && typ != want {
		err = fmt.Errorf("read object %s: %w: it is a %s, not a %s", id, ErrCorrupt, typ, want)
	}
	return data, err
}

// Peel follows tags to what they name.
func (s *Store) Peel(id ID) (ID, Type, error) {
	for range 32 {
		typ, err := s.TypeOf(id)
		if err != nil || typ != Tag {
			return id, typ, err
		}
		if id, err = s.TagTarget(id); err != nil {
			return ID{}, 0, err
		}
	}
	return ID{}, 0, fmt.Errorf("read tag %s: %w: tags of tags without end", id, ErrCorrupt)
}

// TagTarget is what a tag object names.
func (s *Store) TagTarget(id ID) (ID, error) {
	data, err := s.Read(id, Tag)
	if err != nil {
		return ID{}, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	text, ok := strings.CutPrefix(string(line), "object ")
	next, valid := ParseID(text)
	if !ok || !valid {
		return ID{}, fmt.Errorf("read tag %s: %w", id, ErrCorrupt)
	}
	return next, nil
}

// TypeOf returns the type of an object without its content.
func (s *Store) TypeOf(id ID) (Type, error) {
	p, offset, err := s.packed(id)
	if err != nil {
		return 0, err
	}
	if p != nil {
		return s.entryType(p, offset)
	}
	r, err := s.loose(id)
	if err != nil {
		return 0, err
	}
	return r.typ, r.Close()
}

// Abbreviated returns the ids that begin with some digits, at most two of them.
func (s *Store) Abbreviated(digits string) ([]ID, error) {
	if len(digits) < 4 || len(digits) > 40 || !isHex(digits) {
		return nil, nil
	}
	found := map[ID]bool{}
	if err := s.list(); err != nil {
		return nil, err
	}
	for _, p := range s.packs {
		ids, err := p.withPrefix(digits)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			found[id] = true
		}
	}
	for _, dir := range s.dirs {
		names, err := os.ReadDir(filepath.Join(dir, digits[:2]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range names {
			if id, ok := ParseID(digits[:2] + e.Name()); ok && strings.HasPrefix(id.String(), digits) {
				found[id] = true
			}
		}
	}
	var ids []ID
	for id := range found {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	return ids, nil
}
