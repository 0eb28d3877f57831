package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
)

const (
	// queuedPause is how long an entry of the audit log that is written behind may stay unseen.
	queuedPause = time.Second
	// overlap is how much earlier than an entry of a run the entries of the audit log are sent that a reader behind it may lack.
	overlap = time.Second
	// updatePause bounds how often a reader of all changes looks.
	updatePause = 200 * time.Millisecond
	// maxUpdated bounds how many of the newest runs such a reader looks at, apart from those that have not ended.
	maxUpdated = 100
	// maxMissed bounds how many entries of the journal such a reader, when it resumes, searches for older runs that have ended.
	maxMissed = 10_000
	// missedPage is how many of them are read at a time.
	missedPage = 100
)

// Changes yields each change behind a position, and then each new one, until ctx or the leadership ends. Changes that came close
// together are one.
func (vw *Views) Changes(ctx context.Context, after stream.Position, yield func(stream.Update) error) error {
	if after.Audit == nil {
		seq, err := vw.countAudited(after.Runs)
		if err != nil {
			return err
		}
		after.Audit = &seq
	}
	also, searched, err := vw.listMissed(after.Runs)
	if err != nil {
		return err
	}
	if searched > 0 {
		if err := yield(stream.NewGap(searched)); err != nil {
			return err
		}
	}
	position := after // of the last change sent
	var mu sync.Mutex // guards position, and has the updates leave in the order of their ids
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return cmp.Or(vw.followRuns(ctx, after, also, func(v api.RunView, at *stream.Position) error {
			mu.Lock()
			defer mu.Unlock()
			u := stream.New(stream.Run, v.UpdatedAt, stream.About{RunID: v.RunID, IntentID: v.IntentID, Sprite: v.Sprite}, v)
			if at != nil {
				position.Runs, position.More = at.Runs, at.More
				u.ID = position.String()
			}
			return yield(u)
		}), errChangesEnd)
	})
	both.Go(func() error {
		return cmp.Or(vw.followAudit(ctx, *after.Audit, func(e audit.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			u := stream.OfAudit(e)
			position.Audit = &e.Seq
			u.ID = position.String()
			return yield(u)
		}), errChangesEnd)
	})
	return both.Wait()
}

// errChangesEnd means that the leadership ends.
var errChangesEnd = errors.New("there are no more changes")

// Updates yields the view of each run that changed behind a position, and then of each that changes.
func (vw *Views) Updates(ctx context.Context, after lattice.Seq, yield func(api.RunView) error) error {
	return vw.followRuns(ctx, stream.Position{Runs: after}, nil, func(v api.RunView, _ *stream.Position) error { return yield(v) })
}

// followRuns is Updates with the position after each view. It is nil for a view that is no change in the journal: the run is driven,
// or not any more. also names runs to look at first, apart from the newest and those that have not ended.
func (vw *Views) followRuns(ctx context.Context, after stream.Position, also []string, yield func(api.RunView, *stream.Position) error) error {
	seen, newest := map[string]string{}, after.Runs
	for first := true; ; first = false {
		changed := vw.Watchers.Wait(drive.AnyRun) // first: a change after it is not missed
		closing := vw.Drives.IsClosing()
		runs, settled, err := vw.readUpdated(ctx, also, newest)
		if err != nil {
			return err
		}
		old := seen
		seen, also = map[string]string{}, nil
		for _, v := range runs {
			newest = max(newest, v.LastSeq)
			seen[v.RunID] = fmt.Sprint(v.LastSeq, v.Driving, v.Status)
			if !v.Status.Ended() {
				also = append(also, v.RunID) // when it has ended, it may not be among the newest
			}
			has := after.Has(v.LastSeq)
			if old[v.RunID] == seen[v.RunID] || first && has && !isStranded(v) {
				continue
			}
			var at *stream.Position
			if !has && v.LastSeq > 0 {
				after = after.Add(v.LastSeq, settled)
				at = &after
			}
			if err := yield(v, at); err != nil {
				return err
			}
		}
		if closing {
			return nil
		}
		select {
		case <-changed:
			err = sleepUntil(ctx, time.Now().Add(updatePause))
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// isStranded reports whether no process drives a run that could go on. The journal does not tell.
func isStranded(v api.RunView) bool {
	return !v.Driving && (v.Status == lattice.Running || v.Status == lattice.Pending)
}

// readUpdated returns the newest runs, those that have not ended and those of also, in the order of their last changes. Each change up
// to settled is in them. known was committed before.
func (vw *Views) readUpdated(ctx context.Context, also []string, known lattice.Seq) (runs []api.RunView, settled lattice.Seq, err error) {
	last, err := vw.Store.Recent("", 1)
	if err != nil {
		return nil, 0, err
	}
	found := map[string]api.RunView{}
	for _, which := range []api.RunList{{Limit: maxUpdated}, {Open: true}} {
		listed, err := vw.Runs(ctx, which)
		if err != nil {
			return nil, 0, err
		}
		for _, v := range listed {
			found[v.RunID] = v
		}
	}
	for _, id := range also {
		if _, listed := found[id]; listed {
			continue
		}
		v, err := vw.Build(id)
		if err == nil {
			err = vw.addSpent(ctx, &v)
		}
		if err != nil {
			return nil, 0, err
		}
		found[id] = v
	}
	runs = slices.SortedFunc(maps.Values(found), func(a, b api.RunView) int {
		return cmp.Or(cmp.Compare(a.LastSeq, b.LastSeq), cmp.Compare(a.RunID, b.RunID))
	})
	if len(runs) > 0 {
		settled = runs[len(runs)-1].LastSeq
	}
	for _, v := range runs { // while they were read, those that were read earlier went on
		if v.Status.Ended() && !v.Driving {
			continue
		}
		behind, err := vw.Store.FactBehind(v.RunID, v.LastSeq)
		if err != nil {
			return nil, 0, err
		}
		if behind {
			settled = min(settled, v.LastSeq)
		}
	}
	if now, err := vw.Store.Recent("", 1); err != nil || len(now) > 0 && (len(last) == 0 || now[0].ID != last[0].ID) {
		return runs, min(settled, known), err // runs began
	}
	return runs, settled, nil
}

// listMissed returns the runs with entries behind a position in the journal. If it did not read all of them, searched is the last one
// that it read.
func (vw *Views) listMissed(after lattice.Seq) (ids []string, searched lattice.Seq, err error) {
	for read := 0; after > 0 && read < maxMissed; {
		entries, err := vw.Store.Entries("", after, missedPage)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range entries {
			after = e.Seq
			if !slices.Contains(ids, e.Run) {
				ids = append(ids, e.Run)
			}
		}
		if read += len(entries); len(entries) < missedPage {
			return ids, 0, nil
		}
	}
	return ids, after, nil
}

// countAudited returns the number of the last entry of the audit log that a reader has whose position in the journal alone is known: of
// the last one before that time, or of the last one if it begins.
func (vw *Views) countAudited(after lattice.Seq) (uint64, error) {
	since := time.Now()
	if after > 0 {
		entries, err := vw.Store.Entries("", after-1, 1)
		if err != nil {
			return 0, err
		}
		if len(entries) > 0 {
			since = entries[0].At.Add(-overlap)
		}
	}
	return vw.countEarlier(since)
}

// followAudit yields the entries of the audit log behind one, and then each new one.
func (vw *Views) followAudit(ctx context.Context, last uint64, yield func(audit.Entry) error) (err error) {
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
