package drive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/spritekit/fault"
)

// yieldRuns asks every runner to stop at the end of its current command, and keeps new drives waiting until resume. It returns
// the runs that the next leader has to drive.
func (d *Drives) yieldRuns() ([]api.HandedRun, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closing:
		return nil, errClosing
	case d.yielding != nil:
		return nil, fault.Busy("handing_over", "another lattice is taking the lead already").WithHint("try again")
	}
	d.yielding = make(chan struct{})
	left := d.collectUnfollowed()
	for _, r := range d.loaded {
		if r.done != nil {
			r.Runner.Yield()
		}
	}
	return left, nil
}

// resume ends the state that yield began. If closed, the process drives nothing after it; else every run continues.
func (d *Drives) resume(closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.yielding)
	d.yielding = nil
	if closed {
		d.closing = true
		d.Watchers.notifyAll()
		return
	}
	for id, r := range d.loaded {
		if r.yielded && !d.closing {
			d.start(id, r)
		}
	}
}

// closeIf closes the leader to new work if no handover is being tried and idle holds.
func (d *Drives) closeIf(idle func() bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.yielding != nil || !idle() {
		return false
	}
	d.closing = true
	return true
}

// Stop ends the drive of a run; done is closed when it has ended, nil when there is none.
func (d *Drives) Stop(id string) (done <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil && r.done != nil {
		r.cancel()
		return r.done
	}
	return nil
}

// StopAll ends every drive and waits for them. No run is loaded or driven after it.
func (d *Drives) StopAll() {
	d.mu.Lock()
	d.closing = true
	for _, r := range d.loaded {
		if r.done != nil {
			r.cancel()
		}
	}
	d.Watchers.notifyAll()
	d.mu.Unlock()
	d.group.Wait()
}

// listUnfollowed returns the runs that the next leader has to drive because no client follows them.
func (d *Drives) listUnfollowed() []api.HandedRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.collectUnfollowed()
}

// collectUnfollowed implements listUnfollowed. It requires mu.
func (d *Drives) collectUnfollowed() []api.HandedRun {
	var left []api.HandedRun
	for id, r := range d.loaded {
		if (r.done != nil || r.timed > 0) && (d.serving || r.detached) {
			left = append(left, api.HandedRun{RunID: id, Values: d.Values.exportRun(id)})
		}
	}
	slices.SortFunc(left, func(a, b api.HandedRun) int { return strings.Compare(a.RunID, b.RunID) })
	return left
}

// describeWork names the driven runs and where they are.
func (d *Drives) describeWork() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var runs []string
	for id, r := range d.loaded {
		if r.done != nil {
			runs = append(runs, fmt.Sprintf("%s is at %s", id, r.Runner.State().Node))
		}
	}
	if len(runs) == 0 {
		return "a request uses a sprite"
	}
	slices.Sort(runs)
	return strings.Join(runs, ", ")
}

// AwaitHandover waits while a handover is being tried. It fails if the leader is ending.
func (d *Drives) AwaitHandover(ctx context.Context) error {
	for {
		d.mu.Lock()
		closing, yielding := d.closing, d.yielding
		d.mu.Unlock()
		switch {
		case closing:
			return errClosing
		case yielding == nil:
			return nil
		}
		select {
		case <-yielding:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
