package sprite

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newPortsCmd(env *setup.Env) *cobra.Command {
	var follow bool
	cmd := connect.NewSpriteCmd(env, "ports NAME", "List the ports on which programs in a sprite listen", "  lattice sprite ports box\n  lattice sprite ports box -f --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		if !follow {
			all, err := c.Ports().List(ctx, list[0])
			if err != nil {
				return err
			}
			return printPorts(env.Console, all)
		}
		show := func(e sprites.PortEvent) error {
			return env.PrintResult(e,
				"%s\t%s\tprocess %d", strings.TrimPrefix(cli.Clean(e.Type), "port_"), net.JoinHostPort(cli.Clean(e.Address), strconv.Itoa(e.Port)), e.PID)
		}
		err := c.Ports().Watch(ctx, list[0], func(all []sprites.PortEvent) error {
			for _, e := range all {
				e.Type = "port_opened"
				if err := show(e); err != nil {
					return err
				}
			}
			return nil
		}, show)
		if ctx.Err() != nil {
			return nil // as asked
		}
		return err
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then show each port that is opened or closed, until Ctrl-C")
	return cmd
}

func printPorts(console *cli.Console, all []sprites.PortEvent) error {
	return cli.PrintTable(console, all, "PORT\tADDRESS\tPROCESS", func(p sprites.PortEvent) []any {
		return []any{p.Port, p.Address, p.PID}
	})
}
