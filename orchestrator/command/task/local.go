package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/checkout"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// localWork is a command that this process runs in a worktree.
type localWork struct {
	record board.ProcessRecord
	lease  *board.Lease
	cancel context.CancelFunc
	ended  chan struct{} // closed when report and err are set
	report string
	err    error
}

// startLocal records that a worker starts in a worktree of this machine, and starts its command.
func (d *dispatcher) startLocal(ctx context.Context, w worker.Definition, q worker.Request, due func(*board.Task, []board.Event) bool) (t *board.Task, r board.ProcessRecord, err error) {
	trusted, err := board.IsTrusted(d.env.Home, w.TrustDigest())
	if err != nil {
		return t, r, err
	}
	if !trusted {
		return t, r, fault.Denied("worker_not_trusted", "the command of %s runs on this machine without a sandbox, and you have not trusted it", w.Worker.Name).WithHint("read %s, then: lattice task trust", w.File)
	}
	lease, err := d.board.Lease(checkout.LeaseName(q.ID))
	if err != nil {
		return t, r, err
	}
	t, events, err := d.recordStart(ctx, w, q, due)
	if err != nil || len(events) == 0 {
		return t, r, errors.Join(err, lease.End())
	}
	r = board.Processes(events)[0]
	work := &localWork{record: r, lease: lease, cancel: func() {}, ended: make(chan struct{})}
	d.mu.Lock()
	d.local[r.EventID] = work
	d.mu.Unlock()
	job, err := d.prepareJob(ctx, w, t, r)
	if err == nil {
		err = d.runHooks(ctx, d.board, events)
	}
	if err != nil {
		work.err = err
		close(work.ended)
		return t, r, nil // it is settled as a failure
	}
	ctx, work.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(work.ended)
		work.report, work.err = checkout.Run(ctx, job)
	}()
	return t, r, nil
}

// nameFolder returns the folder of the worktree for a request.
func (d *dispatcher) nameFolder(t *board.Task, q worker.Request, commit string) string {
	return checkout.FolderOf(d.env.Home, fmt.Sprintf("%s%s-%s-%s", checkout.Prefix, filepath.Base(t.Name()), commit[:min(len(commit), 8)], q.ID[max(len(q.ID)-8, 0):]))
}

// prepareJob returns the command of a process, with its prompt.
func (d *dispatcher) prepareJob(ctx context.Context, w worker.Definition, t *board.Task, r board.ProcessRecord) (j checkout.Job, err error) {
	base, err := d.findBase(ctx, r.Commit)
	if err != nil {
		return j, err
	}
	prompt, err := d.writePrompt(ctx, w, t, base, r)
	if err != nil {
		return j, err
	}
	root, err := filepath.Abs(d.board.Root)
	if err != nil {
		return j, err
	}
	worker.AppendLog(d.board, r, "%s starts on %s at %s in %s", w.Worker.Name, t.Name(), r.Commit, r.Worktree)
	return checkout.Job{
		Repository: root, Folder: r.Worktree, Commit: r.Commit, Command: w.Execution.Command, Input: fmt.Sprintf("%s\n\ngit diff %s...%s shows the change.\n", prompt, base, r.Commit),
		Environ: d.env.Environ, Event: r.EventID, Timeout: time.Duration(r.TimeoutMinutes) * time.Minute, Log: processLog{d.board, r.EventID},
		Writable:  w.WritablePaths(r.Worktree, d.env.Getenv("HOME")),
		Variables: []string{"LATTICE_ROOT=" + root, "LATTICE_TASK_ID=" + r.TaskID, "LATTICE_COMMIT_SHA=" + r.Commit, "LATTICE_WORKTREE=" + r.Worktree},
	}, nil
}

// settleLocal records the end of a process in a worktree if it has ended. One whose dispatcher died is cleaned up. own says that this
// dispatcher started it.
func (d *dispatcher) settleLocal(ctx context.Context, r board.ProcessRecord) (ended, own bool, err error) {
	d.mu.Lock()
	work := d.local[r.EventID]
	d.mu.Unlock()
	if work == nil {
		ended, err = checkout.Recover(ctx, d.board, d.env.Home, r, func(reason string) error { return d.failProcess(ctx, r, reason) })
		return ended, false, err
	}
	select {
	case <-work.ended:
	default:
		return false, true, nil
	}
	d.mu.Lock()
	delete(d.local, r.EventID)
	d.mu.Unlock()
	if err = work.err; err != nil {
		err = d.failProcess(ctx, r, err.Error())
	} else {
		outputs, _ := json.Marshal(map[string]string{"report": work.report})
		err = d.completeProcess(ctx, r, outputs, time.Now())
	}
	if err != nil {
		return false, true, errors.Join(err, work.lease.Leave()) // others find it lost
	}
	return true, true, work.lease.End()
}

// endLocal ends the commands that run in worktrees, and records that they failed.
func (d *dispatcher) endLocal(ctx context.Context) (err error) {
	for _, work := range d.local {
		work.cancel()
	}
	for _, work := range d.local {
		<-work.ended
		_, _, failed := d.settleLocal(context.WithoutCancel(ctx), work.record)
		err = errors.Join(err, failed)
	}
	return err
}

// processLog is the log of a process.
type processLog struct {
	board *board.Board
	event string
}

func (l processLog) Write(p []byte) (int, error) {
	return len(p), l.board.AppendLog(l.event, bytes.NewReader(p))
}
