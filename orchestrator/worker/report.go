package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spritekit/lattice/orchestrator/board"
)

// Outputs are the outputs of a worker's flow that are known here. [ReadOutputs] reads them.
type Outputs struct {
	board.Proposal // counts if the definition says apply

	Report  json.RawMessage   `json:"report"`
	Tests   outcome           `json:"tests"`
	Lint    outcome           `json:"lint"`
	Reviews map[string]Review `json:"reviews"` // by name, of a flow with several

	all json.RawMessage
}

// outcome is the outcome of the tests or the linter: passed, failed …
type outcome struct {
	Status string `json:"status"`
}

// Review is one of several reviews.
type Review struct {
	OK     bool   `json:"ok"`
	Result string `json:"result"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// ReadOutputs reads the outputs of a run. Those of another shape are shown as they are. Names of reviews that are not plain words are
// dropped, since files are called by them.
func ReadOutputs(text json.RawMessage) (out Outputs) {
	_ = json.Unmarshal(text, &out)
	maps.DeleteFunc(out.Reviews, func(name string, _ Review) bool {
		return name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != ""
	})
	out.all = text
	return out
}

// File is a file of a report.
type File struct {
	Path, Role string
	Text       []byte
}

// Files returns the report of a process that completed at a time, and behind it each review of its own. Their names hold the time of
// the start: two dispatchers that write the report of a process write the same files.
func (d Definition) Files(t *board.Task, r board.ProcessRecord, out Outputs, ended time.Time) []File {
	if !d.Output.HasReport() {
		return nil
	}
	started, _ := time.Parse(time.RFC3339, r.StartedAt)
	name := path.Join(d.Output.ReportDir, fmt.Sprintf("%s-%s-%s-%s", d.Output.ReportPrefix, t.Name(), lastWord(d.Worker.Name), started.UTC().Format("20060102T150405.000Z")))
	files := []File{{name + ".md", d.Output.ArtifactRole, formatReport(d, t, r, out, ended)}}
	for _, part := range slices.Sorted(maps.Keys(out.Reviews)) {
		if review := out.Reviews[part]; review.OK {
			files = append(files, File{name + "-" + part + ".md", d.Output.ArtifactRole + "-part", []byte(strings.TrimSpace(review.Result) + "\n")})
		}
	}
	return files
}

// lastWord returns the last capitalised word of a name in small letters: lite of CodeReviewLite.
func lastWord(name string) string {
	i := strings.LastIndexFunc(name, unicode.IsUpper)
	return strings.ToLower(name[max(i, 0):])
}

// formatReport returns the report of a run: the text of its output report, or all outputs as JSON.
func formatReport(d Definition, t *board.Task, r board.ProcessRecord, out Outputs, ended time.Time) []byte {
	var text string
	if json.Unmarshal(out.Report, &text) != nil {
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, out.all, "", "  ") // they are JSON
		text = "```json\n" + pretty.String() + "\n```"
	}
	work := "Run " + r.RunID
	if r.RunID == "" {
		work = "A command in a worktree"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s of %s at %s\n\n%s\n\n%s by %s, from %s to %s.", d.Worker.Name, t.Name(), r.Commit[:min(len(r.Commit), 12)], t.Title, work, r.Actor, r.StartedAt, ended.UTC().Format(time.RFC3339))
	if out.Tests.Status != "" {
		fmt.Fprintf(&b, " Tests: %s.", out.Tests.Status)
	}
	if out.Lint.Status != "" {
		fmt.Fprintf(&b, " Linter: %s.", out.Lint.Status)
	}
	fmt.Fprintf(&b, "\n\n%s\n", strings.TrimSpace(text))
	if len(out.Reviews) > 0 {
		b.WriteString("\n## Reviews\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(out.Reviews)) {
		state := "attached"
		if review := out.Reviews[name]; !review.OK {
			state = "failed: " + strings.Join(strings.Fields(review.Error.Message), " ")
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, state)
	}
	return []byte(b.String())
}
