package board

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
)

// commits collects the writers of this process. Those that come while another holds the lock of the board share the next commit: each
// appends its events, and the files of all are then synced side by side.
type commits struct {
	lock    sync.Mutex // held during a commit
	mu      sync.Mutex // guards waiting
	waiting []*writer

	// Of the commit that goes on.
	grown map[string]bool // files of events to sync; true for new ones, whose folder is synced as well

	sync func(*os.File) error // (*os.File).Sync except in tests
}

// writer is a call of [Board.locked].
type writer struct {
	do    func() error
	ended bool // guarded by commits.lock, as err
	err   error
}

// locked calls do while no other process writes to the board, and returns when the events that do appended are synced.
func (b *Board) locked(ctx context.Context, do func() error) error {
	c, own := &b.commits, &writer{do: do}
	c.mu.Lock()
	c.waiting = append(c.waiting, own)
	c.mu.Unlock()

	c.lock.Lock()
	defer c.lock.Unlock()
	if own.ended { // by a commit of another writer
		return own.err
	}
	c.mu.Lock()
	batch := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	began := false
	err := b.Exclusive(ctx, "board", func() error {
		began = true
		return b.commit(batch)
	})
	if !began { // the others try it themselves
		others := slices.DeleteFunc(batch, func(w *writer) bool { return w == own })
		c.mu.Lock()
		c.waiting = append(others, c.waiting...)
		c.mu.Unlock()
		return err
	}
	for _, w := range batch {
		w.ended, w.err = true, cmp.Or(w.err, err)
	}
	return own.err
}

// commit calls the writers of a batch one after the other, and syncs the files that have grown. The caller holds the lock of the board.
func (b *Board) commit(batch []*writer) error {
	b.commits.grown = map[string]bool{}
	for _, w := range batch {
		w.err = w.do()
	}
	var all sync.WaitGroup
	names := slices.Collect(maps.Keys(b.commits.grown))
	failed := make([]error, len(names)+1)
	for i, name := range names {
		all.Go(func() { failed[i] = b.syncFile(name) })
	}
	if slices.Contains(slices.Collect(maps.Values(b.commits.grown)), true) {
		failed[len(names)] = syncDir(b.root, eventsDir)
	}
	all.Wait()
	return errors.Join(failed...)
}

func (b *Board) syncFile(name string) error {
	f, err := b.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(b.commits.sync(f), f.Close())
}

// Amend replaces the text of a file that follows from the events of the board, such as the status of a request; decide returns the new
// text, or nil for no change. No other process does so at the same time. The file is not synced: after a loss of power it may be as
// before. Amend does nothing if the file is gone.
func (b *Board) Amend(ctx context.Context, name string, decide func(text []byte) ([]byte, error)) error {
	return b.locked(ctx, func() error {
		text, err := readSmall(b.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, err = decide(text); err != nil || text == nil {
			return err
		}
		return replaceFile(b.root, name, text, unsynced)
	})
}
