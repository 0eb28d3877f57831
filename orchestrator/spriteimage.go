package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// addImageFlag adds --image to a command that makes sprites.
func addImageFlag(d *deps, cmd *cobra.Command, image *string) {
	cmd.Flags().StringVar(image, "image", "", "`IMAGE` that the new sprite starts from: a name or digest (lattice image ls), the path of an OCI layout, a docker-archive or a root filesystem (tar or folder), which is imported first, or none for this machine's own system (default: the setting image, else none)")
	_ = cmd.RegisterFlagCompletionFunc("image", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names, _ := completeImages(d)(c, nil, "")
		return append(names, described(sprites.NoImage, "this machine's own system")), cobra.ShellCompDirectiveDefault // files, too
	})
}

// imageOfSprite refuses an image for a sprite that is there already.
func imageOfSprite(image, sprite string) error {
	if image == "" || sprite == "" {
		return nil
	}
	return fault.BadInput("image_of_sprite", "what a sprite starts from is chosen when it is made, and %s is there already", sprite).WithHint("leave --sprite out, or make one: lattice sprite create NAME --image %s", image)
}

// startImage finds what a new sprite starts from, by --image or the settings. A path is imported first, which is told on
// terminals. It returns what to ask the host for: a digest, sprites.NoImage, or "" where nobody said anything.
func (d *deps) startImage(ctx context.Context, c *sprites.Client, said string) (string, error) {
	if d.remoteSprites() != nil {
		if said == "" {
			return "", nil // the setting is about the embedded host
		}
		return "", fault.Unsupported("images_are_local", "images are the embedded host's; remote sprites start from their service's").WithHint("leave --image out, or unset SPRITES_API_URL")
	}
	ref := cmp.Or(said, d.expand(d.settings.Image))
	if ref == "" || ref == sprites.NoImage {
		return ref, nil
	}
	if !looksLikePath(ref) {
		img, err := c.Image(ctx, ref)
		if err == nil {
			return img.Digest, nil
		}
		if _, missing := os.Stat(said); missing != nil || !errors.Is(err, sprites.ErrNotFound) {
			return "", imageProblem(err)
		}
	}
	path, err := imagePath(ref)
	if err != nil {
		return "", err
	}
	img, err := c.ImportImage(ctx, sprites.ImageImport{Ref: path}, d.tellImport())
	return img.Digest, imageProblem(err)
}

// looksLikePath reports whether a person who writes ref means a path, whatever images are called.
func looksLikePath(ref string) bool {
	return filepath.IsAbs(ref) || strings.HasPrefix(ref, ".") || strings.ContainsRune(ref, filepath.Separator)
}
