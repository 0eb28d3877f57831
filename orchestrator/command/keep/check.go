package keep

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newStoreCheckCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the store for damage",
		Long: `Check the store, or FILE, without changing it: every page of the file, every entry against its indexes, and every run,
whose facts must lead to the stored state when they are replayed. Without FILE, the sprite host's own database is checked as
well. If another process is the leader, it does the work, and its runs wait for a moment.

--json prints one object:
{"ok","path","bytes","runs","entries","host":{"path","bytes","sprites"},"findings":[{"code","run_id","message","hint"}]}.
Exit codes: 0 no damage, 1 damaged, 3 there is no store, 4 it cannot be read, 8 a newer lattice wrote it.`,
		Example: "  lattice store check --json\n  lattice store check runs.db.bak",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			show := cli.NewProgress(env.Console)
			report, err := checkStore(cmd.Context(), env, cli.Optional(list), showStore(show))
			show.Clear()
			if err != nil {
				return err
			}
			return printStoreReport(env.Console, report)
		},
	}
}

// checkStore checks a store without a leader itself, because a leader could not open a damaged one.
func checkStore(ctx context.Context, env *setup.Env, file string, progress func(api.StoreProgress)) (api.StoreReport, error) {
	if file != "" {
		return storage.CheckFile(ctx, file, progress)
	}
	dir := home.Home(env.Home)
	lock, err := dir.Acquire()
	if errors.Is(err, home.ErrLed) {
		c, err := connect.Dial(ctx, env, connect.Options{})
		if err != nil {
			return api.StoreReport{}, err
		}
		defer c.Close()
		return c.CheckStore(ctx, progress)
	}
	if err != nil && !leader.IsReadOnly(err) { // then no process can write to it
		return api.StoreReport{}, err
	}
	report, err := storage.CheckHome(ctx, dir, env.StoreAddress(), progress)
	return report, errors.Join(err, lock.Unlock())
}

func printStoreReport(console *cli.Console, r api.StoreReport) error {
	if console.JSON {
		if err := console.PrintJSON(r); err != nil {
			return err
		}
	} else if r.OK {
		if _, err := fmt.Fprintf(console.Out, "%s is sound: %s, %s, %s\n", r.Path, cli.Count(r.Runs, "run", "runs"), cli.Count(r.Entries, "entry", "entries"), cli.FormatBytes(r.Bytes)); err != nil {
			return err
		}
		if r.Host != nil {
			if _, err := fmt.Fprintf(console.Out, "%s is sound: %s, %s\n", r.Host.Path, cli.Count(r.Host.Sprites, "sprite", "sprites"), cli.FormatBytes(r.Host.Bytes)); err != nil {
				return err
			}
		}
	} else {
		w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
		for _, f := range r.Findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Code, f.RunID, cli.Clean(f.Message))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(console.Err, "lattice: %s is damaged: %s\n", damagedPath(r), cli.Count(len(r.Findings), "finding", "findings"))
		for _, hint := range hints(r.Findings) {
			fmt.Fprintf(console.Err, "  try: %s\n", hint)
		}
	}
	if r.OK {
		return nil
	}
	return &cli.ExitError{Code: protocol.ExitFailed}
}

// damagedPath is the file that the findings are about, the first if they are about two.
func damagedPath(r api.StoreReport) string {
	if r.Host != nil && r.Findings[0].Code == "sprites" {
		return r.Host.Path
	}
	return r.Path
}

// hints are the remedies of findings, each once, a few at most.
func hints(findings []api.StoreFinding) []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range findings {
		if f.Hint != "" && !seen[f.Hint] && len(out) < 5 {
			seen[f.Hint] = true
			out = append(out, f.Hint)
		}
	}
	return out
}
