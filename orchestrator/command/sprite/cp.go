package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/transfer"
)

func newCpCmd(env *setup.Env) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "cp SRC DST", Short: "Copy files into a sprite, out of it, within it or to another",
		Long: `Copy a file or, with -r, a folder. SRC and DST are paths of this machine or SPRITE:PATH; a relative path in a sprite is below
/home/sprite. - as SRC is standard input, as DST standard output. If DST is an existing folder, the copy is created in it, as
with cp. Put ./ before a path of this machine that contains a colon.

Permissions are kept, and files are replaced atomically. With -r, folders are streamed by the tar of the sprite, and links
and times are kept; anything that is not a file, folder or link is left out and named. If SRC itself is a link, it is
followed. In a sprite without tar, files are copied one by one; links are followed, and links to folders are left out and
named. With --json the last line is {"files":N,"bytes":N,"skipped":[…]}.
` + cli.ExitCodes,
		Example: "  lattice sprite cp go.mod box:/workspace/\n  lattice sprite cp -r box:/workspace/out .\n  tar c . | lattice sprite cp - box:/tmp/all.tar\n  lattice sprite cp box:/etc/os-release -",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			from, to := transfer.ParsePlace(list[0]), transfer.ParsePlace(list[1])
			if from.Sprite == "" && to.Sprite == "" {
				return cli.UsageErrorf("SRC or DST must be in a sprite, as SPRITE:PATH")
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, c *sprites.Client) error {
				return transfer.Copy(ctx, env.Console, c, from, to, recursive)
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders with their content")
	return cmd
}
