package driver

import (
	"context"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// The runner tells time in three ways, because a wall clock can be set and a machine can sleep:
//
//	Deps.Now    the wall clock, for people. It stamps entries; nothing is ordered by it, and At may go back.
//	Deps.Awake  runs on while the machine is awake. A run's limits.timeout_s counts it, while the run is driven and does
//	            not wait: sleep, people and times without a leader are free. Deps.After waits by it.
//	Deps.Boot   runs on in sleep, too. Timers (retry delays, timeout_s of HUMAN, seconds of WAIT) count it. Deps.Sleep
//	            waits by it. Only a WAIT for an instant goes by the wall clock.
//
// So setting the wall clock neither ends a timer early nor keeps it from its end, and a timer that became due in sleep
// goes off on wake. A runner that loads a pending timer from the journal has only the wall clock to tell how old that
// is: a timer that became due without a leader fires at once, a clock set back costs at most the whole delay again,
// and one set forward is believed. No duration is ever negative.

// withClocks derives missing clocks from Now and After. They are exact with time.Now, except that sleep is not noticed.
func (d Deps) withClocks() Deps {
	start := d.Now()
	elapsed := func() time.Duration { return d.Now().Sub(start) }
	if d.Awake == nil {
		d.Awake = elapsed
	}
	if d.Boot == nil {
		d.Boot = elapsed
	}
	if d.Sleep == nil {
		after := d.After
		d.Sleep = func(ctx context.Context, left time.Duration) error {
			select {
			case <-after(left):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return d
}

// issue tells when a pending command was issued.
type issue struct {
	at   time.Time     // on the wall clock
	boot time.Duration // the same on Boot; before its zero for a command that an earlier process issued
	sent bool          // it may have been performed before
}

// timeLeft is how long a timer still has. One that goes off at an instant asks the wall clock, every hour again, since that
// may be set in between.
func (i issue) timeLeft(c lattice.Command, d Deps) time.Duration {
	if at, err := time.Parse(time.RFC3339Nano, c.Until); err == nil {
		return min(at.Sub(d.Now()), time.Hour)
	}
	return min(durationOf(c.DelayS), durationOf(c.DelayS)-(d.Boot()-i.boot))
}

// dueAt is when that is on the wall clock.
func (i issue) dueAt(c lattice.Command) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, c.Until); err == nil {
		return at
	}
	return i.at.Add(durationOf(c.DelayS))
}

// findDue returns when the pending timers go off on the wall clock, by the ids of their commands. A drive without a Scheduler
// asks for each when it comes to rest.
func (r *Runner) findDue() map[string]time.Time {
	if r.deps.Scheduler == nil {
		return nil
	}
	due := map[string]time.Time{}
	for _, c := range r.state.Pending {
		if c.Kind == lattice.DoTimer {
			due[c.ID] = r.issued[c.ID].dueAt(c)
		}
	}
	return due
}

// issueEarlier returns the issue of a command that another process issued at a wall clock time.
func issueEarlier(at, now time.Time, boot time.Duration) issue {
	return issue{at: at, boot: boot - max(0, now.Sub(at)), sent: true}
}

func durationOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
