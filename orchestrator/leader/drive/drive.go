// Package drive holds the runs that are in memory and decides which of them are driven until when. Start with Drives.
// Watchers wakes clients when a run changes, Activity tells whether there is work, and Succession ends the leadership of
// the process. It decides nothing about the course of a run; that is engine.Step.
package drive

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Drives owns the loaded runs and starts and stops their drives. The zero value has no runs. It is safe for concurrent
// use.
type Drives struct {
	log      zerolog.Logger
	serving  bool // runs continue although no client follows them
	Values   *Values
	Watchers *Watchers
	Activity *Activity

	// Set before the first run is loaded.
	Hostless error // the reason that nothing can be driven
	Records  *history.Records
	Recovery *Recovery
	Sessions rester
	Deps     func(run string) driver.Deps                                 // through which its runner acts
	Ended    func(run string, r *driver.Runner, status lattice.RunStatus) // called after the drive that ended it
	// Superseded reports whether a newer request of its run rejected an action.
	Superseded func(a lattice.Action) (bool, error)

	loading sync.Mutex // held while a run is read from the store, before mu

	mu       sync.Mutex
	closing  bool               // guarded by mu, as all below: no new work
	yielding chan struct{}      // not nil while a handover is tried, closed after
	loaded   map[string]*Loaded // by id
	done     []string           // those of loaded that have ended, the newest last
	group    sync.WaitGroup
}

// rester ends the multiplexed exec of a sprite in which nothing runs for now.
type rester interface {
	Rest(ctx context.Context, sprite string)
}

func NewDrives(log zerolog.Logger, serving bool, values *Values) *Drives {
	return &Drives{log: log, serving: serving, Values: values, Watchers: new(Watchers), Activity: new(Activity), loaded: map[string]*Loaded{}}
}

// IsDriven reports whether a run is driven, or will be after a handover that is being tried, and returns the error that
// ended its last drive.
func (d *Drives) IsDriven(id string) (driven bool, stopped error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil {
		return r.done != nil || r.yielded, r.stopped
	}
	return false, nil
}

// GoesOn reports whether a run is driven, or waits for a time alone and is driven again then.
func (d *Drives) GoesOn(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.loaded[id]
	if r == nil || r.done != nil || r.yielded {
		return r != nil
	}
	return r.timed > 0 && lattice.AllTimed(r.Runner.State().Waits)
}

// CountDriven returns the number of runs that are driven.
func (d *Drives) CountDriven() int {
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

// IsClosing reports whether the leader takes no new work.
func (d *Drives) IsClosing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}

// Drive starts a drive of the run, unless it is driven or nothing is left to do. It waits while a handover is tried.
func (d *Drives) Drive(ctx context.Context, id string) error {
	if d.Hostless != nil {
		return d.Hostless
	}
	for {
		if err := d.AwaitHandover(ctx); err != nil {
			return err
		}
		r, err := d.LoadReady(ctx, id)
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

// Go runs f in the background; the leader does not end before it.
func (d *Drives) Go(f func()) { d.group.Go(f) }

// start begins a drive. It requires mu.
func (d *Drives) start(id string, r *Loaded) {
	r.yielded = false
	if r.Runner.State().Status.Ended() { // without a drive, by its first fact
		d.trimLoaded(id)
		return
	}
	if r.done != nil {
		return
	}
	d.Activity.add(&d.Activity.working, 1)
	driving, cancel := context.WithCancel(context.Background())
	r.cancel, r.done, r.stopped = cancel, make(chan struct{}), nil
	d.group.Go(func() {
		defer d.Activity.add(&d.Activity.working, -1)
		defer cancel()
		for {
			stop, err := r.Runner.Run(driving)
			d.Sessions.Rest(context.Background(), r.Runner.State().Sprite)
			if err == nil {
				err = d.rejectSuperseded(driving, r.Runner, stop.Waits)
			}
			if d.finishRun(id, r, stop, err) {
				return
			}
		}
	})
	d.Watchers.Notify(id)
}

// rejectSuperseded answers the waits for actions that a newer request rejected, so that their skills go on.
func (d *Drives) rejectSuperseded(ctx context.Context, r *driver.Runner, waits []lattice.Wait) error {
	for _, w := range waits {
		if w.Action == nil {
			continue
		}
		old, err := d.Superseded(*w.Action)
		if err == nil && old {
			err = r.Decide(ctx, lattice.Answered{WaitID: w.ID, Decision: lattice.Reject, By: "lattice", Comments: "superseded: the run asks for a newer push to the same branch"})
		}
		if err != nil && !errors.Is(err, engine.ErrStale) {
			return err
		}
	}
	return nil
}

// finishRun ends a drive, unless a decision arrived when the runner had just come to rest. It arranges that a wait with a timer
// is driven again when the timer is due.
func (d *Drives) finishRun(id string, r *Loaded, stop driver.Stop, err error) bool {
	d.mu.Lock()
	put := errors.Is(err, driver.ErrYielded)
	if put && d.yielding == nil && !d.closing || err == nil && !d.closing && r.Runner.State().Status == lattice.Running {
		d.mu.Unlock()
		return false
	}
	if put {
		err, r.yielded = nil, true
	}
	close(r.done)
	r.done, r.stopped = nil, err
	again := err == nil && !put && !stop.Due.IsZero() && !d.closing
	if again {
		r.timed++ // before the watchers look
		d.Activity.add(&d.Activity.timed, 1)
	}
	var changed <-chan struct{}
	d.Watchers.Notify(id)
	if again {
		changed = d.Watchers.Wait(id)
	}
	d.mu.Unlock()
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Warn().Str("run", id).Err(err).Msg("driving stopped")
	}
	if again {
		d.driveLater(id, r, stop.Left, changed)
	}
	if err == nil && !put && stop.Status.Ended() {
		d.Forget(id)
		d.Ended(id, r.Runner, stop.Status)
	}
	return true
}

// driveLater drives a waiting run when its timer is due, unless the run changes before or the leader ends.
func (d *Drives) driveLater(id string, r *Loaded, left time.Duration, changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	d.group.Go(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	d.group.Go(func() {
		defer d.forgetTimer(r)
		defer cancel()
		if bootSleep(ctx, left) != nil {
			return
		}
		if err := d.Drive(context.Background(), id); err != nil && !errors.Is(err, errClosing) {
			d.log.Warn().Str("run", id).Err(err).Msg("drive after timer")
		}
	})
}

// forgetTimer ends the count of a wait with a timer.
func (d *Drives) forgetTimer(r *Loaded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.timed--
	d.Activity.add(&d.Activity.timed, -1)
}

// Detach marks a run, if yes, to continue without a client that follows it, in this process and in the next leader.
func (d *Drives) Detach(id string, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil && yes {
		r.detached = true
	}
}

// ClosingNow reports whether err says that this leader is ending.
func ClosingNow(err error) bool { return errors.Is(err, errClosing) }

// errClosing answers requests that arrive while the leader ends; another process may lead soon.
var errClosing = fault.Busy(api.CodeLeaderEnding, "the leading lattice is ending").WithHint("try again")

// AwaitIdle fails if the run is driven. It waits for the drive of a run that has just ended.
func (d *Drives) AwaitIdle(ctx context.Context, id string) error {
	d.mu.Lock()
	r := d.loaded[id]
	var ending chan struct{}
	busy := r != nil && (r.done != nil || r.yielded)
	if busy && r.Runner.State().Status.Ended() {
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
