// Package index reads and writes git's index, the list of what the next commit will hold. Start with Decode, Index and
// Encode. Versions 2, 3 and 4 are read, and written as they were read; flags that it does not use itself are carried
// along. The TREE extension is kept true; other optional extensions only save git time and are dropped, required ones
// are refused. It does no I/O: who holds index.lock, where the file lies and how it is replaced is the caller's affair.
package index

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// What a caller may want to tell apart.
var (
	ErrCorrupt     = errors.New("corrupt index")
	ErrUnsupported = errors.New("unsupported index")
)

// ID names a blob.
type ID = plumbing.Hash

// Stat is what git remembers of a file to see that it did not change. Times are seconds and nanoseconds; sizes above
// 4 GiB are cut, as git does.
type Stat struct {
	CTime, CTimeNano, MTime, MTimeNano uint32
	Dev, Ino, UID, GID, Size           uint32
}

// Entry is one file of the index.
type Entry struct {
	Path  string
	Mode  uint32
	ID    ID
	Stat  Stat
	Stage int // 0, or 1 base, 2 ours, 3 theirs of a conflict
	// AssumeValid and SkipWorktree make git not look at the file; IntentToAdd is a file without content yet.
	AssumeValid, SkipWorktree, IntentToAdd bool
}

// Index is a decoded index. Entries are sorted by path and stage.
type Index struct {
	Version uint32
	Entries []Entry
	tree    *cacheTree // nil when nothing is known
}

// New is an empty index.
func New() *Index { return &Index{Version: 2} }

// less is the order of the index: bytes of the path, then stage.
func less(a, b *Entry) bool {
	if c := strings.Compare(a.Path, b.Path); c != 0 {
		return c < 0
	}
	return a.Stage < b.Stage
}

// search returns the position of the first entry that is not before path and stage.
func (x *Index) search(path string, stage int) int {
	want := Entry{Path: path, Stage: stage}
	return sort.Search(len(x.Entries), func(i int) bool { return !less(&x.Entries[i], &want) })
}

// Find returns the entry of a path that is in no conflict, nil when there is none. It is good until the index changes.
func (x *Index) Find(path string) *Entry {
	if i := x.search(path, 0); i < len(x.Entries) && x.Entries[i].Path == path && x.Entries[i].Stage == 0 {
		return &x.Entries[i]
	}
	return nil
}

// Has reports whether a path is in the index at any stage.
func (x *Index) Has(path string) bool {
	i := x.search(path, 0)
	return i < len(x.Entries) && x.Entries[i].Path == path
}

// HasBelow reports whether the index has files below a folder.
func (x *Index) HasBelow(dir string) bool {
	i, end := x.Below(dir)
	return i < end
}

// Below returns the range of entries below a folder, "" for all.
func (x *Index) Below(dir string) (first, end int) {
	if dir == "" {
		return 0, len(x.Entries)
	}
	return x.search(dir+"/", 0), x.search(dir+"0", 0) // "0" follows "/"
}

// Put adds an entry or replaces what its path has at any stage. Files that stand where it needs a folder, and files
// below it, leave, as with git add.
func (x *Index) Put(e Entry) {
	for dir := parent(e.Path); dir != ""; dir = parent(dir) {
		x.Remove(dir)
	}
	if first, end := x.Below(e.Path); first < end {
		x.invalidate(e.Path + "/x")
		x.Entries = append(x.Entries[:first], x.Entries[end:]...)
	}
	x.invalidate(e.Path)
	first, end := x.span(e.Path)
	if first < end {
		x.Entries[first] = e
		x.Entries = append(x.Entries[:first+1], x.Entries[end:]...)
		return
	}
	x.Entries = append(x.Entries, Entry{})
	copy(x.Entries[first+1:], x.Entries[first:])
	x.Entries[first] = e
}

// PutAll adds many entries at once; it is Put for each, without moving the rest each time. No path of them may be
// another's folder.
func (x *Index) PutAll(entries []Entry) {
	const few = 64
	var added []Entry
	for _, e := range entries {
		if old := x.Find(e.Path); old != nil && len(entries) > few {
			x.invalidate(e.Path)
			*old = e
			continue
		}
		added = append(added, e)
	}
	if len(added) <= few {
		for _, e := range added {
			x.Put(e)
		}
		return
	}
	for _, e := range added {
		for dir := parent(e.Path); dir != ""; dir = parent(dir) {
			x.Remove(dir)
		}
		if x.Has(e.Path) || x.HasBelow(e.Path) {
			x.Put(e)
		}
		x.invalidate(e.Path)
	}
	have := make(map[string]bool)
	for _, e := range added {
		if x.Find(e.Path) != nil {
			have[e.Path] = true
		}
	}
	for _, e := range added {
		if !have[e.Path] {
			x.Entries = append(x.Entries, e)
		}
	}
	sort.Slice(x.Entries, func(i, j int) bool { return less(&x.Entries[i], &x.Entries[j]) })
}

// Remove takes a path out, at all stages, and reports whether it was there.
func (x *Index) Remove(path string) bool {
	first, end := x.span(path)
	if first == end {
		return false
	}
	x.invalidate(path)
	x.Entries = append(x.Entries[:first], x.Entries[end:]...)
	return true
}

// RemoveAll takes many paths out.
func (x *Index) RemoveAll(paths map[string]bool) {
	kept := x.Entries[:0]
	for _, e := range x.Entries {
		if paths[e.Path] {
			x.invalidate(e.Path)
			continue
		}
		kept = append(kept, e)
	}
	x.Entries = kept
}

// span is the range of a path's stages.
func (x *Index) span(path string) (first, end int) {
	first = x.search(path, 0)
	for end = first; end < len(x.Entries) && x.Entries[end].Path == path; end++ {
	}
	return first, end
}

// Unmerged reports whether a conflict is left.
func (x *Index) Unmerged() bool {
	for i := range x.Entries {
		if x.Entries[i].Stage != 0 {
			return true
		}
	}
	return false
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return ""
}

// checkPath refuses paths that no index holds.
func checkPath(path string) error {
	bad := path == "" || path[0] == '/' || path[len(path)-1] == '/'
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return fmt.Errorf("%w: the path %q", ErrCorrupt, path)
	}
	return nil
}
