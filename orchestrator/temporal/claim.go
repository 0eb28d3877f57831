package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/lead"
)

// A workflow of its own holds each task queue for one store: a worker of another store would be given commands of runs that it does not
// have. Its memo is a claim.
const (
	holderName = "lattice.queue"
	memoClaim  = "claim"
)

// claim says which store a queue belongs to, and the number of the process that led it last.
type claim struct {
	Store string `json:"store"`
	Lead  uint64 `json:"lead"`
}

// holdQueue is the workflow. It ends when it is canceled or terminated, and then another store may have the queue.
func holdQueue(ctx workflow.Context) error {
	ctx.Done().Receive(ctx, nil)
	return ctx.Err()
}

// claimQueue makes the queue that of the store, and begins to number drives. It fails if the queue is that of another store. A store
// that was led more often than it knows has gone back, such as a copy of its file: it gets another id, as one that was restored has, so
// that workflows that know more facts than the journal are begun again.
func (e *Engine) claimQueue(s *store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	led, err := lead.Count(ctx, s)
	if err != nil {
		return fmt.Errorf("number the drives: %w", err)
	}
	holder := holderName + "/" + e.o.Queue
	held, found, err := e.readClaim(ctx, holder)
	if err != nil {
		return drive.Unreachable(e.o.Address, err)
	}
	if found && held.Store == led.Store && held.Lead >= led.Number {
		err = lead.RenewIdentity(ctx, s)
		if err == nil {
			led, err = lead.Count(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("number the drives: %w", err)
		}
	}
	switch {
	case found && held.Store == led.Former:
		e.o.Log.Warn().Msg("the store has gone back to an earlier state: its workflows are begun again")
	case found && held.Store != led.Store:
		return drive.QueueTaken(e.o.Queue, holder)
	}
	conflict := enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	if found {
		conflict = enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	_, err = e.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: holder, TaskQueue: e.o.Queue, Memo: map[string]any{memoClaim: claim{led.Store, led.Number}}, WorkflowIDConflictPolicy: conflict, WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, holderName)
	if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); taken {
		return drive.QueueTaken(e.o.Queue, holder)
	}
	if err != nil {
		return drive.Unreachable(e.o.Address, err)
	}
	e.store = led.Store
	e.drives.Store(int64(led.Number << 32)) // far more than one process begins
	return nil
}

// readClaim returns the claim of the workflow that holds the queue, if it goes on.
func (e *Engine) readClaim(ctx context.Context, holder string) (c claim, found bool, err error) {
	d, err := e.client.DescribeWorkflow(ctx, holder, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return c, false, nil
	}
	if err != nil || d.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return c, false, err
	}
	return c, true, converter.GetDefaultDataConverter().FromPayload(d.Memo.GetFields()[memoClaim], &c)
}
