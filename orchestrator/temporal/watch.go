package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/store"
)

// watchWorkflows has runs and workflows agree, at once and again after each pause: a run that has not ended has a workflow, and a
// workflow has such a run. They differ after a person has terminated a workflow, and after a leader died before its last signal.
func (e *Engine) watchWorkflows(ctx context.Context, runs leaderRuns) {
	pause := e.o.Watch
	if pause == 0 {
		pause = HeartbeatTimeout
	}
	var cleaned time.Time
	for ctx.Err() == nil {
		begun := time.Now()
		if err := e.compareWorkflows(ctx, runs); err != nil && ctx.Err() == nil {
			e.o.Log.Warn().Err(err).Msg("compare runs with workflows")
		}
		if begun.Sub(cleaned) > fresh {
			cleaned = begun
			if _, err := e.removeBlobs(ctx, begun); err != nil && ctx.Err() == nil {
				e.o.Log.Warn().Err(err).Msg("remove old blobs")
			}
		}
		select {
		case <-time.After(max(pause, 100*time.Since(begun))): // whatever their number, it takes a hundredth of the time
		case <-ctx.Done():
		}
	}
}

func (e *Engine) compareWorkflows(ctx context.Context, runs leaderRuns) error {
	running, err := e.listWorkflows(ctx, fmt.Sprintf("WorkflowType = %q AND TaskQueue = %q AND ExecutionStatus = \"Running\"", WorkflowName, e.o.Queue))
	if err != nil {
		return err
	}
	open, err := runs.ListOpen() // behind the workflows, so that their runs are there
	if err != nil {
		return err
	}
	waits := map[string]bool{} // runs without a workflow
	for _, run := range open {
		waits[run] = true
	}
	for _, w := range running {
		run := w.Execution.WorkflowId
		switch {
		case e.isForeign(w.Memo, w.TaskQueue):
			err = errors.Join(err, e.endForeign(ctx, run))
		case !waits[run]:
			err = errors.Join(err, e.closeWorkflow(ctx, runs, run))
		default:
			delete(waits, run)
		}
	}
	for _, run := range open {
		if waits[run] {
			err = errors.Join(err, e.openWorkflow(ctx, runs, run))
		}
	}
	return err
}

// listWorkflows returns the workflows that match a query, as far as the server's list knows, which is a little late.
func (e *Engine) listWorkflows(ctx context.Context, query string) (all []*workflow.WorkflowExecutionInfo, err error) {
	q := workflowservice.ListWorkflowExecutionsRequest{Namespace: e.o.Namespace, Query: query}
	for {
		page, err := e.client.ListWorkflow(ctx, &q)
		if err != nil {
			return nil, fmt.Errorf("list the workflows: %w", err)
		}
		all = append(all, page.Executions...)
		if q.NextPageToken = page.NextPageToken; len(q.NextPageToken) == 0 {
			return all, nil
		}
	}
}

// closeWorkflow ends the workflow of a run that has ended: it is told of the last facts. That of a run that is not in the store is terminated.
func (e *Engine) closeWorkflow(ctx context.Context, runs leaderRuns, run string) error {
	facts, err := runs.ReadFacts(run, 0)
	if errors.Is(err, store.ErrNotFound) {
		return e.terminate(ctx, run, "its run is not in the store")
	}
	if err != nil {
		return err
	}
	return e.send(ctx, driver.Moved{Run: run, From: len(facts), Ended: true})
}

// openWorkflow begins the workflow of a run that has none. One that failed stays as it is until the next drive.
func (e *Engine) openWorkflow(ctx context.Context, runs leaderRuns, run string) error {
	d, err := e.client.DescribeWorkflow(ctx, run, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); !gone {
		if err != nil || d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return err
		}
		if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED && !e.isForeign(d.Memo, d.TaskQueueName) {
			return nil
		}
	}
	return e.send(ctx, driver.Moved{Run: run, Begins: runs.FindDrive(run)})
}

// removeBlobs removes the blobs that no history names. A blob is written again whenever a payload names it a day later, so a workflow that began
// later than two days after the last time does not name it; the second day is for clocks and the lateness of the server's list. The
// server's list has the workflows that ended for as long as it keeps their histories.
func (e *Engine) removeBlobs(ctx context.Context, now time.Time) (removed int, err error) {
	known, err := e.listWorkflows(ctx, fmt.Sprintf("WorkflowType = %q", WorkflowName))
	if err != nil {
		return 0, err
	}
	oldest := now
	for _, w := range known {
		if t := w.StartTime.AsTime(); t.Before(oldest) {
			oldest = t
		}
	}
	return e.o.Blobs.RemoveBefore(ctx, oldest.Add(-2*fresh))
}
