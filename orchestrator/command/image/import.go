package image

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newImportCmd(env *setup.Env) *cobra.Command {
	var name string
	cmd := newHostCmd(env, "import PATH", "Import an image, unless it exists already", `  lattice image import ./rootfs.tar.zst --name debian
  lattice image import ./layout#v2
  docker save app | gzip >app.tar.gz && lattice image import app.tar.gz`, func(ctx context.Context, c *sprites.Client, list []string) error {
		ref, err := equip.ImagePath(list[0])
		if err != nil {
			return err
		}
		img, err := equip.ImportImage(ctx, env.Console, c, sprites.ImageImport{Ref: ref, Name: name})
		if err != nil {
			return err
		}
		return printImage(env.Console, img)
	})
	cmd.Long = `Import an image, unless it exists already. Every layer is checked against its digest, and no entry of an archive can leave the
image's folder. Devices and privileged attributes are left out and counted. PATH#NAME chooses one of several images in a
layout or archive. Without --name, the image gets the name of its file.
` + cli.ExitCodes
	cmd.Flags().StringVar(&name, "name", "", "name of the image; another image with this name loses it")
	cmd.ValidArgsFunction = nil // files
	return cmd
}
