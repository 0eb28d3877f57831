package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// drives owns the loaded runs and decides who drives which until when. The zero value has no runs. It is safe for concurrent
// use.
type drives struct {
	log      zerolog.Logger
	serving  bool // runs continue although nobody follows them
	values   *values
	watchers *watchers
	activity *activity

	// Set before the first run is loaded.
	hostless error // the reason that nothing can be driven
	records  *records
	recovery *recovery
	sessions rester
	deps     func(run string) driver.Deps                                 // what its runner acts through
	ended    func(run string, r *driver.Runner, status lattice.RunStatus) // called after the drive that ended it

	loading sync.Mutex // held while a run is read from the store, before mu

	mu       sync.Mutex
	closing  bool            // guarded by mu, as all below: no new work
	yielding chan struct{}   // not nil while a handover is tried, closed after
	loaded   map[string]*run // by id
	done     []string        // those of loaded that have ended, the newest last
	group    sync.WaitGroup
}

// rester ends the multiplexed exec of a sprite in which nothing runs for now.
type rester interface {
	Rest(ctx context.Context, sprite string)
}

func newDrives(log zerolog.Logger, serving bool, values *values) *drives {
	return &drives{log: log, serving: serving, values: values, watchers: new(watchers), activity: new(activity), loaded: map[string]*run{}}
}

// isDriven reports whether a run is driven, or goes on after a handover that is being tried, and the error that ended its
// last drive.
func (d *drives) isDriven(id string) (driven bool, stopped error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil {
		return r.done != nil || r.yielded, r.stopped
	}
	return false, nil
}

// countDriven returns the number of runs that are driven.
func (d *drives) countDriven() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	driven := 0
	for _, r := range d.loaded {
		if r.done != nil || r.yielded {
			driven++
		}
	}
	return driven
}

// isClosing reports whether the leader takes no new work.
func (d *drives) isClosing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}

// drive has the run driven, if nobody does and there is something to do. It waits while a hand-over is tried.
func (d *drives) drive(ctx context.Context, id string) error {
	if d.hostless != nil {
		return d.hostless
	}
	for {
		if err := d.awaitHandover(ctx); err != nil {
			return err
		}
		r, err := d.loadReady(ctx, id)
		if err != nil {
			return err
		}
		d.mu.Lock()
		if d.yielding == nil && !d.closing {
			d.start(id, r)
			d.mu.Unlock()
			return nil
		}
		d.mu.Unlock()
	}
}

// start begins a drive. mu is held.
func (d *drives) start(id string, r *run) {
	r.yielded = false
	if r.runner.State().Status.Ended() { // without a drive, by its first fact
		d.trim(id)
		return
	}
	if r.done != nil {
		return
	}
	d.activity.add(&d.activity.working, 1)
	driving, cancel := context.WithCancel(context.Background())
	r.cancel, r.done, r.stopped = cancel, make(chan struct{}), nil
	d.group.Go(func() {
		defer d.activity.add(&d.activity.working, -1)
		defer cancel()
		for {
			stop, err := r.runner.Run(driving)
			d.sessions.Rest(context.Background(), r.runner.State().Sprite)
			if d.finish(id, r, stop, err) {
				return
			}
		}
	})
	d.watchers.notify(id)
}

// finish ends a drive, unless a decision came just when the runner had come to rest. A wait with a timer is driven again
// when the timer is due.
func (d *drives) finish(id string, r *run, stop driver.Stop, err error) bool {
	d.mu.Lock()
	put := errors.Is(err, driver.ErrYielded)
	if put && d.yielding == nil && !d.closing || err == nil && !d.closing && r.runner.State().Status == lattice.Running {
		d.mu.Unlock()
		return false
	}
	if put {
		err, r.yielded = nil, true
	}
	close(r.done)
	r.done, r.stopped = nil, err
	again := err == nil && !put && !stop.Due.IsZero() && !d.closing
	var changed <-chan struct{}
	d.watchers.notify(id)
	if again {
		changed = d.watchers.wait(id)
	}
	d.mu.Unlock()
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Warn().Str("run", id).Err(err).Msg("driving stopped")
	}
	if again {
		d.countTimer(r, 1)
		d.driveLater(id, r, stop.Left, changed)
	}
	if err == nil && !put && stop.Status.Ended() {
		d.forget(id)
		d.ended(id, r.runner, stop.Status)
	}
	return true
}

// driveLater drives a waiting run when its timer is due, unless it changes before: it was answered, or the leader ends.
func (d *drives) driveLater(id string, r *run, left time.Duration, changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	d.group.Go(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	d.group.Go(func() {
		defer d.countTimer(r, -1)
		defer cancel()
		if bootSleep(ctx, left) != nil {
			return
		}
		if err := d.drive(context.Background(), id); err != nil && !errors.Is(err, errClosing) {
			d.log.Warn().Str("run", id).Err(err).Msg("drive after timer")
		}
	})
}

// countTimer counts a wait with a timer.
func (d *drives) countTimer(r *run, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.timed += n
	d.activity.add(&d.activity.timed, n)
}

// detach lets a run go on when nobody follows it, for as long as this process leads, or hands it on.
func (d *drives) detach(id string, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil && yes {
		r.detached = true
	}
}

// closingNow reports whether err only says that this leader is ending.
func closingNow(err error) bool { return errors.Is(err, errClosing) }

// errClosing answers requests that come while the leader ends; another process may lead at once.
var errClosing = fault.Busy(api.CodeLeaderEnding, "the leading lattice is ending").WithHint("try again")

// awaitIdle refuses a run that somebody drives. One that has just ended is let come to rest.
func (d *drives) awaitIdle(ctx context.Context, id string) error {
	d.mu.Lock()
	r := d.loaded[id]
	var ending chan struct{}
	busy := r != nil && (r.done != nil || r.yielded)
	if busy && r.runner.State().Status.Ended() {
		ending = r.done
	}
	d.mu.Unlock()
	switch {
	case !busy:
		return nil
	case ending == nil:
		return fault.Busy("run_driven", "%s is under way", id).WithHint("Ctrl-C where it is followed puts it down, and it stays resumable; lattice cancel %s ends it, and it can be gone back with then", id)
	}
	select {
	case <-ending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
