package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newStoreRepairCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "repair",
		Short: "Repair the sprite host's database",
		Long: `Make the sprite host's database, host.db, again from those of its records that carry their checksums, and say which sprites are
lost. The damaged file is kept, with the files of lost sprites, in a folder damaged-TIME beside it; remove it when nothing in it is
needed. A sound database is left as it is. No other process may be the leader. The store of runs, runs.db, is not repaired: restore
a backup of it.

--json prints one object: {"path","aside","sprites","degraded","lost","checkpoints","incomplete","problems"}.
Exit codes: 0 done, 3 there were no sprites yet, 6 another process is the leader, 9 the disk is full.`,
		Example: "  lattice store check\n  lattice store repair",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			out, err := repair(env)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(out)
			}
			return printRepair(env.Console, out)
		},
	}
}

func repair(env *setup.Env) (out records.Repair, err error) {
	lock, err := home.Home(env.Home).Acquire()
	if errors.Is(err, home.ErrLed) {
		return out, fault.Busy("led", "another lattice process is the leader of %s", env.Home).WithHint("end it first; lattice runs --json shows the runs that it drives")
	}
	if err != nil {
		return out, err
	}
	defer env.ShowWait("repair")()
	out, err = records.RepairDir(home.Home(env.Home).Sprites(), time.Now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fault.NotFound("store_missing", "there is no %s", out.Path).WithHint("lattice sprite create makes one")
	case errors.Is(err, records.ErrServed):
		err = fault.Busy("led", "another process serves %s", out.Path).WithHint("end it first")
	case err != nil:
		err = problem.StoreProblem(err)
	}
	return out, errors.Join(err, lock.Unlock())
}

func printRepair(console *cli.Console, r records.Repair) error {
	sprites := cli.Count(len(r.Sprites), "sprite", "sprites")
	if r.Aside == "" {
		_, err := fmt.Fprintf(console.Out, "%s is sound: %s; nothing changed\n", r.Path, sprites)
		return err
	}
	for _, name := range r.Lost {
		fmt.Fprintf(console.Out, "lost: sprite %s\n", cli.Clean(name))
	}
	for _, name := range r.Degraded {
		fmt.Fprintf(console.Out, "lost: the present files of sprite %s; next: lattice sprite checkpoints %s\n", name, name)
	}
	for _, point := range r.Checkpoints {
		fmt.Fprintf(console.Out, "lost: checkpoint %s\n", cli.Clean(point))
	}
	if r.Incomplete {
		fmt.Fprintln(console.Out, "whole pages could not be read: more may be lost than is named here")
	}
	_, err := fmt.Fprintf(console.Out, "%s is repaired, with %s; the damaged file and the layers of lost sprites are in %s\n", r.Path, sprites, r.Aside)
	return err
}
