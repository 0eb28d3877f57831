// Package refs reads and changes the names of a repository: loose files, packed-refs and HEAD, with git's own locks and
// logs. Start with Store. Every change is a compare-and-swap under NAME.lock, written to the lock, made durable and
// renamed; refs of a linked work tree are found where git keeps them. Nothing outside the repository's folders is
// reached, whatever symlinks lie in them.
package refs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
)

// ID names an object.
type ID = plumbing.Hash

// What a caller may want to tell apart.
var (
	ErrNotFound = errors.New("ref not found")
	ErrMoved    = errors.New("ref moved")
	ErrConflict = errors.New("ref name conflict")
	ErrBroken   = errors.New("broken ref")
)

// Head is the name of the current commit.
const Head = "HEAD"

// Ref is a name and what it stands for: an object, or, for a symbolic ref, another name.
type Ref struct {
	Name   string
	ID     ID
	Target string // of a symbolic ref, else ""
}

// Store is the refs of one work tree.
type Store struct {
	own    *os.Root // .git of the work tree
	common *os.Root // where the refs of all work trees are
	packed []Ref
	loaded bool
}

// Open opens the refs that are kept in gitDir and commonDir, which are the same unless the work tree is linked.
func Open(gitDir, commonDir string) (*Store, error) {
	own, err := os.OpenRoot(gitDir)
	if err != nil {
		return nil, err
	}
	common, err := os.OpenRoot(commonDir)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return &Store{own: own, common: common}, nil
}

// Close closes the folders.
func (s *Store) Close() error { return errors.Join(s.own.Close(), s.common.Close()) }

// Own is the .git of the work tree, Common the one of the repository.
func (s *Store) Own() *os.Root { return s.own }

// Common is the folder that all work trees share.
func (s *Store) Common() *os.Root { return s.common }

// root is where a name is kept.
func (s *Store) root(name string) *os.Root {
	perTree := !strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "refs/bisect/") ||
		strings.HasPrefix(name, "refs/worktree/") || strings.HasPrefix(name, "refs/rewritten/")
	if perTree {
		return s.own
	}
	return s.common
}

// maxFile is more than any ref, and than packed-refs of a million refs.
const maxFile = 256 << 20

// ReadFile reads a regular file below a folder of git's, never following a link out of it.
func ReadFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%w: %s is no file of at most %d bytes", ErrBroken, name, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// Read returns a ref as it is written.
func (s *Store) Read(name string) (Ref, error) {
	if !ValidName(name) {
		return Ref{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	data, err := ReadFile(s.root(name), name, 64<<10)
	switch {
	case err == nil:
		return parse(name, string(data))
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, ErrBroken):
		return Ref{}, fmt.Errorf("read ref %s: %w", name, err)
	}
	packed, err := s.packedRefs()
	if err != nil {
		return Ref{}, err
	}
	if i, ok := slices.BinarySearchFunc(packed, name, func(r Ref, n string) int { return strings.Compare(r.Name, n) }); ok {
		return packed[i], nil
	}
	return Ref{}, fmt.Errorf("%w: %s", ErrNotFound, name)
}

func parse(name, text string) (Ref, error) {
	text = strings.TrimRight(text, " \t\r\n")
	if target, ok := strings.CutPrefix(text, "ref:"); ok {
		target = strings.TrimLeft(target, " \t")
		if !ValidName(target) {
			return Ref{}, fmt.Errorf("%w: %s names %q", ErrBroken, name, target)
		}
		return Ref{Name: name, Target: target}, nil
	}
	text, _, _ = strings.Cut(text, "\t") // FETCH_HEAD says more
	text, _, _ = strings.Cut(text, "\n")
	if len(text) != 40 || !plumbing.IsHash(text) {
		return Ref{}, fmt.Errorf("%w: %s holds no id", ErrBroken, name)
	}
	return Ref{Name: name, ID: plumbing.NewHash(text)}, nil
}

// Resolve follows symbolic refs: it returns the last name, with a zero ID if that is not there yet.
func (s *Store) Resolve(name string) (Ref, error) {
	first := name
	for range 6 {
		r, err := s.Read(name)
		if errors.Is(err, ErrNotFound) && name != first {
			return Ref{Name: name}, nil
		}
		if err != nil || r.Target == "" {
			return r, err
		}
		name = r.Target
	}
	return Ref{}, fmt.Errorf("%w: %s goes in circles", ErrBroken, first)
}

// packedRefs reads packed-refs, sorted by name.
func (s *Store) packedRefs() ([]Ref, error) {
	if s.loaded {
		return s.packed, nil
	}
	data, err := ReadFile(s.common, "packed-refs", maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read packed-refs: %w", err)
	}
	s.packed = nil
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(line) == 0 || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := strings.Cut(string(line), " ")
		if !ok || len(id) != 40 || !plumbing.IsHash(id) {
			return nil, fmt.Errorf("read packed-refs: %w: the line %q", ErrBroken, line)
		}
		if ValidName(name) {
			s.packed = append(s.packed, Ref{Name: name, ID: plumbing.NewHash(id)})
		}
	}
	slices.SortFunc(s.packed, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	s.loaded = true
	return s.packed, nil
}

// List returns the refs below a prefix such as refs/heads/, sorted by name. Symbolic ones come with the ID that they
// lead to; broken ones are left out, as git does with a warning.
func (s *Store) List(prefix string) ([]Ref, error) {
	all := map[string]Ref{}
	packed, err := s.packedRefs()
	if err != nil {
		return nil, err
	}
	for _, r := range packed {
		if strings.HasPrefix(r.Name, prefix) {
			all[r.Name] = r
		}
	}
	for _, root := range []*os.Root{s.common, s.own} {
		err := fs.WalkDir(root.FS(), "refs", func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				if err == nil && name != "refs" && !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") {
					return fs.SkipDir
				}
				return err
			}
			if !strings.HasPrefix(name, prefix) || !ValidName(name) || s.root(name) != root {
				return nil
			}
			if r, err := s.Resolve(name); err == nil && !r.ID.IsZero() {
				target := ""
				if r.Name != name {
					target = r.Name
				}
				all[name] = Ref{Name: name, ID: r.ID, Target: target}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list refs: %w", err)
		}
		if s.own.Name() == s.common.Name() {
			break
		}
	}
	list := make([]Ref, 0, len(all))
	for _, r := range all {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// ValidName judges a full name as git check-ref-format does; names without a slash are those in capitals, such as HEAD.
func ValidName(name string) bool {
	if name == "" || len(name) > 4096 {
		return false
	}
	if !strings.Contains(name, "/") {
		for i := range len(name) {
			if c := name[i]; (c < 'A' || c > 'Z') && c != '_' {
				return false
			}
		}
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c == 0x7f || strings.IndexByte(" ~^:?*[\\", c) >= 0 {
			return false
		}
	}
	return strings.HasPrefix(name, "refs/") && !strings.Contains(name, "..") && !strings.Contains(name, "@{") && name[len(name)-1] != '.' && path.Clean(name) == name
}
