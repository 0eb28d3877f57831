package keep

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/doctor"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leftover"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type doctorOptions struct {
	tools     []string
	warm, fix bool
	spritekit string

	apparmorProfile bool
}

func newDoctorCmd(env *setup.Env) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can run sprites, and say what to do if it cannot",
		Long: `Check the leader, the state directory, the store, the kernel, the isolation of sprites, git, spritekit, the settings and the
models that they name, the remote API if one is set, and the agents and toolchains of this machine, which are tried in a
temporary sprite. Every finding that is not ok comes with a remedy. With --tool, the temporary sprite sees that path, as
with lattice run --tool.

It also lists what killed programs left behind: workers of the board of the current folder that are beyond their timeout, requests that
no worker can take, leases whose holders died, worktrees whose folders are gone, runs that no leader drives and the outboxes of their
sprites, sprites of runs that have ended, and sprites of runs that are not known. With --fix, these are repaired: a worker is ended, a
request marked as failed, a run driven on.

"fail" means that something that lattice needs does not work, "warn" that something could be better.

Exit codes: 0 no check failed, 1 a check or a repair failed, 2 bad flags, 3 a --tool does not exist, 7 sprites must not see a --tool.`,
		Example: `  lattice doctor
  lattice doctor --json
  lattice doctor --tool ~/.local/bin/claude
  lattice doctor --fix
  lattice doctor --warm
  lattice doctor --apparmor-profile | sudo tee /etc/apparmor.d/lattice`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.apparmorProfile {
				_, err := io.WriteString(env.Out, doctor.AppArmorProfile(env.Exe))
				return err
			}
			return runDoctor(c.Context(), env, o)
		},
	}
	equip.AddToolFlag(cmd, &o.tools)
	equip.AddSpritekitFlag(cmd, &o.spritekit, "a sprite")
	cmd.Flags().BoolVar(&o.warm, "warm", false, "compile Go's standard library once for all sprites, so that the first test in a new sprite is fast (takes a minute or two)")
	cmd.Flags().BoolVar(&o.fix, "fix", false, "repair what killed programs left behind")
	cmd.Flags().BoolVar(&o.apparmorProfile, "apparmor-profile", false, "print the AppArmor profile that lets this lattice create sandboxes where ordinary users may not (Ubuntu 23.10 and newer), and check nothing")
	return cmd
}

func runDoctor(ctx context.Context, env *setup.Env, o doctorOptions) error {
	if env.LoadSettings() != nil { // said by one of the checks
		if err := env.TakeSettings(settings.Settings{}); err != nil {
			return err
		}
	}
	tools, err := equip.CheckSpriteTools(env, o.tools)
	if err != nil {
		return err
	}
	if o.warm {
		if err := doctor.WarmCache(ctx, env); err != nil {
			return err
		}
	}
	_ = os.MkdirAll(env.Home, 0o700) // the checks run in parallel; one of them reports the error
	stop := env.ShowWait("check")
	report := doctor.Run(ctx, doctor.Probes(env, tools, o.spritekit))
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := addLeftovers(ctx, env, &report, o.fix); err != nil {
		return err
	}
	if env.JSON {
		err = env.PrintJSON(report)
	} else {
		err = printReport(env.Out, report, env.Coloured())
	}
	if err != nil {
		return err
	}
	if !report.OK {
		return &cli.ExitError{Code: protocol.ExitFailed}
	}
	return nil
}

// printReport writes one line a check, and a second one where there is something to do.
func printReport(out io.Writer, r doctor.Report, colour bool) error {
	paint := func(s doctor.Status) string {
		if !colour {
			return string(s)
		}
		return map[doctor.Status]string{doctor.OK: "\x1b[32m", doctor.Warn: "\x1b[33m", doctor.Fail: "\x1b[31m"}[s] + string(s) + "\x1b[0m"
	}
	// Colours count as width, so that the table needs the same number of them in each line.
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", paint(c.Status), c.Name, cli.Clean(c.Detail))
		if c.Remedy != "" {
			fmt.Fprintf(w, "%s\t\t  try: %s\n", paint(""), cli.Clean(c.Remedy))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, l := range r.Leftovers {
		line := fmt.Sprintf("left over: %s %s %s\n  try: %s", l.Kind, l.Name, l.Detail, l.Remedy)
		switch {
		case l.Repairable() && !l.Fixed && l.Error == "":
			line = fmt.Sprintf("left over: %s %s %s\n  try: lattice doctor --fix (%s)", l.Kind, l.Name, l.Detail, l.Remedy)
		case l.Fixed:
			line = fmt.Sprintf("repaired: %s %s %s", l.Kind, l.Name, l.Detail)
		case l.Error != "":
			line = fmt.Sprintf("not repaired: %s %s %s\n  because: %s\n  try: %s", l.Kind, l.Name, l.Detail, l.Error, l.Remedy)
		}
		if _, err := fmt.Fprintln(cli.Sanitize(out), line); err != nil {
			return err
		}
	}
	return nil
}

// addLeftovers adds the leftovers of killed programs to a report, and with fix repairs them.
func addLeftovers(ctx context.Context, env *setup.Env, r *doctor.Report, fix bool) error {
	var all []leftover.Leftover
	add := func(found []leftover.Leftover, err error) {
		all = append(all, found...)
		if err != nil {
			fmt.Fprintf(cli.Sanitize(env.Err), "lattice: look for leftovers: %v\n", err)
		}
	}
	if root, b := openBoard(env); b != nil {
		defer b.Close()
		add(leftover.OfBoard(b, env.Home, time.Now(), func(ctx context.Context, run string) error { return cancelRun(ctx, env, run) }))
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			add(leftover.OfRepository(ctx, root))
			add(leftover.OfWorkers(ctx, b, env.Home))
		}
	}
	leads := !slices.ContainsFunc(r.Checks, func(c doctor.Check) bool { return c.Status == doctor.Fail && (c.Name == "leader" || c.Name == "store") })
	file := home.Home(env.Home).Store()
	_, storeErr := os.Stat(file)
	_, spritesErr := os.Stat(home.Home(env.Home).Sprites())
	if (storeErr == nil || spritesErr == nil || env.StoreAddress() != file) && leads {
		c, err := connect.Dial(ctx, env, connect.Options{Detach: fix}) // a run that goes on needs a leader that stays
		if err != nil {
			return err
		}
		defer c.Close()
		add(leftover.OfLeader(ctx, c.Client))
		if env.RemoteSprites() == nil { // a remote host may have sprites of others
			client := api.HTTPClient(c.Socket)
			defer client.CloseIdleConnections()
			add(listOrphans(ctx, c.Client, sprites.New(api.Base, "", client)))
		}
	}
	for i, l := range all {
		if fix {
			stop := env.ShowWait(fmt.Sprintf("repair %d of %d", i+1, len(all)))
			all[i] = l.Fix(ctx)
			stop()
		}
		r.OK = r.OK && all[i].Error == ""
	}
	r.Leftovers = all
	return nil
}

// listOrphans returns the sprites of the embedded host whose runs are not known.
func listOrphans(ctx context.Context, c *api.Client, host *sprites.Client) ([]leftover.Leftover, error) {
	all, err := host.List(ctx, "")
	if err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, s := range all {
		if run := api.OwnerOf(s.Labels); run != "" {
			owners[s.Name] = run
		}
	}
	return leftover.OfSprites(ctx, c, owners, host.Delete)
}

// cancelRun cancels a run if it exists. One that has ended has an outcome, which a dispatcher records.
func cancelRun(ctx context.Context, env *setup.Env, run string) error {
	c, err := connect.Dial(ctx, env, connect.Options{Detach: true})
	if err != nil {
		return err
	}
	defer c.Close()
	view, err := c.Run(ctx, run)
	switch gone := fault.As(err); {
	case gone != nil && gone.Code == "run_not_found":
		return nil
	case err != nil:
		return err
	case view.Status == lattice.Succeeded || view.Status == lattice.Failed || view.Status == lattice.Canceled:
		return fmt.Errorf("its run %s has ended; lattice worker watch --once records the outcome", run)
	}
	_, err = c.Cancel(ctx, run, "lattice doctor")
	return err
}

// openBoard opens the board of the current folder, nil if there is none that can be read.
func openBoard(env *setup.Env) (root string, b *board.Board) {
	root = env.Getenv("LATTICE_ROOT")
	if root == "" {
		here, err := os.Getwd()
		if err != nil {
			return "", nil
		}
		if root, err = board.Find(here); err != nil {
			return "", nil
		}
	}
	b, err := board.Open(root)
	if err != nil {
		fmt.Fprintf(cli.Sanitize(env.Err), "lattice: look for leftovers: %v\n", err)
		return "", nil
	}
	return root, b
}
