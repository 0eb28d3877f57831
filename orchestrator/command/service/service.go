// Package service holds the commands below lattice sprite service, which manage the programs that run in a sprite whenever it
// runs: one file per command. Begin with New. watch.go shows the events of a service, which most commands print.
package service

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// New returns lattice sprite service.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "service", Aliases: []string{"services"}, Short: "Manage programs that run in a sprite whenever it runs",
		Long: `Manage programs that run in a sprite whenever it runs: servers, databases, agents. A service starts with the sprite, after the
services that it needs. If it ends by itself, it is restarted after a pause that grows with each failure; a stopped service
stays stopped. Services start again after a restore, unlike processes that were started by hand. They do not keep a sprite
awake. Their output is in /.sprite/logs/services of the sprite.
` + cli.ExitCodes,
		Example: "  lattice sprite service create box web --http-port 3000 -- python3 -m http.server 3000\n  lattice sprite service ls box\n  lattice sprite service logs box web -f"})
	cmd.AddCommand(newLsCmd(env), newCreateCmd(env), newRunCmd(env, "start", "Start a service, and the services that it needs", sprites.Services.Start),
		newRunCmd(env, "restart", "Restart a service", sprites.Services.Restart), newStopCmd(env), newLogsCmd(env), newSignalCmd(env),
		connect.NewSpriteCmd(env, "rm NAME SERVICE", "Stop a service and remove it; its log is kept", "  lattice sprite service rm box web", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
			return c.Services().Delete(ctx, list[0], list[1])
		}))
	for _, sub := range cmd.Commands() {
		sub.ValidArgsFunction = completeServices(env)
	}
	return cmd
}

// completeServices offers sprites, then the services of one.
func completeServices(env *setup.Env) cobra.CompletionFunc {
	names := complete.Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(list) == 0:
			return names(c, list, word)
		case len(list) > 1 || c.Name() == "ls":
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.Services().List(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, s := range all {
			found = append(found, complete.Describe(s.Name, s.Cmd))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
