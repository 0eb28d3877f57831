package skill

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	var sprite string
	var skills []string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the built-in skills, or those of a sprite",
		Long:    "List the built-in skills or, with --sprite, all skills of a sprite, including its own.\n" + cli.ExitCodes,
		Example: "  lattice skill ls --json\n  lattice skill ls --sprite box", Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if sprite == "" {
				all, err := readLocalSkills(env, skills)
				if err != nil {
					return err
				}
				return listSkills(env.Console, all)
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				found, err := skillsIn(ctx, client, sprite, func(message string) { fmt.Fprintf(env.Err, "lattice: warning: %s\n", message) })
				if err != nil {
					return err
				}
				return listSkills(env.Console, found)
			})
		},
	}
	cmd.Flags().StringVar(&sprite, "sprite", "", "list the skills of this sprite")
	equip.AddSkillFlag(cmd, &skills)
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
	return cmd
}

func listSkills(console *cli.Console, all []skillIn) error {
	if console.JSON {
		return console.PrintJSON(all)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.SideEffect, s.Source, cli.Clean(s.Description))
	}
	return w.Flush()
}
