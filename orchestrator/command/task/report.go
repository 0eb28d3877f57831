package task

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
)

// completeProcess writes the report of a run into the repository, attaches it, and makes the changes of the task that the run proposes
// if its worker may.
func (d *dispatcher) completeProcess(ctx context.Context, r board.ProcessRecord, outputs json.RawMessage, ended time.Time) error {
	i := slices.IndexFunc(d.workers, func(w worker.Definition) bool { return w.Worker.Name == r.Type })
	if i < 0 {
		return d.failProcess(ctx, r, "its definition is gone")
	}
	w := d.workers[i]
	t, err := d.board.Resolve(r.TaskID)
	if err != nil {
		return err
	}
	if w.Execution.Merge {
		if err := d.landMerge(ctx, r.Commit); err != nil {
			return d.failProcess(ctx, r, err.Error())
		}
	}
	out := worker.ReadOutputs(outputs)
	data := board.ProcessData{Result: "success"}
	data.Head, _ = d.findCommit(ctx, "HEAD") // "" where it is gone
	var changes []board.Change
	for _, f := range w.Files(t, r, out, ended) {
		if err := d.board.ReplaceFile(f.Path, f.Text); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		artifact := board.ArtifactData{ArtifactID: "art_" + ulid.Make().String(), Role: f.Role, Path: f.Path, Commit: r.Commit}
		if data.ArtifactID == "" {
			data.ArtifactID = artifact.ArtifactID
		}
		changes = append(changes, board.Change{Type: board.ArtifactAttached, Data: artifact})
	}
	if w.Output.Apply {
		proposed, err := d.board.Config.ChangesFor(t, out.Proposal)
		if err != nil {
			return d.failProcess(ctx, r, err.Error())
		}
		changes = append(changes, proposed...)
	}
	return d.endProcess(ctx, r, board.ProcessCompleted, data, changes...)
}
