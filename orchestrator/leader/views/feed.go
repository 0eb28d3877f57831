package views

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// coalescer lets callers that ask at the same time share a call. Each gets the result of a call that began after it asked. The zero
// value is ready; it is safe for concurrent use.
type coalescer[T any] struct {
	mu   sync.Mutex
	next *call[T]        // guarded by mu: has not begun
	last <-chan struct{} // guarded by mu: closed when the call before next is done
}

type call[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// errNoResult is the error of a shared call that panicked.
var errNoResult = errors.New("a call that is shared by several readers was broken off")

// do returns the result of f, which another caller may run. The calls do not overlap.
func (c *coalescer[T]) do(ctx context.Context, f func() (T, error)) (T, error) {
	c.mu.Lock()
	mine := c.next
	if mine == nil {
		mine = &call[T]{done: make(chan struct{})}
		last := c.last
		c.next, c.last = mine, mine.done
		c.mu.Unlock()
		if last != nil {
			<-last
		}
		c.mu.Lock()
		c.next = nil
		c.mu.Unlock()
		mine.err = errNoResult
		defer close(mine.done) // after a panic, too
		mine.value, mine.err = f()
		return mine.value, mine.err
	}
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		return mine.value, ctx.Err()
	}
}

// feed holds the newest entries of a run for all who follow it, so that each is read, decoded and encoded once. It is safe for
// concurrent use.
type feed struct {
	reads coalescer[struct{}]
	views coalescer[*api.Item]

	mu    sync.Mutex
	from  lattice.Seq // guarded by mu: the entry before the first item
	until lattice.Seq // guarded by mu: the last entry that was read
	items []*api.Item // guarded by mu: the entries behind from, up to until; the slice is not changed, but replaced
	bytes int         // guarded by mu: of their bodies
}

// Bounds of the feed of a run. A reader that is further behind reads alone.
const (
	maxFeedItems = 512
	maxFeedBytes = 1 << 20
)

// errFarBehind means that a feed does not hold the entries behind a position.
var errFarBehind = errors.New("the entries are older than those that readers share")

// itemsBehind returns the entries of the run behind a position, up to the newest. They fail with errFarBehind if the feed cannot
// hold them.
func (f *feed) itemsBehind(ctx context.Context, id string, after lattice.Seq, read reader) ([]*api.Item, error) {
	f.mu.Lock()
	if after > f.until { // no reader has followed the run for a while
		f.from, f.until, f.items, f.bytes = after, after, nil, 0
	}
	f.mu.Unlock()
	if _, err := f.reads.do(ctx, func() (struct{}, error) { return struct{}{}, f.readOn(id, read) }); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if after < f.from || after > f.until {
		return nil, errFarBehind
	}
	items := f.items
	for len(items) > 0 && items[0].Entry.Seq <= after {
		items = items[1:]
	}
	return items, nil
}

// readOn reads the entries behind those that the feed holds. The reader that asks first may go away while others want them, so that
// its context does not end the read.
func (f *feed) readOn(id string, read reader) error {
	f.mu.Lock()
	until := f.until
	f.mu.Unlock()
	var found []*api.Item
	size := 0
	err := read(context.Background(), id, until, func(e lattice.Entry) error {
		if size += len(e.Body); len(found) == maxFeedItems || size > maxFeedBytes && len(found) > 0 {
			return errFarBehind
		}
		found = append(found, stream.NewEntry[api.RunView](e))
		return nil
	})
	if err != nil || len(found) == 0 {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until != until {
		return errFarBehind // it was begun again at another position
	}
	items := append(f.items[:len(f.items):len(f.items)], found...)
	f.bytes += size
	for len(items) > maxFeedItems || f.bytes > maxFeedBytes && len(items) > len(found) {
		f.bytes -= len(items[0].Entry.Body)
		f.from, items = items[0].Entry.Seq, items[1:]
	}
	f.items, f.until = items, items[len(items)-1].Entry.Seq
	return nil
}

// feeds are the feeds of the runs that are followed. The zero value is ready; it is safe for concurrent use.
type feeds struct {
	mu   sync.Mutex
	runs map[string]*feed // guarded by mu
}

const maxFeeds = 32

func (fs *feeds) ofRun(id string) *feed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.runs[id]
	if f == nil {
		if fs.runs == nil || len(fs.runs) >= maxFeeds {
			fs.runs = map[string]*feed{} // their readers begin others
		}
		f = &feed{}
		fs.runs[id] = f
	}
	return f
}

const (
	// followPause is the least time between two reads for one reader of a run: the entries that come in between leave together.
	followPause = 25 * time.Millisecond
	// alonePage is how many entries leave together for a reader that reads alone.
	alonePage = 64
)

// Tail yields entries and views of a run, and follows it until ctx ends. Items are shared with other readers.
func (vw *Views) Tail(ctx context.Context, id string, after lattice.Seq, yield func([]*api.Item) error) error {
	id, err := vw.Records.Resolve(id)
	if err != nil {
		return err
	}
	send := func(items []*api.Item) error {
		after = items[len(items)-1].Entry.Seq
		return yield(items)
	}
	if err := readAlone(ctx, id, after, vw.Records.Entries, send); err != nil {
		return err
	}
	var read, viewed time.Time
	for {
		if err := sleepUntil(ctx, read.Add(followPause)); err != nil {
			return err
		}
		changed := vw.Watchers.Wait(id) // first: a change after it is not missed
		driven := vw.Drives.GoesOn(id)
		closing := vw.Drives.IsClosing() // after GoesOn: closing is set before the drives end
		f := vw.feeds.ofRun(id)
		read = time.Now()
		items, err := f.itemsBehind(ctx, id, after, vw.Records.Entries)
		switch {
		case errors.Is(err, errFarBehind):
			err = readAlone(ctx, id, after, vw.Records.Entries, send)
		case err == nil && len(items) > 0:
			err = send(items)
		}
		if err != nil || closing { // closing: another process leads next
			return err
		}
		if driven {
			more, err := awaitView(ctx, changed, viewed)
			if err != nil {
				return err
			}
			if more {
				continue
			}
		}
		viewed = time.Now()
		view, err := f.views.do(ctx, func() (*api.Item, error) {
			v, err := vw.buildWithCopies(context.WithoutCancel(ctx), id, driven)
			return stream.NewView(v, v.UpdatedAt), err
		})
		if err == nil {
			err = yield([]*api.Item{view})
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readAlone sends the entries behind a position to one reader, in pages.
func readAlone(ctx context.Context, id string, after lattice.Seq, read reader, send func([]*api.Item) error) error {
	var page []*api.Item
	flush := func() (err error) {
		if len(page) > 0 {
			err = send(page)
		}
		page = nil // the last one belongs to the reader
		return err
	}
	err := read(ctx, id, after, func(e lattice.Entry) error {
		if page = append(page, stream.NewEntry[api.RunView](e)); len(page) < alonePage {
			return nil
		}
		return flush()
	})
	return errors.Join(err, flush())
}

// sleepUntil returns at a time, or when ctx ends, with its error.
func sleepUntil(ctx context.Context, at time.Time) error {
	pause := time.Until(at)
	if pause <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
