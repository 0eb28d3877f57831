// Package image holds the commands below lattice image, which make, import and list what sprites start from: one file per
// command.
package image

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice image.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "image", Short: "Keep the root filesystems that sprites of the embedded host start from",
		Long: `Keep the root filesystems that sprites of the embedded host start from. Nothing is fetched from registries and no daemon
is asked: an image comes as an OCI layout (a folder or a tar), as a docker-archive, or as a root filesystem (a tar, plain
or by gzip or zstd, or a folder).
` + cli.ExitCodes,
		Example: "  lattice image import ./rootfs.tar.zst --name debian\n  lattice image ls"})
	cmd.AddCommand(newBuildCmd(env), newImportCmd(env), newLsCmd(env), newShowCmd(env), newRmCmd(env))
	return cmd
}
