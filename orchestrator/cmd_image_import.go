package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newImageImportCmd(d *deps) *cobra.Command {
	var name string
	cmd := d.imageCmd("import PATH", "Import an image, unless it is there already", `  lattice image import ./rootfs.tar.zst --name debian
  lattice image import ./layout#v2
  docker save app | gzip >app.tar.gz && lattice image import app.tar.gz`, func(ctx context.Context, c *sprites.Client, list []string) error {
		ref, err := imagePath(list[0])
		if err != nil {
			return err
		}
		img, err := c.ImportImage(ctx, sprites.ImageImport{Ref: ref, Name: name}, d.tellImport())
		if err != nil {
			return err
		}
		return d.printImage(img)
	})
	cmd.Long = `Import an image, unless it is there already. Every layer is checked against its digest, and nothing of an archive gets out
of the image's folder; devices and privileged attributes are left out and counted. PATH#NAME chooses one of several
images in a layout or archive. Without --name the image is called after its file.
` + exitCodes
	cmd.Flags().StringVar(&name, "name", "", "what to call it from then on; the name is taken from any other image")
	cmd.ValidArgsFunction = nil // files
	return cmd
}

// imagePath is what a person means by an image that is to be imported: a path, made absolute.
func imagePath(ref string) (string, error) {
	path, _, _ := strings.Cut(ref, "#")
	if _, err := os.Stat(ref); err != nil {
		if _, err := os.Stat(path); err != nil {
			return "", fault.NotFound("image_not_found", "%v", err).WithHint("give the path of an OCI layout, a docker-archive, or a root filesystem as a tar or a folder")
		}
	}
	return filepath.Abs(ref)
}

// tellImport shows on a terminal how far an import is.
func (d *deps) tellImport() func(string) {
	if !d.terminal || d.json {
		return nil
	}
	return func(text string) { fmt.Fprintf(d.err, "%s\n", clean(text)) }
}
