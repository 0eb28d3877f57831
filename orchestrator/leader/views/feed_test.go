package views

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// log is a run with entries 1 to newest. It counts the entries that are read.
type log struct{ newest, reads atomic.Int64 }

func (l *log) read(_ context.Context, _ string, after lattice.Seq, yield func(lattice.Entry) error) error {
	for seq := after + 1; seq <= lattice.Seq(l.newest.Load()); seq++ {
		l.reads.Add(1)
		if err := yield(lattice.Entry{Seq: seq, Body: []byte(`{}`)}); err != nil {
			return err
		}
	}
	return nil
}

func listSeqs(items []*api.Item) (seqs []lattice.Seq) {
	for _, i := range items {
		seqs = append(seqs, i.Entry.Seq)
	}
	return seqs
}

// TestFeedSharesEntries: a hundred readers at different positions get all that is behind them, and each entry is read once.
func TestFeedSharesEntries(t *testing.T) {
	t.Parallel()
	var l log
	f := &feed{}
	l.newest.Store(100)
	if items, err := f.itemsBehind(t.Context(), "run_a", 90, l.read); err != nil || len(items) != 10 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	l.newest.Store(300)
	var readers sync.WaitGroup
	for i := range 100 {
		readers.Go(func() {
			after := lattice.Seq(90 + i%11)
			items, err := f.itemsBehind(t.Context(), "run_a", after, l.read)
			if err != nil || len(items) != 300-int(after) || items[0].Entry.Seq != after+1 {
				t.Errorf("behind %d: %v, %v", after, listSeqs(items), err)
			}
		})
	}
	readers.Wait()
	if n := l.reads.Load(); n != 210 {
		t.Errorf("210 entries were read %d times", n)
	}
}

// TestFeedIsBounded: a feed holds the newest entries only. A reader behind them reads alone, and one that is ahead begins the feed
// again.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	var l log
	f := &feed{}
	l.newest.Store(5000)
	if _, err := f.itemsBehind(t.Context(), "run_a", 1, l.read); !errors.Is(err, errFarBehind) {
		t.Errorf("a reader that is far behind: %v", err)
	}
	for after := lattice.Seq(5000); after < 8000; after += 100 {
		l.newest.Add(100)
		if items, err := f.itemsBehind(t.Context(), "run_a", after, l.read); err != nil || len(items) != 100 {
			t.Fatalf("behind %d: %d items, %v", after, len(items), err)
		}
	}
	if len(f.items) != maxFeedItems || f.from != 8000-maxFeedItems {
		t.Errorf("the feed holds %d items behind %d", len(f.items), f.from)
	}
	if items, err := f.itemsBehind(t.Context(), "run_a", 7900, l.read); err != nil || len(items) != 100 {
		t.Errorf("a reader that is a little behind got %d items, %v", len(items), err)
	}
	if items, err := f.itemsBehind(t.Context(), "run_a", 7000, l.read); !errors.Is(err, errFarBehind) {
		t.Errorf("a reader that is behind the feed got %d items, %v", len(items), err)
	}
	l.newest.Store(20_000)
	if items, err := f.itemsBehind(t.Context(), "run_a", 19_990, l.read); err != nil || len(items) != 10 {
		t.Errorf("a reader that is ahead got %d items, %v", len(items), err)
	}
	var alone []lattice.Seq
	if err := readAlone(t.Context(), "run_a", 19_800, l.read, func(items []*api.Item) error {
		alone = append(alone, listSeqs(items)...)
		return nil
	}); err != nil || len(alone) != 200 || !slices.IsSorted(alone) {
		t.Errorf("a reader alone got %d entries, %v", len(alone), err)
	}
}

// A call that panics leaves no caller waiting: those that share it get an error, and the next call is made.
func TestCoalescerAfterPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c coalescer[int]
		begun, release := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _, _ = c.do(t.Context(), func() (int, error) { close(begun); <-release; return 1, nil }) })
		<-begun
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the call did not reach its caller")
				}
			}()
			_, _ = c.do(t.Context(), func() (int, error) { panic("broken") })
		})
		synctest.Wait() // the second call is the next one
		all.Go(func() {
			if _, err := c.do(t.Context(), func() (int, error) { return 2, nil }); !errors.Is(err, errNoResult) {
				t.Errorf("a caller that shares the call gets %v", err)
			}
		})
		synctest.Wait()
		close(release)
		all.Wait()
		if n, err := c.do(t.Context(), func() (int, error) { return 3, nil }); n != 3 || err != nil {
			t.Errorf("the call after it returns %d, %v", n, err)
		}
	})
}

// TestCoalescer: callers that ask while a call is under way share the next call.
func TestCoalescer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c coalescer[int64]
		var calls atomic.Int64
		begun, release := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			if n, err := c.do(t.Context(), func() (int64, error) { close(begun); <-release; return calls.Add(1), nil }); n != 1 || err != nil {
				t.Errorf("the first got %d, %v", n, err)
			}
		})
		<-begun
		for range 50 {
			all.Go(func() {
				if n, err := c.do(t.Context(), func() (int64, error) { return calls.Add(1), nil }); n != 2 || err != nil {
					t.Errorf("one of the others got %d, %v", n, err)
				}
			})
		}
		synctest.Wait() // all have asked
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.do(gone, func() (int64, error) { return calls.Add(1), nil }); err == nil {
			t.Error("a caller that went away gets no error")
		}
		close(release)
		all.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("52 callers made %d calls", n)
		}
	})
}
