package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Short: "Restore a backup",
		Long: `Replace the store by a backup; "-" is standard input. FILE may also be a plain store, such as the runs.db.bak that a restore
leaves behind. The whole backup is read and checked before anything changes, and the store changes in one step. An existing
store is replaced only with --force, and kept as runs.db.bak. No other process may be the leader. If LATTICE_STORE or [store] in
the settings names a database, the runs are copied into it, and it must have none.

--json prints one object: {"runs","kept","backup":{"format","lattice","schema","created_at","runs"}}.
Exit codes: 0 done, 1 the backup is damaged, 3 there is no such file, 6 another process is the leader, 7 a store exists,
8 a newer lattice wrote the backup, 9 the disk is full.`,
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
				fmt.Fprintf(env.Err, "the previous store is now %s\n", out.Kept)
			}
			_, err = fmt.Fprintf(env.Out, "restored %s; next: lattice runs\n", cli.Count(out.Runs, "run", "runs"))
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the existing store, and keep it as runs.db.bak")
	return cmd
}

func restore(ctx context.Context, env *setup.Env, path string, force bool) (out storage.Restored, err error) {
	from, show := env.In, cli.NewProgress(env.Console)
	defer show.Clear()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return out, fileProblem("restore", err)
		}
		defer f.Close()
		from = io.TeeReader(f, show.CountBytes("read", cli.MeasureFiles(path)))
	}
	dir := home.Home(env.Home)
	lock, err := dir.Acquire()
	if errors.Is(err, home.ErrLed) {
		return out, fault.Busy("led", "another lattice process is the leader of %s", env.Home).WithHint("end it first; lattice runs --json shows the runs that it drives")
	}
	if err != nil {
		return out, err
	}
	out, err = storage.Restore(ctx, dir, env.StoreAddress(), from, force, showStore(show))
	return out, errors.Join(err, lock.Unlock())
}
