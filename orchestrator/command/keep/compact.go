package keep

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newStoreCompactCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Shrink the store's file",
		Long: `Rewrite the store without its free space. The new file is checked and on disk before it replaces the old one; until then
nothing has changed, and Ctrl-C is safe. The disk needs room for a second file. Active runs wait until it is done.

--json prints one object: {"bytes_before","bytes_after"}.
Exit codes: 0 done, 1 the store is damaged, 9 the disk is full.`,
		Example: "  lattice store compact",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect.Dial(cmd.Context(), env, connect.Options{})
			if err != nil {
				return err
			}
			defer c.Close()
			show := cli.NewProgress(env.Console)
			out, err := c.CompactStore(cmd.Context(), showStore(show))
			show.Clear()
			if err != nil {
				return err
			}
			return env.PrintResult(out, "%s before, %s after", cli.FormatBytes(out.BytesBefore), cli.FormatBytes(out.BytesAfter))
		},
	}
}
