package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// load gives the runner of a run, from memory or from the store. A runner whose append failed is loaded anew.
func (l *Leader) load(id string) (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, errClosing
	}
	if r := l.runs[id]; r != nil && (r.done != nil || !r.runner.Broken()) {
		return r, nil
	}
	rec, err := l.record(id)
	if err != nil {
		return nil, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return nil, fmt.Errorf("load run %s: its program is not valid any more: %s", id, findings[0].Message)
	}
	h, err := l.store.Load(id)
	if err != nil {
		return nil, fmt.Errorf("load run %s: %w", id, err)
	}
	runner, err := engine.Load(l.deps(id), program, id, rec.Secret, history(h))
	if err != nil {
		return nil, fmt.Errorf("load run %s: %w", id, err)
	}
	models, err := lastModels(rec.kept.Models, h.Facts)
	if err != nil {
		return nil, fmt.Errorf("load run %s: %w", id, err)
	}
	r := &run{runner: runner, begin: rec.kept.Begin, fork: rec.kept.Fork, models: models}
	l.runs[id] = r
	if runner.State().Status.Ended() {
		l.letGo(id)
	}
	return r, nil
}

// history is a run's history as the engine takes it.
func history(h store.History) engine.History {
	return engine.History{Facts: h.Facts, Snapshot: h.State.Body, SnapshotSeq: h.State.Seq, Last: h.Last, EventBytes: h.EventBytes}
}

// begun is load, for a run that has its first fact; a crash may have come between recording the run and appending it.
func (l *Leader) begun(ctx context.Context, id string) (*run, error) {
	r, err := l.load(id)
	if err != nil || r.runner.State().Status != lattice.Pending {
		return r, err
	}
	if r.fork != nil {
		err = r.runner.BeginFork(ctx, *r.fork)
	} else {
		err = r.runner.Begin(ctx, r.begin)
	}
	if err != nil && !errors.Is(err, engine.ErrStale) {
		return nil, fmt.Errorf("begin run %s: %w", id, err)
	}
	return r, nil
}

// drive has the run driven, if nobody does and there is something to do. It waits while a hand-over is tried.
func (l *Leader) drive(ctx context.Context, id string) error {
	if l.hostless != nil {
		return l.hostless
	}
	for {
		if err := l.settle(ctx); err != nil {
			return err
		}
		r, err := l.ready(ctx, id)
		if err != nil {
			return err
		}
		l.mu.Lock()
		if l.yielding == nil && !l.closing {
			l.start(id, r)
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
	}
}

// start begins a drive. mu is held.
func (l *Leader) start(id string, r *run) {
	r.yielded = false
	if r.runner.State().Status.Ended() { // without a drive, by its first fact
		l.letGo(id)
		return
	}
	if r.done != nil {
		return
	}
	l.working.add(1)
	driving, cancel := context.WithCancel(context.Background())
	r.cancel, r.done, r.stopped = cancel, make(chan struct{}), nil
	l.drives.Go(func() {
		defer l.count(&l.working, -1)
		defer cancel()
		for {
			stop, err := r.runner.Run(driving)
			l.session.Rest(context.Background(), r.runner.State().Sprite)
			if l.rest(id, r, stop, err) {
				return
			}
		}
	})
	l.notify(id)
}

// rest ends a drive, unless a decision came just when the runner had come to rest. A wait with a timer is driven again
// when the timer is due.
func (l *Leader) rest(id string, r *run, stop engine.Stop, err error) bool {
	l.mu.Lock()
	put := errors.Is(err, engine.ErrYielded)
	if put && l.yielding == nil && !l.closing || err == nil && !l.closing && r.runner.State().Status == lattice.Running {
		l.mu.Unlock()
		return false
	}
	if put {
		err, r.yielded = nil, true
	}
	close(r.done)
	r.done, r.stopped = nil, err
	again := err == nil && !put && !stop.Due.IsZero() && !l.closing
	var changed <-chan struct{}
	l.notify(id)
	if again {
		changed = l.wait(id)
	}
	l.mu.Unlock()
	if err != nil && !errors.Is(err, context.Canceled) {
		l.cfg.Log.Warn().Str("run", id).Err(err).Msg("driving stopped")
	}
	if again {
		l.timer(r, 1)
		l.driveIn(id, r, stop.Left, changed)
	}
	if err == nil && !put && (stop.Status == lattice.Succeeded || stop.Status == lattice.Canceled) {
		l.leaveCopies(id, r)
	}
	if err == nil && !put && stop.Status.Ended() {
		l.forget(id)
		l.collect(id)
		l.retire(id)
	}
	return true
}

// leaveCopies removes the copies that a run had which has ended. Nobody goes back meanwhile: one that has gone back since
// makes new ones.
func (l *Leader) leaveCopies(id string, r *run) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.pruning.Lock()
	defer l.pruning.Unlock()
	s := r.runner.State()
	if !s.Status.Ended() {
		return
	}
	if err := l.dropCopies(ctx, id, s.Sprite, s.Kept); err != nil {
		l.cfg.Log.Warn().Str("run", id).Err(err).Msg("remove the copies of a run's sprite")
	}
}

// driveIn drives a waiting run when its timer is due, unless it changes before: it was answered, or the leader ends.
func (l *Leader) driveIn(id string, r *run, left time.Duration, changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	l.drives.Go(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	l.drives.Go(func() {
		defer l.timer(r, -1)
		defer cancel()
		if bootSleep(ctx, left) != nil {
			return
		}
		if err := l.drive(context.Background(), id); err != nil && !errors.Is(err, errClosing) {
			l.cfg.Log.Warn().Str("run", id).Err(err).Msg("drive after timer")
		}
	})
}

// timer counts a wait with a timer.
func (l *Leader) timer(r *run, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.timed += n
	l.timed.add(n)
}

// Drive goes on with an interrupted run. A run that is driven, waits or has ended is left alone; of one whose question
// was answered, that is the run which that began.
func (l *Leader) Drive(ctx context.Context, id string, req api.DriveRequest) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := l.renewValues(id, req.Values); err != nil {
		return api.RunView{}, err
	}
	if next, err := l.next(id); err != nil || next != nil {
		if err != nil {
			return api.RunView{}, err
		}
		return l.goOn(ctx, id, *next, req.Values, req.Detach)
	}
	if err := l.drive(ctx, id); err != nil {
		return api.RunView{}, err
	}
	l.detach(id, req.Detach)
	return l.view(id)
}

// detach lets a run go on when nobody follows it, for as long as this process leads, or hands it on.
func (l *Leader) detach(id string, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[id]; r != nil && yes {
		r.detached = true
	}
}

// renewValues takes the values of a run's variables again: they are never stored.
func (l *Leader) renewValues(id string, v api.Values) error {
	rec, err := l.brief(id)
	if err == nil {
		l.keepValues(id, rec.kept.AgentEnv, v)
	}
	return err
}

// Stop ends the driving of a run and waits for that.
func (l *Leader) Stop(ctx context.Context, id string) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	l.mu.Lock()
	var done chan struct{}
	if r := l.runs[id]; r != nil && r.done != nil {
		r.cancel()
		done = r.done
	}
	l.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return api.RunView{}, ctx.Err()
		}
	}
	return l.view(id)
}

// Cancel ends a run for good. A run that has ended already is shown as it is.
func (l *Leader) Cancel(ctx context.Context, id, by string) (api.RunView, error) {
	id, err := l.resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	r, err := l.begun(ctx, id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := r.runner.Cancel(ctx, by); err != nil && !errors.Is(err, engine.ErrStale) {
		return api.RunView{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	l.forget(id)
	return l.view(id)
}

// Watch yields entries and views until nobody drives the run.
func (l *Leader) Watch(ctx context.Context, id string, after lattice.Seq, yield func(api.WatchLine) error) error {
	return l.watch(ctx, id, after, l.Entries, yield)
}

// WatchOutline is Watch with what Outline yields in the place of all entries.
func (l *Leader) WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(api.WatchLine) error) error {
	return l.watch(ctx, id, after, l.Outline, yield)
}

type reader func(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error

func (l *Leader) watch(ctx context.Context, id string, after lattice.Seq, read reader, yield func(api.WatchLine) error) error {
	id, err := l.resolve(id)
	if err != nil {
		return err
	}
	for {
		l.mu.Lock()
		changed := l.wait(id)
		r := l.runs[id]
		idle := r == nil || r.done == nil && !r.yielded
		closing := l.closing
		l.mu.Unlock()
		if err := read(ctx, id, after, func(e lattice.Entry) error {
			after = e.Seq
			return yield(api.WatchLine{Entry: &e})
		}); err != nil {
			return err
		}
		if closing {
			return nil // without Done: somebody else leads next
		}
		v, err := l.view(id)
		if err != nil {
			return err
		}
		if idle {
			v.Copies = l.copiesOf(ctx, v)
		}
		if err := yield(api.WatchLine{View: &v, Done: idle}); err != nil || idle {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
