package keep

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newTokenCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "token",
		Short: "Let programs and people use lattice serve --http",
		Long: `A token lets requests to lattice serve --http in, as the header Authorization: Bearer TOKEN. Its role says what they may do:

  viewer    read everything but secrets, which nothing shows
  operator  also approve, reject, answer, stop and cancel, create intents and run schedules
  admin     also start runs with flows of its own, rewind, fork, prune, raise budgets and use sprites

The policy holds for them as for commands, and the audit log names each as token:NAME, which approve.by of a policy may name.
The store has a digest of a token only; its text is printed once.`,
		Example: "  lattice token create ci --role operator --ttl 720h\n  lattice token ls\n  lattice token revoke ci",
	})
	r := api.TokenRequest{Role: route.Viewer}
	var ttl time.Duration
	create := connect.NewQueryCmd(env, "create NAME", "Create a token, and print it", "  lattice token create ci --role operator --ttl 720h", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, args []string) error {
			r.Name, r.TTLS = args[0], ttl.Seconds()
			made, err := c.CreateToken(ctx, r)
			if err != nil {
				return err
			}
			return env.PrintResult(made, "%s", made.Text)
		})
	create.Flags().StringVar((*string)(&r.Role), "role", string(route.Viewer), "what it may do: viewer, operator or admin")
	create.Flags().DurationVar(&ttl, "ttl", 0, "end it after this long (default: never)")
	_ = create.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{string(route.Viewer), string(route.Operator), string(route.Admin)}, cobra.ShellCompDirectiveNoFileComp))
	ls := connect.NewQueryCmd(env, "ls", "List tokens", "  lattice token ls\n  lattice token ls --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			tokens, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, tokens, "TOKEN\tROLE\tCREATED\tEXPIRES\tREVOKED", func(t api.Token) []any {
				return []any{t.Name, string(t.Role), t.CreatedAt.Format(time.RFC3339), formatTime(t.ExpiresAt), formatTime(t.RevokedAt)}
			})
		})
	revoke := connect.NewQueryCmd(env, "revoke NAME", "End a token", "  lattice token revoke ci", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, args []string) error {
			t, err := c.RevokeToken(ctx, args[0])
			if err != nil {
				return err
			}
			return env.PrintResult(t, "%s ended at %s", t.Name, formatTime(t.RevokedAt))
		})
	cmd.AddCommand(create, ls, revoke)
	return cmd
}

// formatTime returns an instant for people, "" for none.
func formatTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339)
}
