package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSessionsCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "sessions NAME", "List the commands that run in a sprite", "  lattice sprite sessions box", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		all, err := c.Sessions(ctx, list[0])
		if err != nil {
			return err
		}
		return cli.PrintTable(env.Console, all, "SESSION\tCOMMAND\tTTY\tAGE\tSILENT FOR", func(s sprites.Session) []any {
			return []any{s.ID, s.Command, s.TTY, cli.Age(s.Created), cli.Age(s.LastActivity)}
		})
	})
}

// completeSessions offers sprites, then up to so many sessions of one.
func completeSessions(env *setup.Env, most int) cobra.CompletionFunc {
	names := complete.Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(list) == 0:
			return names(c, list, word)
		case len(list) > most:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.Sessions(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, s := range all {
			ids = append(ids, complete.Describe(s.ID, s.Command))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
