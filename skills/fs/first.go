package fs

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// first keeps the first items of a tree in the order of their paths, although several workers find them in any order, so
// that the same tree gives the same answer. It holds at most about twice as many as are wanted.
type first[T any] struct {
	limit int
	path  func(T) string
	size  func(T) int // how much of the limit an item takes

	beyond atomic.Pointer[string] // no item after this path is wanted

	mu    sync.Mutex // guards the fields below
	items []T
	total int
	more  bool // some were left out
}

// wanted reports whether an item of this path, or below it, may be among the first.
func (f *first[T]) wanted(path string) bool {
	last := f.beyond.Load()
	return last == nil || path <= *last
}

// enter is wanted for the content of a folder.
func (f *first[T]) enter(dir string) bool { return f.wanted(dir + "/") }

func (f *first[T]) add(item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, item)
	if f.total += f.size(item); f.total >= 2*f.limit+64 {
		f.trim()
	}
}

// trim drops the items beyond the limit. The last item that is kept may exceed it.
func (f *first[T]) trim() {
	slices.SortFunc(f.items, func(a, b T) int { return cmp.Compare(f.path(a), f.path(b)) })
	total := 0
	for i, item := range f.items {
		if total >= f.limit {
			clear(f.items[i:])
			f.items, f.more = f.items[:i], true
			last := f.path(f.items[i-1])
			f.beyond.Store(&last)
			break
		}
		total += f.size(item)
	}
	f.total = total
}

// sorted returns the items that were kept, and whether there are more.
func (f *first[T]) sorted() (items []T, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trim()
	return f.items, f.more
}
