// Package gitfiles reads refs and loose objects of a repository from its files, so that a verb needs fewer git processes.
// Start with [Files]. It answers simple cases only: HEAD, a loose ref, packed-refs, a loose object. In all others (reftable,
// chains of symbolic refs, unexpected content) ok is false and the caller must ask git.
package gitfiles

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// maxSmall bounds git's own small files, in bytes. They are read through the workspace, because any process in the sprite
// can replace them with a FIFO, a link or a huge file.
const maxSmall = 1 << 20

// Files reads the files of one repository.
type Files struct{ At engine.Location }

// Head reads HEAD: the full name of its branch, "" when detached, and its commit, "" before the first one.
func (f Files) Head() (ref, commit string, ok bool) {
	if !f.PlainRefs() {
		return "", "", false
	}
	text, err := f.readSmall(f.At.GitDir, "HEAD")
	if err != nil {
		return "", "", false
	}
	if engine.IsCommitID(text) {
		return "", text, true
	}
	ref, isRef := strings.CutPrefix(text, "ref: ")
	if ref = strings.TrimSpace(ref); !isRef || !strings.HasPrefix(ref, "refs/heads/") || !filepath.IsLocal(ref) {
		return "", "", false
	}
	commit, ok = f.Ref(ref)
	return ref, commit, ok
}

// Ref reads a ref that all work trees share; id is "" when the ref does not exist.
func (f Files) Ref(name string) (id string, ok bool) {
	text, err := f.readSmall(f.At.CommonDir, name)
	switch {
	case err == nil && engine.IsCommitID(text):
		return text, true
	case errors.Is(err, fs.ErrNotExist):
		return f.findPacked(name)
	}
	return "", false // a symbolic ref, a folder of that name, or a damaged ref
}

// findPacked looks up a ref in packed-refs.
func (f Files) findPacked(name string) (id string, ok bool) {
	ok = f.eachPacked(func(entry, at string) bool {
		if entry == name {
			id = at
		}
		return id == ""
	})
	return id, ok
}

// PlainRefs reports whether the repository stores its refs as files.
func (f Files) PlainRefs() bool {
	storage, _ := f.At.Config.Value("extensions", "", "refstorage")
	return storage == "" || strings.EqualFold(storage, "files")
}

// readSmall reads a small file without its final line breaks.
func (f Files) readSmall(dir, name string) (string, error) {
	data, err := f.At.Root.ReadFile(filepath.Join(dir, name), maxSmall)
	return strings.TrimRight(string(data), "\n"), err
}

// AllRefs reads the refs from packed-refs and from the files below refs, which take precedence. It leaves symbolic refs out.
func (f Files) AllRefs() (map[string]string, bool) {
	all := map[string]string{}
	if !f.PlainRefs() || !f.eachPacked(func(name, id string) bool { all[name] = id; return true }) {
		return nil, false
	}
	top := filepath.Join(f.At.CommonDir, "refs")
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(f.At.CommonDir, name)
		if err != nil {
			return err
		}
		ref := filepath.ToSlash(rel)
		text, err := f.readSmall(f.At.CommonDir, ref)
		switch {
		case err != nil:
			return err
		case engine.IsCommitID(text):
			all[ref] = text
		case strings.HasPrefix(text, "ref: "):
			delete(all, ref)
		case strings.HasSuffix(ref, ".lock"):
		default:
			return errors.New("not a plain ref")
		}
		return nil
	})
	return all, err == nil
}

// eachPacked calls each for the entries of packed-refs until it returns false. It reports whether they could be read.
func (f Files) eachPacked(each func(name, id string) bool) bool {
	file, err := f.At.Root.OpenFile(filepath.Join(f.At.CommonDir, "packed-refs"), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		id, name, ok := strings.Cut(lines.Text(), " ")
		if !ok || !engine.IsCommitID(id) {
			continue // the header, or the object that the previous tag peels to
		}
		if !each(name, id) {
			return true
		}
	}
	return lines.Err() == nil
}
