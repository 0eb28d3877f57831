package service

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "ls NAME", "List a sprite's services", "  lattice sprite service ls box --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		all, err := c.Services().List(ctx, list[0])
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(append([]sprites.Service{}, all...))
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SERVICE\tSTATUS\tPID\tRESTARTS\tHTTP\tNEEDS\tCOMMAND")
		for _, s := range all {
			state := sprites.ServiceState{}
			if s.State != nil {
				state = *s.State
			}
			status := cli.Clean(state.Status)
			if state.Error != "" {
				status += " (" + cli.Clean(state.Error) + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", cli.Clean(s.Name), status, orDash(state.PID), state.RestartCount, orDash(s.HTTPPort), cli.Clean(strings.Join(s.Needs, ",")),
				cli.Clean(strings.Join(append([]string{s.Cmd}, s.Args...), " ")))
		}
		return w.Flush()
	})
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
