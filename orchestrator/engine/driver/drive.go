package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Run drives the run until it is final, or waits for people with nothing else to do, or ctx ends. It returns ctx's
// error in the last case, and the error of an effect whose outcome could not be found out; in both the run stays
// resumable, and every goroutine of Run has ended when it returns.
func (r *Runner) Run(ctx context.Context) (Stop, error) {
	if !r.running.CompareAndSwap(false, true) {
		return Stop{}, ErrDriven
	}
	defer r.running.Store(false)
	select { // a fact that came without a drive is about to be on disk
	case r.own <- struct{}{}:
		defer func() { <-r.own }()
	case <-ctx.Done():
		return Stop{Status: r.State().Status}, ctx.Err()
	}
	defer func() {
		select {
		case <-r.yield: // it was for this drive
		default:
		}
	}()
	r.driven, r.mark = true, r.deps.Awake()
	defer func() { r.driven = false }()
	putDown := r.announceDrive()

	d := &drive{r: r, mail: make(chan mail, maxBatch), running: map[string]context.CancelFunc{}, ending: map[string]bool{}}
	d.ctx, d.cancel = context.WithCancel(ctx)
	stop, err := d.driveLoop()
	if rest := d.stopEffects(); err == nil {
		err = rest
	}
	putDown(err)
	if err == nil && !stop.Status.Ended() {
		err = ctx.Err() // nil for a run that waits
	}
	return stop, err
}

// drive is one Run: its effects in flight and their reports.
type drive struct {
	r       *Runner
	ctx     context.Context
	cancel  context.CancelFunc
	effects sync.WaitGroup
	mail    chan mail                     // buffered: reports that arrive during a commit are the next batch
	running map[string]context.CancelFunc // by command id
	ending  map[string]bool               // commands that were dropped while they were performed, until they have ended
	yields  bool                          // nothing more is begun

	limit <-chan time.Time // goes off when the run's timeout is used up; nil while it is paused or there is none

	events []lattice.Entry  // observed and not yet stored
	bytes  int              // of their bodies
	flush  <-chan time.Time // goes off when they have waited long enough for company; nil while there are none
}

func (d *drive) driveLoop() (Stop, error) {
	for {
		if d.ctx.Err() != nil {
			return Stop{Status: d.r.state.Status}, nil
		}
		if stop, done, err := d.checkRest(); done || err != nil {
			return stop, err
		}
		select {
		case <-d.r.yield: // before anything more is begun
			d.yields = true
		default:
		}
		if err := d.countRepeats(); err != nil {
			return Stop{Status: d.r.state.Status}, err
		}
		d.startEffects()
		if d.yields && d.onlyTimers() {
			return Stop{Status: d.r.state.Status}, ErrYielded
		}
		d.watchLimit()
		var err error
		select {
		case <-d.r.yield:
			d.yields = true
		case <-d.r.gate.wake: // commands are asked for
		case m := <-d.mail:
			err = d.receiveMail(m)
		case q := <-d.r.decisions:
			if err = d.commitEvents(); err == nil {
				err = d.r.appendFacts(d.ctx, nil, q.fact)
			}
			q.reply <- err
			if !errors.Is(err, ErrBroken) {
				err = nil // the asker's to know, not the run's
			}
		case <-d.limit:
			d.limit = nil
			err = d.commitEvents(lattice.TimerFired{CommandID: machine.RunTimer})
		case <-d.flush:
			err = d.commitEvents()
		case <-d.ctx.Done():
		}
		if err != nil {
			return Stop{Status: d.r.state.Status}, err
		}
	}
}

// checkRest reports whether there is nothing left to drive. Timers of a run that waits need no goroutine: a due one is a
// fact at once, another is the caller's to come back for.
func (d *drive) checkRest() (Stop, bool, error) {
	for {
		s := &d.r.state
		stop := Stop{Status: s.Status, Waits: s.Waits}
		if s.Status.Ended() || s.Status.Blocked() {
			return stop, true, nil
		}
		if s.Status == lattice.Pending {
			return stop, false, errors.New("the run has not begun")
		}
		if s.Status != lattice.Waiting || slices.ContainsFunc(s.Pending, func(c lattice.Command) bool { return c.Kind != lattice.DoTimer }) {
			return stop, false, nil // other iterations may be under way
		}
		id := ""
		for _, c := range s.Pending {
			issued := d.r.issued[c.ID]
			if left := issued.timeLeft(c, d.r.deps); id == "" || left < stop.Left {
				id, stop.Left, stop.Due = c.ID, left, issued.dueAt(c)
			}
		}
		if id != "" && stop.Left > 0 && slices.ContainsFunc(s.Pending, func(c lattice.Command) bool { return d.r.gate.isOpen(c.ID) }) {
			return stop, false, nil // the scheduler asks for a timer, and its outcome is awaited
		}
		if id == "" || stop.Left > 0 {
			return stop, true, nil
		}
		if err := d.r.appendFacts(d.ctx, nil, lattice.TimerFired{CommandID: id}); err != nil {
			return stop, false, err
		}
	}
}

// startEffects cancels effects whose command is not pending any more, and starts those of pending ones. None starts before the
// canceled ones have ended: a
// checkpoint must not see a call that is given up still at work.
func (d *drive) startEffects() {
	for id, cancel := range d.running {
		if _, ok := d.r.state.FindCommand(id); !ok {
			cancel()
			delete(d.running, id)
			d.ending[id] = true
		}
	}
	if len(d.ending) > 0 {
		return
	}
	for _, c := range d.r.state.Pending {
		if d.running[c.ID] != nil || d.yields || !d.r.mayBegin(c) {
			continue
		}
		if back := d.r.state.Recovering; back != nil && back.Command != c.ID {
			continue // not on files that may be torn
		}
		ctx, cancel := context.WithCancel(d.ctx)
		d.running[c.ID] = cancel
		issued := d.r.issued[c.ID]
		e := effect{r: d.r, command: c, issue: issued, at: d.r.seq, mail: d.mail}
		issued.sent = true
		d.r.issued[c.ID] = issued
		d.effects.Go(func() { e.reportOutcome(ctx) })
	}
}

// onlyTimers reports whether nothing but timers is in flight; those go on from where they are when the run is loaded again.
func (d *drive) onlyTimers() bool {
	for id := range d.running {
		if c, ok := d.r.state.FindCommand(id); ok && c.Kind != lattice.DoTimer {
			return false
		}
	}
	return true
}

// watchLimit arms the run's timeout while the run is active. Waiting pauses it, because a run that waits is not driven.
func (d *drive) watchLimit() {
	l := d.r.program.Doc.Limits
	if l == nil || l.TimeoutS <= 0 || d.limit != nil {
		return
	}
	d.limit = d.r.deps.After(durationOf(l.TimeoutS) - d.r.active)
}

// receiveMail takes the report of an effect. An event waits a moment for company, so that a short call is one commit;
// the delay is too short to be noticed.
func (d *drive) receiveMail(m mail) error {
	if m.begun != nil {
		return d.storeBegun(m)
	}
	if m.event == nil {
		return d.takeOutcome(m)
	}
	event, err := d.admitEvent(*m.event)
	if event == nil || err != nil {
		return err
	}
	d.events = append(d.events, *event)
	d.bytes += len(event.Body)
	if len(d.events) == maxBatch || d.bytes >= maxBatchBytes {
		return d.commitEvents()
	}
	if d.flush == nil {
		d.flush = d.r.deps.After(eventPause)
	}
	return nil
}

// storeBegun stores that an action is about to be performed, unless its command was dropped.
func (d *drive) storeBegun(m mail) error {
	if _, ok := d.r.state.FindCommand(m.command); !ok {
		m.begun.stored <- context.Canceled
		return nil
	}
	err := d.commitEvents(m.begun.fact)
	m.begun.stored <- err
	return err
}

const (
	maxBatch      = 256     // events of one append
	maxBatchBytes = 4 << 20 // of their bodies, the last one not counted
	eventPause    = 50 * time.Millisecond
)

// commitEvents commits the observed events with the facts that follow from them.
func (d *drive) commitEvents(facts ...lattice.Fact) error {
	events := d.events
	d.events, d.bytes, d.flush = nil, 0, nil
	if len(events)+len(facts) == 0 {
		return nil
	}
	return d.r.appendFacts(d.ctx, events, facts...)
}

func (d *drive) takeOutcome(m mail) error {
	delete(d.ending, m.command)
	if cancel := d.running[m.command]; cancel != nil {
		cancel()
	}
	facts, err := m.facts, m.err
	if _, ok := d.r.state.FindCommand(m.command); !ok {
		facts, err = nil, nil // dropped in the meantime
	}
	if err == nil && len(facts) > 0 {
		delete(d.running, m.command)
		d.r.outcomeOf = m.command
		defer func() { d.r.outcomeOf = "" }()
	}
	if failed := d.commitEvents(facts...); failed != nil {
		return failed
	}
	return err
}

// stopEffects ends the effects in flight and waits for them. The events that they observed are stored; their outcomes are
// found out by the next driver.
func (d *drive) stopEffects() error {
	d.cancel()
	go func() {
		d.effects.Wait()
		close(d.mail)
	}()
	var unfit error
	for m := range d.mail { // to its end: effects wait for it
		if m.begun != nil {
			m.begun.stored <- context.Canceled
		}
		if m.event == nil {
			continue
		}
		event, err := d.admitEvent(*m.event)
		if event != nil && err == nil {
			d.events = append(d.events, *event)
		}
		unfit = errors.Join(unfit, err)
	}
	if unfit != nil {
		return unfit
	}
	for batch := range slices.Chunk(d.events, maxBatch) {
		if err := d.r.appendFacts(context.Background(), batch); err != nil {
			return err
		}
	}
	return nil
}

// countRepeats journals that questions are about to be asked once more: their answers, if there were any, are lost.
func (d *drive) countRepeats() error {
	if d.yields || len(d.ending) > 0 {
		return nil // nothing is begun now
	}
	for _, c := range slices.Clone(d.r.state.Pending) {
		issued := d.r.issued[c.ID]
		if c.Kind != lattice.DoModel || d.running[c.ID] != nil || !issued.sent || !d.r.mayBegin(c) {
			continue
		}
		issued.sent = false
		d.r.issued[c.ID] = issued
		if err := d.commitEvents(lattice.ModelAskedAgain{CommandID: c.ID, Again: c.Again + 1}); err != nil {
			return err
		}
	}
	return nil
}
