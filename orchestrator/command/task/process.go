package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

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
	text := bufio.NewReader(io.LimitReader(output, maxOutput))
	if _, err = text.Peek(1); err == nil {
		err = d.board.AppendLog(r.EventID, text)
	} else if err == io.EOF { // there is none
		err = nil
	}
	return errors.Join(err, output.Close())
}

func (d *dispatcher) failProcess(ctx context.Context, r board.ProcessRecord, reason string) error {
	return d.endProcess(ctx, r, board.ProcessFailed, board.ProcessData{Error: reason})
}
