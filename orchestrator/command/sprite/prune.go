package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newPruneCmd(env *setup.Env) *cobra.Command {
	var r api.PruneRequest
	var older time.Duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the sprites of ended runs, and files that were kept for them",
		Long: `Remove the sprites of runs that succeeded or were canceled, except those of the newest runs (--keep). This also happens
automatically when a run ends. --all includes failed runs, whose sprites are kept otherwise for inspection. Bundles that no
run needs are removed, too, and mirrors of repositories that no run has used for 30 days, or --older. Logs, events and
artifacts are kept.

Sprites of active or waiting runs, pinned ones (lattice run --keep), sprites in use and those created by hand are never
removed. The command does not ask; --dry-run shows what it would remove.
` + cli.ExitCodes,
		Example: "  lattice sprite prune --dry-run\n  lattice sprite prune --keep 3 --older 24h --all",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Keep < 0 || older < 0 {
				return cli.UsageErrorf("--keep and --older must not be negative")
			}
			r.OlderS = older.Seconds()
			return runPrune(c.Context(), env, r)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.DryRun, "dry-run", false, "only show what would be removed")
	f.IntVar(&r.Keep, "keep", 10, "how many of the newest ended runs keep their sprites")
	f.DurationVar(&older, "older", 0, "only runs that ended at least this long ago, such as 24h")
	f.BoolVar(&r.All, "all", false, "also of failed runs")
	return cmd
}

func runPrune(ctx context.Context, env *setup.Env, r api.PruneRequest) error {
	c, err := connect.Dial(ctx, env, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	show := cli.NewProgress(env.Console)
	gone, err := c.Prune(ctx, r, func(p api.StoreProgress) { show.ShowPart(p.Doing, p.Done, p.Of) })
	show.Clear()
	if err != nil {
		return err
	}
	var bytes int64
	failed := 0
	for _, p := range gone {
		if p.Error != "" {
			failed++
			continue
		}
		bytes += p.Bytes
	}
	if env.JSON {
		if err := env.PrintJSON(map[string]any{"dry_run": r.DryRun, "removed": gone, "bytes": bytes}); err != nil {
			return err
		}
	} else if err := printPruned(env.Console, gone, r.DryRun, bytes); err != nil {
		return err
	}
	if failed > 0 {
		return &cli.ExitError{Code: protocol.ExitFailed}
	}
	return nil
}

func printPruned(console *cli.Console, gone []api.Pruned, dry bool, bytes int64) error {
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, p := range gone {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Kind, p.Name, p.RunID, cli.FormatBytes(p.Bytes), cli.Clean(p.Error))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	_, err := fmt.Fprintf(console.Err, "%s %d, %s (checkpoints of sprites not counted)\n", verb, len(gone), cli.FormatBytes(bytes))
	return err
}
