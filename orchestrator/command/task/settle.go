package task

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		return true, d.failProcess(ctx, r, fmt.Sprintf("it was ended after %d minutes", r.TimeoutMinutes))
	case !view.Driving && (view.Status == lattice.Pending || view.Status == lattice.Running): // its leader ended
		_, err = d.leader.Drive(ctx, r.RunID, api.DriveRequest{Detach: true})
	}
	return false, err
}

// endProcess records the end of a process, with the changes that belong to it, and runs the hooks.
func (d *dispatcher) endProcess(ctx context.Context, r board.ProcessRecord, kind string, data board.ProcessData, more ...board.Change) error {
	events, err := worker.RecordEnd(ctx, d.board, r, kind, data, more...)
	if err != nil {
		return err
	}
	if len(events) > 0 && r.RunID != "" {
		if err := d.copyOutput(ctx, r); err != nil {
			d.board.Warn(fmt.Sprintf("copy the output of %s into the log of %s: %v", r.RunID, r.Type, err))
		}
	}
	return d.runHooks(ctx, d.board, events)
}

// maxOutput bounds the output of a run in a log, in bytes.
const maxOutput = 16 << 20

// copyOutput appends the output of a run to the log of its process.
func (d *dispatcher) copyOutput(ctx context.Context, r board.ProcessRecord) error {
	output, err := d.leader.Log(ctx, r.RunID, "", 0)
	if gone := fault.As(err); gone != nil && gone.Code == "run_not_found" {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.board.AppendLog(r.EventID, io.LimitReader(output, maxOutput)), output.Close())
}

func (d *dispatcher) failProcess(ctx context.Context, r board.ProcessRecord, reason string) error {
	return d.endProcess(ctx, r, board.ProcessFailed, board.ProcessData{Error: reason})
}
