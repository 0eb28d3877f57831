package keep

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/doctor"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type doctorOptions struct {
	tools     []string
	warm      bool
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

"fail" means that something that lattice needs does not work, "warn" that something could be better.

Exit codes: 0 no check failed, 1 a check failed, 2 bad flags, 3 a --tool does not exist, 7 sprites must not see a --tool.`,
		Example: `  lattice doctor
  lattice doctor --json
  lattice doctor --tool ~/.local/bin/claude
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
	report := doctor.Run(ctx, doctor.Probes(env, tools, o.spritekit))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if env.JSON {
		err = env.PrintJSON(report)
	} else {
		err = printReport(env.Out, report, env.Terminal)
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
	return w.Flush()
}
