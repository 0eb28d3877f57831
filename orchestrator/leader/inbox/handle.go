package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Follow handles deliveries until ctx ends.
func (in *Inbox) Follow(ctx context.Context) {
	again, polls, missed := map[string]retries{}, map[string]time.Time{}, map[string]time.Time{}
	for name := range in.hosts {
		again[name] = retries{}
	}
	for ctx.Err() == nil {
		pause := maxDelay
		for _, name := range slices.Sorted(maps.Keys(in.hosts)) {
			pause = min(pause, in.pollDue(ctx, name, polls), in.missedDue(ctx, name, missed))
			note := func(thread string, err error) {
				delay := again[name].note(thread, err, time.Now())
				if err != nil && ctx.Err() == nil {
					in.log.Warn().Err(err).Str("forge", name).Str("thread", thread).Dur("again_in", delay).Msg("handle a delivery")
				}
			}
			due := func(thread string) bool { return again[name].isDue(thread, time.Now()) }
			if due(wholeHost) {
				note(wholeHost, in.handleDue(ctx, name, due, note))
			}
			pause = min(pause, again[name].untilNext(time.Now()))
		}
		select {
		case <-ctx.Done():
		case <-in.wake:
		case <-time.After(pause):
		}
	}
}

// HandleAll handles the deliveries of a code host that were not handled, due or not, and returns the first failure. The goroutine of
// the inbox handles them; no other goroutine may call HandleAll while it runs.
func (in *Inbox) HandleAll(ctx context.Context, name string) error {
	var first error
	err := in.handleDue(ctx, name, func(string) bool { return true }, func(_ string, err error) {
		if first == nil {
			first = err
		}
	})
	return errors.Join(err, first)
}

// handleDue handles the deliveries of a code host that were not handled and whose thread is due. It calls note with the outcome of
// each.
func (in *Inbox) handleDue(ctx context.Context, name string, due func(thread string) bool, note func(thread string, err error)) error {
	below, done, err := in.loadOutcomes(ctx, name)
	if err != nil {
		return err
	}
	blocked := map[string]bool{} // threads with a delivery that has to wait
	return in.facts.AuditEntries(ctx, subjectOfArrivals(name), below, func(e audit.Entry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var d hook.Delivery
		if err := json.Unmarshal(e.Body, &d); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		thread := fmt.Sprintf("%s#%d", nameRepository(d.Repo), d.Number)
		switch {
		case done[e.Seq]:
		case blocked[thread] || !due(thread):
			blocked[thread] = true
			return nil
		default:
			outcome, err := in.handle(ctx, name, d)
			if err != nil && (time.Since(e.At) < maxAge || ctx.Err() != nil) {
				note(thread, err)
				blocked[thread] = true
				return nil
			}
			note(thread, nil)
			if err != nil {
				outcome = "given up: " + err.Error()
			}
			h := handled{Through: e.Seq, ID: d.ID, Outcome: outcome, Open: below + 1}
			if len(blocked) == 0 {
				h.Open = e.Seq + 1
			}
			if _, err := in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subjectOfOutcomes(name)}, h, store.Any); err != nil {
				return err
			}
		}
		if len(blocked) == 0 {
			below = e.Seq
		}
		return nil
	})
}

// loadOutcomes returns a number up to which all deliveries of a code host are handled, and the numbers of the later ones that are
// handled.
func (in *Inbox) loadOutcomes(ctx context.Context, name string) (below uint64, done map[uint64]bool, err error) {
	e, found, err := in.facts.Store.LastAudit(subjectOfOutcomes(name))
	if err != nil || !found {
		return 0, nil, problem.StoreProblem(err)
	}
	var last handled
	if err := json.Unmarshal(e.Body, &last); err != nil {
		return 0, nil, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
	}
	below, done = cmp.Or(last.Open, last.Through+1)-1, map[uint64]bool{}
	err = in.facts.AuditEntries(ctx, subjectOfOutcomes(name), below, func(e audit.Entry) error {
		var h handled
		if err := json.Unmarshal(e.Body, &h); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		done[h.Through] = true
		return nil
	})
	return below, done, err
}
