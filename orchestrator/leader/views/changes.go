package views

import (
	"context"
	"errors"
	"sort"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
)

const (
	// queuedPause is how long an entry of the audit log that is written behind may stay unseen.
	queuedPause = time.Second
	// overlap is how much earlier than an entry of a run the entries of the audit log are sent that a reader behind it may lack.
	overlap = time.Second
)

// Changes yields the entries of the audit log since the entry of any run at a position, or since now if it is 0, and then each new one,
// until ctx or the leadership ends. An entry from about that time may come although the reader has it.
func (vw *Views) Changes(ctx context.Context, after lattice.Seq, yield func(audit.Entry) error) error {
	since := time.Now()
	if after > 0 {
		entries, err := vw.Store.Entries("", after-1, 1)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			since = entries[0].At.Add(-overlap)
		}
	}
	last, err := vw.countEarlier(since)
	for err == nil {
		changed := vw.Watchers.Wait(drive.AnyRun)
		closing := vw.Drives.IsClosing()
		err = vw.Store.Audit("", last, func(e audit.Entry) error {
			last = e.Seq
			return yield(e)
		})
		if err != nil || closing {
			return err
		}
		select {
		case <-changed:
			err = sleepUntil(ctx, time.Now().Add(updatePause))
		case <-time.After(queuedPause):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// countEarlier returns how many entries the audit log has from before a time. Their numbers have no gaps, so they are found by
// bisection.
func (vw *Views) countEarlier(since time.Time) (n uint64, err error) {
	isEarlier := func(seq uint64) (earlier bool) {
		failed := vw.Store.Audit("", seq-1, func(e audit.Entry) error {
			earlier = e.At.Before(since)
			return errFound
		})
		if failed != nil && !errors.Is(failed, errFound) {
			err = failed
		}
		return earlier
	}
	high := 1
	for isEarlier(uint64(high)) && err == nil {
		high *= 2
	}
	return uint64(sort.Search(high, func(i int) bool { return !isEarlier(uint64(i + 1)) })), err
}

// errFound ends a read.
var errFound = errors.New("found")
