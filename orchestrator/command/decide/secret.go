package decide

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newSecretCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "secret",
		Short: "See the secrets that sprites may ask for, and end their leases",
		Long: `The settings name secrets ([secrets.NAME]) and say where each one is: in an environment variable, a file, a file encrypted with
age, or the output of a helper program. A skill asks for one by its name (credential.fetch); the policy must allow asking, and
a person approves. The run then has a lease: calls of exec.run and agent.run whose env_allow names the variable get the value
in their environment, until the lease expires, its uses are spent, or the run waits or ends. A run that waits for the approval
of a further secret keeps the leases that it has. No command prints a value, and every use is an entry of the audit log.`,
		Example: "  lattice secret ls\n  lattice secret test npm\n  lattice secret revoke npm",
	})
	var all bool
	ls := connect.NewQueryCmd(env, "ls", "List the secrets and their active leases", "  lattice secret ls\n  lattice secret ls --all --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			views, err := c.Secrets(ctx, all)
			if err != nil {
				return err
			}
			return printSecrets(env, views)
		})
	ls.Flags().BoolVar(&all, "all", false, "list the leases that ended in the last 30 days as well")
	test := connect.NewQueryCmd(env, "test NAME", "Read a secret from its provider, and say whether that works", "  lattice secret test npm", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			view, err := c.TestSecret(ctx, list[0])
			if err != nil {
				return err
			}
			return env.PrintResult(view, "%s can be read from %s", view.Name, cli.Clean(view.From))
		})
	revoke := connect.NewQueryCmd(env, "revoke LEASE|NAME|RUN", "End a lease, or all leases of a secret or a run", "  lattice secret revoke npm\n  lattice secret revoke run_0123", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			ended, err := c.RevokeSecrets(ctx, list[0])
			if err != nil {
				return err
			}
			return env.PrintResult(ended, "%s ended", cli.Count(len(ended), "lease", "leases"))
		})
	cmd.AddCommand(ls, test, revoke)
	return cmd
}

func printSecrets(env *setup.Env, views []api.SecretView) error {
	if env.JSON {
		return env.PrintJSON(views)
	}
	if len(views) == 0 {
		_, err := fmt.Fprintln(env.Out, "the settings name no secrets (lattice help secret)")
		return err
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SECRET\tPROVIDER\tFROM\tVARIABLE\tTTL\tUSES\tPROBLEM")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", v.Name, v.Provider, cli.Clean(v.From), v.Variable, v.TTL, v.Uses, cli.Clean(v.Problem))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "LEASE\tSECRET\tRUN\tSPRITE\tSCOPE\tSKILLS\tUSED\tEXPIRES\tSTATE")
	leases := 0
	for _, v := range views {
		for _, l := range v.Leases {
			leases++
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\n", l.ID, l.Name, l.Run, l.Sprite, cli.Clean(l.Scope), strings.Join(l.Skills, " "), len(l.Calls), l.Uses, l.Expires.Local().Format(time.DateTime), l.State)
		}
	}
	if leases == 0 {
		fmt.Fprintln(w, "none")
	}
	return w.Flush()
}
