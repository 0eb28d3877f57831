package intent

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// NewSchedule returns lattice schedule.
func NewSchedule(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "schedule",
		Short: "See schedules, and create the intent of one now",
		Long: `A schedule of the settings, [schedules.NAME], creates an intent at each due time, once, also after a restart. Of due times that
were missed one is made up for. Schedules are followed while lattice serve leads, and at no other time (lattice doctor tells);
their intents are judged by the policy like others. With on_push, each push to the repository's default branch creates its intent, too.
A schedule of checks (kind health_detect, doc_detect or improvement_detect) with a severity repairs, too: if the check fails, critical
starts the intent that follows (health_remediate, doc_update or pr_create_from_plan), high asks a person to approve it, medium and
low record the failure.`,
		Example: "  lattice schedule ls\n  lattice schedule run nightly",
	})
	ls := connect.NewQueryCmd(env, "ls", "List the schedules, when they are due, and their last intents", "  lattice schedule ls --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			all, err := c.Schedules(ctx)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, all, "NAME\tCRON\tKIND\tNEXT\tLAST\tINTENT\tHEALTH\tREMEDY", func(s api.ScheduleView) []any {
				return []any{s.Name, formatTrigger(s), s.Kind, formatDue(s.Next), formatDue(s.LastDue), cmp.Or(s.Reason, s.LastIntent), s.Health, cmp.Or(s.Note, s.Remedy)}
			})
		})
	run := connect.NewQueryCmd(env, "run NAME", "Create the intent of a schedule now", "  lattice schedule run nightly", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			s, err := c.RunSchedule(ctx, list[0])
			if err != nil {
				return err
			}
			return printState(env, s)
		})
	cmd.AddCommand(ls, run)
	return cmd
}

// formatTrigger says when a schedule creates its intent.
func formatTrigger(s api.ScheduleView) string {
	switch {
	case !s.OnPush:
		return s.Cron
	case s.Cron == "":
		return "each push"
	}
	return s.Cron + ", each push"
}

func formatDue(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("2006-01-02 15:04 MST")
}
