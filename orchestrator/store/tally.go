package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// tally counts the entries that were appended, by kind and type.
type tally struct {
	mu     sync.Mutex
	counts map[lattice.EntryClass]uint64 // guarded by mu
}

func (t *tally) add(kind lattice.EntryKind, name string, n int) {
	if kind == lattice.EntryEvent && !protocol.Type(name).Known() {
		name = "other" // sprites choose it, and each name is kept
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[lattice.EntryClass]uint64{}
	}
	t.counts[lattice.EntryClass{Kind: kind, Type: name}] += uint64(n)
}

// CountAppended returns how many entries were appended since the store was opened, by kind and type. The kind of entries of the
// audit log is audit.
func (s *Store) CountAppended() []lattice.EntryCount {
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	all := []lattice.EntryCount{}
	for class, n := range s.tally.counts {
		all = append(all, lattice.EntryCount{EntryClass: class, Count: n})
	}
	slices.SortFunc(all, func(a, b lattice.EntryCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Type, b.Type))
	})
	return all
}
