// Package image holds the commands below lattice image, which build, import and list the images of sprites: one file per
// command. Begin with New. No registry and no daemon is ever used.
package image

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice image.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "image", Short: "Manage the root filesystems that sprites of the embedded host start from",
		Long: `Manage the root filesystems that sprites of the embedded host start from. No registry and no daemon is used: an image is
imported from an OCI layout (a folder or a tar), a docker-archive, or a root filesystem (a folder, or a tar, which may be
compressed with gzip or zstd).
` + cli.ExitCodes,
		Example: "  lattice image import ./rootfs.tar.zst --name debian\n  lattice image ls"})
	cmd.AddCommand(newBuildCmd(env), newImportCmd(env), newLsCmd(env), newShowCmd(env), newRmCmd(env))
	return cmd
}
