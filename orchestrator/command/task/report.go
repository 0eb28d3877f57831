package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/worker"
)

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
	// The name holds the time of the start: two dispatchers that settle at once write one report.
	name := path.Join(w.Output.ReportDir, fmt.Sprintf("%s-%s-%s-%s", w.Output.ReportPrefix, nameOf(t), lastWord(w.Worker.Name), reportTime(r)))
	out := readOutputs(view)
	if err := d.board.ReplaceFile(name+".md", formatReport(w, t, r, view, out)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	attach := func(role, name string) board.Change {
		return board.Change{Type: board.ArtifactAttached, Data: board.ArtifactData{ArtifactID: "art_" + ulid.Make().String(), Role: role, Path: name, Commit: r.Commit}}
	}
	changes := []board.Change{attach(w.Output.ArtifactRole, name+".md")}
	for _, part := range slices.Sorted(maps.Keys(out.Reviews)) {
		if review := out.Reviews[part]; review.OK {
			file := name + "-" + part + ".md"
			if err := d.board.ReplaceFile(file, []byte(strings.TrimSpace(review.Result)+"\n")); err != nil {
				return fmt.Errorf("write the review %s: %w", part, err)
			}
			changes = append(changes, attach(w.Output.ArtifactRole+"-part", file))
		}
	}
	head, _ := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "HEAD") // "" where it is gone
	main := changes[0].Data.(board.ArtifactData).ArtifactID
	return d.endProcess(ctx, r, board.ProcessCompleted, board.ProcessData{Result: "success", ArtifactID: main, Head: head}, changes...)
}

// outputs are the outputs of a worker's flow that reports know.
type outputs struct {
	Report json.RawMessage `json:"report"`
	Tests  struct {
		Status string `json:"status"`
	} `json:"tests"`
	Reviews map[string]review `json:"reviews"` // by name, of a flow with several
}

// review is one of several reviews.
type review struct {
	OK     bool   `json:"ok"`
	Result string `json:"result"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// readOutputs reads the outputs of a run. Those of another shape are shown as they are. Names that are not plain words are dropped,
// since files are called by them.
func readOutputs(view api.RunView) (out outputs) {
	_ = json.Unmarshal(view.Outputs, &out)
	maps.DeleteFunc(out.Reviews, func(name string, _ review) bool {
		return name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != ""
	})
	return out
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
func formatReport(w worker.Definition, t *board.Task, r board.ProcessRecord, view api.RunView, out outputs) []byte {
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
	if len(out.Reviews) > 0 {
		b.WriteString("\n## Reviews\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(out.Reviews)) {
		state := "attached"
		if review := out.Reviews[name]; !review.OK {
			state = "failed: " + cli.CleanLine(review.Error.Message)
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, state)
	}
	return []byte(b.String())
}
