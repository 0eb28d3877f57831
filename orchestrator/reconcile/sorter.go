package reconcile

import (
	"bufio"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"slices"
)

// sorter sorts any number of entries with limit of them in memory: further ones go to the spool in sorted runs, which
// are merged as they are read back.
type sorter struct {
	compare func(a, b entry) int
	limit   int
	spool   spool
	entries []entry
	runs    []section
}

// section is a part of the spool.
type section struct{ at, size int64 }

func (s *sorter) add(e entry) error {
	if len(s.entries) >= s.limit {
		if err := s.spillRun(); err != nil {
			return err
		}
	}
	s.entries = append(s.entries, e)
	return nil
}

// spillRun writes the entries in memory as one sorted run.
func (s *sorter) spillRun() error {
	slices.SortFunc(s.entries, s.compare)
	run := section{at: s.spool.size}
	var b []byte
	for _, e := range s.entries {
		b = e.append(b[:0])
		if _, err := s.spool.add(b); err != nil {
			return err
		}
	}
	run.size = s.spool.size - run.at
	s.runs = append(s.runs, run)
	s.entries = s.entries[:0]
	return nil
}

// sortAll ends the adding and begins the reading.
func (s *sorter) sortAll() (*cursor, error) {
	slices.SortFunc(s.entries, s.compare)
	m := &cursor{compare: s.compare}
	m.heads = append(m.heads, &run{memory: s.entries})
	if len(s.runs) > 0 {
		file, err := s.spool.openReader()
		if err != nil {
			return nil, err
		}
		for _, part := range s.runs {
			m.heads = append(m.heads, &run{file: bufio.NewReaderSize(io.NewSectionReader(file, part.at, part.size), 16<<10)})
		}
	}
	for _, r := range m.heads {
		if err := r.loadNext(); err != nil {
			return nil, err
		}
	}
	m.heads = slices.DeleteFunc(m.heads, func(r *run) bool { return r.done })
	heap.Init(m)
	return m, nil
}

// errDone means that there are no more entries.
var errDone = errors.New("no more entries")

// cursor merges sorted runs. It is a heap of runs by their next entry.
type cursor struct {
	compare func(a, b entry) int
	heads   []*run
}

// next returns the least entry that is left, or errDone.
func (m *cursor) next() (entry, error) {
	if len(m.heads) == 0 {
		return entry{}, errDone
	}
	first := m.heads[0]
	e := first.head
	if err := first.loadNext(); err != nil {
		return entry{}, err
	}
	if first.done {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return e, nil
}

func (m *cursor) Len() int           { return len(m.heads) }
func (m *cursor) Less(i, k int) bool { return m.compare(m.heads[i].head, m.heads[k].head) < 0 }
func (m *cursor) Swap(i, k int)      { m.heads[i], m.heads[k] = m.heads[k], m.heads[i] }
func (m *cursor) Push(x any)         { m.heads = append(m.heads, x.(*run)) }
func (m *cursor) Pop() any {
	last := len(m.heads) - 1
	r := m.heads[last]
	m.heads = m.heads[:last]
	return r
}

// run is sorted entries, in a file or in memory.
type run struct {
	file   *bufio.Reader
	memory []entry
	head   entry
	done   bool
}

func (r *run) loadNext() error {
	if r.file == nil {
		if r.done = len(r.memory) == 0; !r.done {
			r.head, r.memory = r.memory[0], r.memory[1:]
		}
		return nil
	}
	var b [entrySize]byte
	switch _, err := io.ReadFull(r.file, b[:]); {
	case errors.Is(err, io.EOF):
		r.done = true
	case err != nil:
		return fmt.Errorf("read a temporary file: %w", err)
	default:
		r.head = readEntry(b[:])
	}
	return nil
}
