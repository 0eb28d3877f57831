package task

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newImportCmd(p *place) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Create the tasks that a document asks for, or bring them up to date",
		Long: `Create the tasks of FILE, or of standard input if it is -: a run of the flow plan-tasks as lattice show --json prints it, or its
outputs alone. The command can be repeated: a task is
found again by its document and its key. Of a task that exists the title and the description are brought up to date; status, labels,
priority and assignment belong to people, and a task that is done or cancelled stays as it is. If the board refuses one task, none is
created. A task that the document asks for no more stays, too.`,
		Example: `  lattice run plan-tasks --repo . --input document=docs/seed.md --input agent=claude
  lattice show --json >tasks.json
  lattice task import tasks.json --dry-run
  lattice task import tasks.json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			raw, err := p.env.ReadInputFile(cmd.Context(), list[0])
			if err != nil {
				return err
			}
			var in struct {
				board.Drafts
				Outputs board.Drafts `json:"outputs"` // of a run, as lattice show prints it
			}
			if err := json.Unmarshal(raw, &in); err != nil {
				return fault.BadInput("task_invalid", "%s holds no tasks: %v", list[0], err).WithHint("lattice flow show plan-tasks describes them")
			}
			all := in.Drafts
			if in.Outputs.Document != "" {
				all = in.Outputs
			}
			return p.withBoard(func(b *board.Board, actor string) error {
				done, events, err := b.Import(cmd.Context(), actor, all, dry)
				if hooks := p.runHooks(cmd.Context(), b, events); err == nil {
					err = hooks
				}
				if err != nil {
					return err
				}
				return cli.PrintTable(p.env.Console, done, "TASK\tOUTCOME\tLABELS\tTITLE", func(i board.Imported) []any {
					return []any{i.Task.Name(), i.Outcome, strings.Join(i.Task.Labels, ","), i.Task.Title}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show the outcome and change nothing")
	return cmd
}
