package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	cmd := newHostCmd(env, "ls", "List the images, newest first", "  lattice image ls --json", func(ctx context.Context, c *sprites.Client, _ []string) error {
		all, err := c.Images().List(ctx)
		if err != nil {
			return err
		}
		return cli.PrintTable(env.Console, all, "IMAGE\tNAMES\tKIND\tSIZE\tAGE", func(img sprites.Image) []any {
			return []any{equip.ShortDigest(img.Digest), strings.Join(img.Names, ","), img.Kind, fmt.Sprintf("%d MB", img.Size/1e6), cli.Age(img.ImportedAt)}
		})
	})
	cmd.Args = cli.Args(cobra.NoArgs)
	return cmd
}
