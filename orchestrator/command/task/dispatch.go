package task

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxPrompt bounds a prompt file, in bytes: a prompt is one argument of a program.
const maxPrompt = 64 << 10

// The time between two looks at the runs of active workers: the first after a worker has started or ended, and the longest.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// sideBySide bounds the workers that start or end at once: their events share the commits of the board.
const sideBySide = 32

// commitsAge is how long the id of a commit that a revision names is kept between two scans of the board.
const commitsAge = time.Second

// watchBoard scans the board at an interval and starts requests whenever a worker has ended. With once it starts what is due at the
// first scan, and ends when nothing runs or waits.
func (d *dispatcher) watchBoard(ctx context.Context, jobs int, every time.Duration, once bool) error {
	for first := true; ; first = false {
		began := time.Now()
		if err := d.scanBoard(ctx, jobs, first || !once); err != nil {
			return err
		}
		look := firstPause
		next := time.Now().Add(max(every, 10*time.Since(began))) // a large board is not read all the time
		for time.Now().Before(next) {
			if time.Since(d.forgotAt) > commitsAge {
				d.forgetCommits()
			}
			waiting := len(d.pending)
			if err := d.startPending(ctx, jobs); err != nil {
				return err
			}
			if len(d.pending) < waiting {
				look = firstPause
			}
			pause := time.Until(next)
			if len(d.active) > 0 {
				pause = look
			} else if once && len(d.pending) == 0 {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			running := len(d.active)
			if err := d.settleActive(ctx); err != nil {
				return err
			}
			if look = min(2*look, lastPause); len(d.active) < running {
				look = firstPause
			}
		}
	}
}

// forgetCommits has the ids of commits asked for again: a request was seen since, and its commit may be newer.
func (d *dispatcher) forgetCommits() { d.commits, d.forgotAt = map[string]string{}, time.Now() }

// scanBoard reads the board and the queue: it settles the workers that have ended, and finds those that run and the requests that
// wait. With start it also starts the workers that are due, while fewer than jobs run.
func (d *dispatcher) scanBoard(ctx context.Context, jobs int, start bool) error {
	d.forgetCommits()
	tasks, past, err := d.board.TasksKnowing()
	if err != nil {
		return err
	}
	requests, problems, err := d.queue.List()
	if err != nil {
		return err
	}
	for _, problem := range problems {
		d.warnOnce(problem + "; it is skipped")
	}
	if err := d.queue.RemoveEnded(requests, time.Now()); err != nil {
		return err
	}
	byRequest := map[string]board.ProcessRecord{}
	d.active, d.pending, d.claimed = nil, nil, map[string]bool{}
	for _, t := range tasks {
		for _, r := range board.Processes(past[t.ID]) {
			if r.RequestID != "" {
				byRequest[r.RequestID] = r
			}
			if r.EndedAt == "" {
				d.active = append(d.active, r)
			}
		}
	}
	for _, q := range requests {
		if err := d.followRequest(ctx, q, byRequest); err != nil {
			return err
		}
	}
	running := len(d.active)
	if err := d.settleActive(ctx); err != nil || !start {
		return err
	}
	if len(d.active) < running {
		if tasks, past, err = d.board.TasksKnowing(); err != nil {
			return err
		}
	}
	return d.startDue(ctx, jobs, tasks, past)
}

// warnOnce reports a problem that every scan finds.
func (d *dispatcher) warnOnce(problem string) {
	d.mu.Lock()
	known := d.warned[problem]
	d.warned[problem] = true
	d.mu.Unlock()
	if !known {
		d.board.Warn(problem)
	}
}

// followRequest brings a request to the last status of its process, which a dispatcher that was killed did not do. A request without a
// process is pending.
func (d *dispatcher) followRequest(ctx context.Context, q worker.Request, started map[string]board.ProcessRecord) error {
	r, ok := started[q.ID]
	switch {
	case q.Ended():
		return nil
	case !ok:
		d.pending = append(d.pending, q)
		return nil
	case r.EndedAt == "":
		return nil
	case r.Result == "failed":
		return d.queue.End(ctx, worker.Request{ID: q.ID, RunID: r.RunID, Status: worker.Failed, Error: r.Error}, time.Now())
	}
	return d.queue.End(ctx, worker.Request{ID: q.ID, RunID: r.RunID, Status: worker.Completed}, time.Now())
}

// settleActive settles the active workers, and forgets those that have ended. The requests of the others are claimed.
func (d *dispatcher) settleActive(ctx context.Context) error {
	ended := make([]bool, len(d.active))
	var all errgroup.Group
	all.SetLimit(sideBySide)
	for i, r := range d.active {
		claimed := d.claimed[r.RequestID]
		all.Go(func() (err error) {
			if ended[i], err = d.settleProcess(ctx, r); err != nil || ended[i] || claimed {
				return err
			}
			return d.queue.Claim(ctx, r.RequestID, r.RunID)
		})
	}
	err := all.Wait()
	var still []board.ProcessRecord
	for i, r := range d.active {
		if !ended[i] {
			still = append(still, r)
			d.claimed[r.RequestID] = err == nil
		}
	}
	d.active = still
	return err
}

// startDue starts the workers that are due on tasks, of which past has the events, while fewer than jobs run.
func (d *dispatcher) startDue(ctx context.Context, jobs int, tasks []*board.Task, past map[string][]board.Event) error {
	for _, t := range tasks {
		for _, w := range d.workers {
			if len(d.active) >= jobs {
				return nil
			}
			due, err := d.findTrigger(ctx, w, t)
			if err != nil {
				return err
			}
			if due == nil || !due(t, past[t.ID]) { // judged again under the lock of the board
				continue
			}
			q := worker.NewRequest(w.Worker.Name, t.ID, "", t.LastEventID, time.Now())
			if err := d.startRequest(ctx, w, q, due); err != nil {
				return err
			}
		}
	}
	return nil
}

// startPending starts requests of the queue, the oldest first, while fewer than jobs run. A merge waits until the one before it has
// ended, and others go on.
func (d *dispatcher) startPending(ctx context.Context, jobs int) error {
	var all errgroup.Group
	all.SetLimit(sideBySide)
	merging := map[string]bool{}
	for _, r := range d.active {
		merging[r.Type] = true
	}
	seen := 0
	var later []worker.Request
	for room := jobs - len(d.active); room > 0 && seen < len(d.pending); seen++ {
		q := d.pending[seen]
		w, err := worker.Find(d.workers, q.Worker)
		switch {
		case err != nil:
			all.Go(func() error { return d.failRequest(ctx, q, err) })
		case w.Execution.Merge && merging[w.Worker.Name]:
			later = append(later, q)
		default:
			room--
			merging[w.Worker.Name] = true
			all.Go(func() error { return d.startRequest(ctx, w, q, nil) })
		}
	}
	seen -= copy(d.pending[seen-len(later):], later)
	d.pending = d.pending[seen:]
	return all.Wait()
}

// startRequest starts the worker of a request, if a condition holds for its task; nil always holds. A worker that does not start is
// reported, and the others go on.
func (d *dispatcher) startRequest(ctx context.Context, w worker.Definition, q worker.Request, due func(*board.Task, []board.Event) bool) error {
	t, r, err := d.startWorker(ctx, w, q, due)
	switch refused := fault.As(err); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && r.EventID == "": // it is not due, or another dispatcher has started it
		return nil
	case err == nil:
		d.mu.Lock()
		d.active = append(d.active, r)
		d.mu.Unlock()
		fmt.Fprintf(d.env.Err, "lattice: %s works on %s at %s in %s\n", w.Worker.Name, t.Name(), cutCommit(r.Commit), cmp.Or(r.RunID, r.Worktree))
		return nil
	case refused != nil && refused.Retryable:
		d.warnOnce(fmt.Sprintf("%s does not start on %s yet: %v", w.Worker.Name, nameOf(d.board, q.TaskID), err))
		return nil
	}
	d.board.Warn(fmt.Sprintf("%s does not start on %s: %v", w.Worker.Name, nameOf(d.board, q.TaskID), err))
	if r.EventID != "" {
		return d.failProcess(ctx, r, err.Error())
	}
	return d.failRequest(ctx, q, err)
}

// failRequest ends a request without a process.
func (d *dispatcher) failRequest(ctx context.Context, q worker.Request, err error) error {
	return d.queue.End(ctx, worker.Request{ID: q.ID, Status: worker.Failed, Error: err.Error()}, time.Now())
}

// nameOf returns the short id of a task.
func nameOf(b *board.Board, id string) string {
	if t, err := b.Task(id); err == nil {
		return t.Name()
	}
	return id
}
