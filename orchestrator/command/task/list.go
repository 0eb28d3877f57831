package task

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newListCmd(p *place) *cobra.Command {
	var status, label, assigned, kind string
	var all bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the tasks that are open, the oldest first",
		Example: "  lattice task ls --status review\n  lattice task ls --all --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				if status != "" && !slices.Contains(b.Config.Workflow.Statuses, status) {
					return cli.UsageErrorf("--status is %q, not one of %s", status, strings.Join(b.Config.Workflow.Statuses, ", "))
				}
				tasks, err := b.Tasks()
				if err != nil {
					return err
				}
				tasks = slices.DeleteFunc(tasks, func(t *board.Task) bool {
					ended := t.Status == "done" || t.Status == board.Cancelled
					return ended && !all && status == "" || status != "" && t.Status != status || label != "" && !slices.Contains(t.Labels, label) ||
						assigned != "" && t.AssignedTo != assigned || kind != "" && t.Type != kind
				})
				return cli.PrintTable(p.env.Console, tasks, "TASK\tSTATUS\tPRIORITY\tTYPE\tASSIGNED\tRUNNING\tTITLE", func(t *board.Task) []any {
					return []any{t.Name(), t.Status, orDash(t.Priority), orDash(t.Type), orDash(t.AssignedTo), orDash(listRunning(t)), t.Title}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only those in `STATUS`")
	cmd.Flags().StringVar(&label, "label", "", "only those with `LABEL`")
	cmd.Flags().StringVar(&assigned, "assigned", "", "only those assigned to `ACTOR`")
	cmd.Flags().StringVar(&kind, "type", "", "only those of `TYPE`")
	cmd.Flags().BoolVar(&all, "all", false, "also those that are done or cancelled")
	return cmd
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// listRunning names the processes that work on a task.
func listRunning(t *board.Task) string {
	var names []string
	for _, p := range t.Active {
		names = append(names, p.Type)
	}
	return strings.Join(names, ",")
}

func newShowCmd(p *place) *cobra.Command {
	return &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task and its history",
		Example: "  lattice task show LAT-1\n  lattice task show LAT-1 --json | jq .artifacts",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				t, err := b.Resolve(list[0])
				if err != nil {
					return err
				}
				since := p.countSince(cmd.Context(), b.Root, t)
				if p.env.JSON {
					return p.env.PrintJSON(struct {
						*board.Task
						Since map[string]int `json:"commits_since,omitempty"`
					}{t, since})
				}
				events, err := b.History(t.ID)
				if err != nil {
					return err
				}
				return p.printTask(t, events, since)
			})
		},
	}
}

// countSince returns, by the commits that artifacts and processes of a task are about, how many commits HEAD has beyond them. It leaves
// out commits that the repository does not have.
func (p *place) countSince(ctx context.Context, root string, t *board.Task) map[string]int {
	since := map[string]int{}
	count := func(commit string) {
		if _, known := since[commit]; known || strings.Trim(commit, "0123456789abcdef") != "" || commit == "" {
			return
		}
		cmd := exec.CommandContext(ctx, "git", "-C", root, "rev-list", "--count", "--end-of-options", commit+"..HEAD")
		cmd.Env = p.env.Environ
		out, err := cmd.Output()
		if n, bad := strconv.Atoi(strings.TrimSpace(string(out))); err == nil && bad == nil {
			since[commit] = n
		}
	}
	for _, a := range t.Artifacts {
		count(a.Commit)
	}
	for _, r := range t.Active {
		count(r.Commit)
	}
	return since
}

// describeDrift says how many commits followed a commit; "" if none did, or if that is not known.
func describeDrift(commit string, since map[string]int) string {
	switch n := since[commit]; n {
	case 0:
		return ""
	case 1:
		return " (+1 commit since)"
	default:
		return fmt.Sprintf(" (+%d commits since)", n)
	}
}

// printTask shows a task to people. Agents choose most of the text.
func (p *place) printTask(t *board.Task, events []board.Event, since map[string]int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  %s\n", t.Name(), t.Title)
	fmt.Fprintf(&text, "status    %s\n", t.Status)
	for _, line := range [][2]string{{"type", t.Type}, {"priority", t.Priority}, {"labels", strings.Join(t.Labels, ", ")}, {"assigned", t.AssignedTo}, {"id", t.ID}} {
		if line[1] != "" {
			fmt.Fprintf(&text, "%-9s %s\n", line[0], line[1])
		}
	}
	if t.Issue != nil {
		fmt.Fprintf(&text, "issue     %s\n", t.Issue.URL)
	}
	for _, a := range t.Artifacts {
		fmt.Fprintf(&text, "artifact  %s%s%s\n", a.Path, a.URL, describeArtifact(a)+describeDrift(a.Commit, since))
	}
	for _, r := range t.Active {
		fmt.Fprintf(&text, "running   %s since %s on %s%s\n", r.Type, formatTime(r.StartedAt), orDash(r.Commit), describeDrift(r.Commit, since))
	}
	if t.Description != "" {
		fmt.Fprintf(&text, "\n%s\n", strings.TrimRight(t.Description, "\n"))
	}
	fmt.Fprintln(&text, "\nhistory")
	for _, e := range events {
		fmt.Fprintf(&text, "  %s  %s  %s\n", formatTime(e.TS), orDash(e.Actor), cli.CleanLine(describeEvent(e)))
	}
	_, err := fmt.Fprint(cli.Sanitize(p.env.Out), text.String())
	return err
}

func describeArtifact(a board.Artifact) (text string) {
	if a.Role != "" {
		text += "  role " + a.Role
	}
	if a.Commit != "" {
		text += "  at " + a.Commit
	}
	return text
}

// formatTime formats an instant of RFC 3339 for people, in their zone.
func formatTime(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return orDash(text)
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// describeEvent says in a line what an event did.
func describeEvent(e board.Event) string {
	var d struct {
		From, To, Reason, Body, Role, Path, URL, Error, Result string
		Field                                                  string
		Type                                                   string `json:"process_type"`
	}
	_ = json.Unmarshal(e.Data, &d) // an event of another shape is shown by its type
	switch e.Type {
	case board.TaskCreated:
		return "created the task"
	case board.StatusChanged:
		return appendReason(fmt.Sprintf("moved it from %s to %s", orDash(d.From), d.To), d.Reason)
	case board.AssignmentChanged:
		return "assigned it to " + orDash(d.To)
	case board.FieldUpdated:
		return fmt.Sprintf("changed %s to %s", d.Field, d.To)
	case board.CommentAdded:
		return "commented: " + d.Body
	case board.ArtifactAttached:
		return appendReason("attached "+d.Path+d.URL, d.Role)
	case board.IssueChanged:
		return "saw the issue change"
	case board.ProcessStarted:
		return d.Type + " started"
	case board.ProcessCompleted:
		return appendReason(d.Type+" completed", d.Result)
	case board.ProcessFailed:
		return appendReason(d.Type+" failed", d.Error)
	}
	return e.Type
}

func appendReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

func newNextCmd(p *place) *cobra.Command {
	var claim bool
	var statuses []string
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show the task to work on next, or claim it",
		Long: `Show the task that the actor should work on: the one in progress that is assigned to the actor, else the most urgent and then
oldest in backlog that is not assigned to another. With --claim it is assigned to the actor and moved to in_progress; two
actors never claim the same task.

Ends with 3 if there is none.`,
		Example: "  lattice next --actor agent:claude\n  lattice next --claim --actor agent:claude --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withBoard(func(b *board.Board, actor string) error {
				for _, s := range statuses {
					if !slices.Contains(b.Config.Workflow.Statuses, s) {
						return cli.UsageErrorf("--status is %q, not one of %s", s, strings.Join(b.Config.Workflow.Statuses, ", "))
					}
				}
				return p.showNext(cmd, b, actor, statuses, claim)
			})
		},
	}
	cmd.Flags().BoolVar(&claim, "claim", false, "assign it to the actor and move it to in_progress")
	cmd.Flags().StringSliceVar(&statuses, "status", []string{"backlog"}, "`STATUS` of tasks that may be taken; can be repeated")
	return cmd
}

func (p *place) showNext(cmd *cobra.Command, b *board.Board, actor string, statuses []string, claim bool) error {
	if claim {
		t, events, err := b.Claim(cmd.Context(), actor, statuses)
		if err != nil {
			return err
		}
		if t == nil {
			return noneLeft(statuses)
		}
		return p.printChanged(cmd.Context(), b, t, events, fmt.Sprintf("%s is yours: %s", t.Name(), t.Title))
	}
	tasks, err := b.Tasks()
	if err != nil {
		return err
	}
	t := b.Config.ChooseNext(tasks, actor, statuses)
	if t == nil {
		return noneLeft(statuses)
	}
	return p.printChanged(cmd.Context(), b, t, nil, fmt.Sprintf("%s %s; next: lattice next --claim", t.Name(), t.Title))
}

func noneLeft(statuses []string) error {
	return fault.NotFound("no_task", "no task is left in %s", strings.Join(statuses, " or ")).WithHint("lattice task ls --all")
}
