package keep

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newStoreRestoreCmd(env *setup.Env) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring a backup back",
		Long: `Make a backup the store; "-" is standard input. FILE may also be a plain store, such as the runs.db.bak that a restore
leaves. All of it is read and checked before anything changes, and the store changes in one step. A store that is there
already is replaced only with --force, and kept beside the new one as runs.db.bak. Another process that leads must end
first.

With --json one object is printed: {"runs","kept","backup":{"format","lattice","schema","created_at","runs"}}.
Exit codes: 0 done, 1 the backup is damaged, 3 it is not there, 6 another process leads, 7 there is a store, 8 a newer lattice
made it, 9 the disk is full.`,
		Example: "  lattice store restore runs-today.tar\n  lattice store restore --force \"$LATTICE_HOME/runs.db.bak\"",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			out, err := restore(cmd.Context(), env, list[0], force)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(out)
			}
			if out.Kept != "" {
				fmt.Fprintf(env.Err, "the former store is %s\n", out.Kept)
			}
			_, err = fmt.Fprintf(env.Out, "restored %s; next: lattice runs\n", cli.Count(out.Runs, "run", "runs"))
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the store that is there, and keep it beside")
	return cmd
}

func restore(ctx context.Context, env *setup.Env, path string, force bool) (out storage.Restored, err error) {
	from := env.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return out, fileProblem("restore", err)
		}
		defer f.Close()
		from = f
	}
	dir := home.Home(env.Home)
	lock, err := dir.Acquire()
	if errors.Is(err, home.ErrLed) {
		return out, fault.Busy("led", "another lattice leads %s", env.Home).WithHint("end it first; lattice runs --json shows what it drives")
	}
	if err != nil {
		return out, err
	}
	show := newWork(env.Console)
	out, err = storage.Restore(ctx, dir, from, force, show.progress)
	show.clear()
	return out, errors.Join(err, lock.Unlock())
}
