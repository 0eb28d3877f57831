package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/checkout"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// awaitEnd waits for the end of a worker and records it.
func (d *dispatcher) awaitEnd(ctx context.Context, w worker.Definition, r board.ProcessRecord) (board.ProcessRecord, error) {
	for {
		if _, err := d.settleTask(ctx, r.TaskID); err != nil {
			return r, err
		}
		events, err := d.board.History(r.TaskID)
		if err != nil {
			return r, err
		}
		records := board.Processes(events)
		i := slices.IndexFunc(records, func(other board.ProcessRecord) bool { return other.EventID == r.EventID })
		if i < 0 {
			return r, fmt.Errorf("the start of %s is gone from the board", w.Worker.Name)
		}
		if records[i].EndedAt != "" {
			return records[i], nil
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// settleTask records the ends of a task's workers whose runs have ended, and ends those that are beyond their timeout.
func (d *dispatcher) settleTask(ctx context.Context, id string) (*board.Task, error) {
	events, err := d.board.History(id)
	if err != nil {
		return nil, err
	}
	for _, r := range board.Processes(events) {
		if r.EndedAt != "" {
			continue
		}
		if _, err := d.settleProcess(ctx, r); err != nil {
			return nil, err
		}
	}
	return d.board.Task(id)
}

// settleProcess records the end of a process if it has ended or is beyond its timeout.
func (d *dispatcher) settleProcess(ctx context.Context, r board.ProcessRecord) (ended bool, err error) {
	late := worker.Late(r, time.Now())
	if checkout.IsLocal(r) {
		if ended, own, err := d.settleLocal(ctx, r); ended || err != nil || own {
			return ended, err
		}
	}
	if r.RunID == "" { // another program started it
		if late {
			err = d.failProcess(ctx, r, "it is beyond its timeout, and did not end")
		}
		return late, err
	}
	view, err := d.leader.Run(ctx, r.RunID)
	gone := fault.As(err)
	switch {
	case gone != nil && gone.Code == "run_not_found" && late: // it may belong to another machine, which has its state directory
		return true, d.failProcess(ctx, r, "its run "+r.RunID+" does not exist here")
	case gone != nil && gone.Code == "run_not_found":
		return d.relaunchRun(ctx, r)
	case err != nil:
		return false, err
	case view.Status == lattice.Succeeded:
		return true, d.completeProcess(ctx, r, view.Outputs, view.UpdatedAt)
	case view.Status == lattice.Failed, view.Status == lattice.Canceled:
		reason := "its run was cancelled"
		if view.Error != nil {
			reason = view.Error.Message
		}
		return true, d.failProcess(ctx, r, reason)
	case late:
		if _, err := d.leader.Cancel(ctx, r.RunID, r.Actor); err != nil {
			return false, err
		}
		return true, d.failProcess(ctx, r, fmt.Sprintf("it was ended after %d minutes", worker.TimeoutMinutes(r)))
	case !view.Driving && (view.Status == lattice.Pending || view.Status == lattice.Running): // its leader ended
		_, err = d.leader.Drive(ctx, r.RunID, api.DriveRequest{Detach: true})
	}
	return false, err
}
