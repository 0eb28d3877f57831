package keep

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newVersionCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  lattice version --json", Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if env.JSON {
				return env.PrintJSON(map[string]any{
					"version": env.Version, "protocol_version": "v1", "execir_version": "1.0", "commit": protocol.BuildCommit(),
					"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(env.Out, "lattice %s (protocol v1, ExecIR 1.0)\n", env.Version)
			return err
		},
	}
}
