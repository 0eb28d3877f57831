package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxLinked     = 5        // issues that are read because the texts name them
	maxBundleFile = 16 << 10 // bytes of a file, besides the trigger and its thread
)

// File is a file of the context bundle, which the flow writes into the workspace.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// manifest describes a context bundle.
type manifest struct {
	Version         string     `json:"version"`
	TriggerType     string     `json:"trigger_type"` // issue | pull_request
	TriggerNumber   int64      `json:"trigger_number"`
	Repo            string     `json:"repo"`
	Title           string     `json:"title"`
	GatheredAt      time.Time  `json:"gathered_at"` // the time of the command, so that a repeated delivery gathers the same
	Files           []fileKind `json:"files"`
	LinkedItems     []int64    `json:"linked_items"`
	ExpansionBudget struct {
		Used int `json:"used"`
		Max  int `json:"max"`
	} `json:"expansion_budget"`
	Warnings []string `json:"warnings"`
}

type fileKind struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// Bundle returns the files that tell an agent about an issue or a pull request: the trigger, its thread, its reviews and its changed files,
// and the issues that both name outside of code, but not those that these name. Only texts of people with a role are in it, apart from the trigger.
func (g Content) Bundle(ctx context.Context) ([]File, error) {
	m := manifest{Version: "1", TriggerType: "issue", TriggerNumber: g.Number, Repo: g.Repo.String(), Title: g.Title, GatheredAt: g.At.UTC(),
		Files: []fileKind{}, LinkedItems: []int64{}, Warnings: []string{}}
	m.ExpansionBudget.Max = maxLinked
	var files []File
	add := func(path, kind, content string, limit int) {
		files = append(files, File{path, text.Head(content, limit)})
		m.Files = append(m.Files, fileKind{path, kind})
	}
	add("trigger.md", "trigger", "# "+g.Title+"\n\n"+g.Body+"\n", MaxText)
	add("thread.md", "thread", strings.TrimLeft(g.comments, "\n")+"\n", MaxText)
	if g.withheld > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%d comments are left out: their authors have no role here, or they were edited", g.withheld))
	}
	if g.Pull {
		m.TriggerType = "pull_request"
		reviews, err := g.describeReviews(ctx)
		if err != nil {
			return nil, err
		}
		add("reviews.md", "reviews", reviews, MaxText)
		stats, err := g.describeDiff(ctx)
		if err != nil {
			return nil, err
		}
		add("diff_stats.md", "diff_stats", stats, maxBundleFile)
	}
	for _, number := range comment.References(g.Body + g.comments) {
		if number == g.Number {
			continue
		}
		if len(m.LinkedItems) == maxLinked {
			m.Warnings = append(m.Warnings, fmt.Sprintf("more than %d issues are named; the others were not read", maxLinked))
			break
		}
		m.LinkedItems = append(m.LinkedItems, number)
		issue, err := g.Client.Issue(ctx, g.Repo, number)
		if forge.IsNotFound(err) {
			m.Warnings = append(m.Warnings, fmt.Sprintf("there is no issue %d", number))
			continue
		}
		trusted := false
		if err == nil {
			trusted, err = g.isTrusted(ctx, issue.Author)
		}
		if err != nil {
			return nil, err
		}
		if !trusted {
			m.Warnings = append(m.Warnings, fmt.Sprintf("issue %d is left out: its author has no role here", number))
			continue
		}
		add(fmt.Sprintf("linked/issue_%d.md", number), "linked_issue", "# "+text.Line(issue.Title)+"\n\n"+shownText(issue.Body)+"\n", maxBundleFile)
	}
	m.ExpansionBudget.Used = len(m.LinkedItems)
	raw, err := json.MarshalIndent(m, "", "  ")
	return append([]File{{"manifest.json", string(raw) + "\n"}}, files...), err
}

// describeDiff returns the files that a pull request changes, with the numbers of their lines.
func (g Content) describeDiff(ctx context.Context) (string, error) {
	files, err := g.Client.Files(ctx, g.Repo, g.Number)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	added, deleted := 0, 0
	for _, f := range files {
		added, deleted = added+f.Additions, deleted+f.Deletions
		fmt.Fprintf(&b, "| %s | %s | +%d | -%d |\n", strings.ReplaceAll(text.Line(f.Path), "|", "¦"), text.Line(f.Status), f.Additions, f.Deletions)
	}
	return fmt.Sprintf("%d files changed, %d lines added, %d lines deleted\n\n| file | status | added | deleted |\n|---|---|---|---|\n%s", len(files), added, deleted, b.String()), nil
}

// describeReviews returns the reviews of a pull request with their comments, by people with a role.
func (g Content) describeReviews(ctx context.Context) (string, error) {
	all, err := g.Client.Reviews(ctx, g.Repo, g.Number)
	if err != nil {
		return "", err
	}
	lines, err := g.Client.ReviewComments(ctx, g.Repo, g.Number)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range all {
		trusted, err := g.isTrusted(ctx, r.Author)
		if err != nil {
			return "", err
		}
		if !trusted {
			continue
		}
		fmt.Fprintf(&b, "%s reviewed (%s):\n\n%s\n\n", text.Line(r.Author.Login), r.State, shownText(r.Body))
		for _, c := range lines {
			if c.ReviewID == r.ID && c.Author.ID == r.Author.ID && !c.Edited() {
				fmt.Fprintf(&b, "%s:%d: %s\n\n", text.Line(c.Path), c.Line, shownText(c.Body))
			}
		}
	}
	return b.String(), nil
}
