package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
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
		return true, d.completeProcess(ctx, r, view)
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
	return d.runHooks(ctx, d.board, events)
}

func (d *dispatcher) failProcess(ctx context.Context, r board.ProcessRecord, reason string) error {
	return d.endProcess(ctx, r, board.ProcessFailed, board.ProcessData{Error: reason})
}

// completeProcess writes the report of a run into the repository and attaches it.
func (d *dispatcher) completeProcess(ctx context.Context, r board.ProcessRecord, view api.RunView) error {
	i := slices.IndexFunc(d.workers, func(w worker.Definition) bool { return w.Worker.Name == r.Type })
	if i < 0 {
		return d.failProcess(ctx, r, "its definition is gone")
	}
	w := d.workers[i]
	t, err := d.board.Resolve(r.TaskID)
	if err != nil {
		return err
	}
	// The name holds the id of the start: two dispatchers that settle at once write one report.
	name := path.Join(w.Output.ReportDir, fmt.Sprintf("%s-%s-%s-%s.md", w.Output.ReportPrefix, nameOf(t), lastWord(w.Worker.Name), reportTime(r)))
	if err := d.board.ReplaceFile(name, formatReport(w, t, r, view)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	head, _ := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "HEAD") // "" where it is gone
	artifact := "art_" + ulid.Make().String()
	return d.endProcess(ctx, r, board.ProcessCompleted, board.ProcessData{Result: "success", ArtifactID: artifact, Head: head},
		board.Change{Type: board.ArtifactAttached, Data: board.ArtifactData{ArtifactID: artifact, Role: w.Output.ArtifactRole, Path: name, Commit: r.Commit}})
}

// reportTime is when the worker started, for the name of a file.
func reportTime(r board.ProcessRecord) string {
	at, _ := time.Parse(time.RFC3339, r.StartedAt)
	return at.UTC().Format("20060102T150405.000Z")
}

// lastWord returns the last capitalised word of a name in small letters: lite of CodeReviewLite.
func lastWord(name string) string {
	i := strings.LastIndexFunc(name, unicode.IsUpper)
	return strings.ToLower(name[max(i, 0):])
}

// formatReport returns the report of a run: the text of its output report, or all outputs as JSON.
func formatReport(w worker.Definition, t *board.Task, r board.ProcessRecord, view api.RunView) []byte {
	var out struct {
		Report json.RawMessage `json:"report"`
		Tests  struct {
			Status string `json:"status"`
		} `json:"tests"`
	}
	_ = json.Unmarshal(view.Outputs, &out) // other outputs are shown as they are
	var text string
	if json.Unmarshal(out.Report, &text) != nil {
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, view.Outputs, "", "  ") // they are JSON
		text = "```json\n" + pretty.String() + "\n```"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s of %s at %s\n\n%s\n\nRun %s by %s, from %s to %s.", w.Worker.Name, nameOf(t), cutCommit(r.Commit), t.Title, r.RunID, r.Actor, r.StartedAt, view.UpdatedAt.UTC().Format(time.RFC3339))
	if out.Tests.Status != "" {
		fmt.Fprintf(&b, " Tests: %s.", out.Tests.Status)
	}
	fmt.Fprintf(&b, "\n\n%s\n", strings.TrimSpace(text))
	return []byte(b.String())
}
