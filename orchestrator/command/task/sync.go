package task

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/board/mirror"
	"github.com/spritekit/lattice/orchestrator/cli"
)

func newSyncCmd(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "sync",
		Short: "Bring the issues of the repository's code host to the board, and show the statuses of tasks there",
		Long: `Bring the open issues of the repository from which this one was cloned to the board, one task for each, and bring those that
changed up to date. The remote origin says which repository it is; [forges.NAME] of the settings must serve it (lattice forge --help).

Title and description are those of the issue, and its labels are added and removed as there. When the issue is closed, its task is
done if the rules of the board allow that, and cancelled otherwise; when it is opened again, the task begins again.

The status belongs to the board. An issue shows it as the label board:STATUS, except that of new tasks; labels decide nothing. A move
to needs_human is a comment with its reason as well.

With issues = true in [forges.NAME], lattice serve does all this by itself: when a webhook tells of an issue, at intervals of poll, and
when a task changes.`,
		Example: "  lattice task sync\n  lattice task sync --json | jq '.[].task.issue.url'",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return p.withBoard(func(b *board.Board, _ string) error {
				source, err := p.env.IssuesOf(ctx, b.Root)
				if err != nil {
					return err
				}
				stop := p.env.ShowWait("ask the code host")
				list, events, err := source.Sync(ctx, b)
				stop()
				if err := errors.Join(err, p.runHooks(ctx, b, events)); err != nil {
					return err
				}
				return cli.PrintTable(p.env.Console, list, "TASK\tOUTCOME\tSTATUS\tISSUE\tTITLE", func(o mirror.Outcome) []any {
					return []any{o.Task.Name(), o.Outcome, o.Task.Status, o.Task.Issue.URL, o.Task.Title}
				})
			})
		},
	}
}
