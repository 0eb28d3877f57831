package equip

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// AddImageFlag adds --image to a command that makes sprites.
func AddImageFlag(env *setup.Env, cmd *cobra.Command, image *string) {
	cmd.Flags().StringVar(image, "image", "", "`IMAGE` that the new sprite starts from: a name or digest (lattice image ls); the path of an OCI layout, docker-archive or root filesystem (tar or folder), which is imported first; or none, for this machine's own system (default: the setting image, else none)")
	_ = cmd.RegisterFlagCompletionFunc("image", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names, _ := CompleteImages(env)(c, nil, "")
		return append(names, complete.Describe(sprites.NoImage, "this machine's own system")), cobra.ShellCompDirectiveDefault // files, too
	})
}

// ImageOfSprite refuses an image for a sprite that is there already.
func ImageOfSprite(image, sprite string) error {
	if image == "" || sprite == "" {
		return nil
	}
	return fault.BadInput("image_of_sprite", "--image takes effect when a sprite is created, and %s already exists", sprite).WithHint("leave out --sprite, or create another sprite: lattice sprite create NAME --image %s", image)
}

// FindStartImage returns the image that a new sprite starts from, by --image or the settings: a digest, sprites.NoImage, or
// "" where neither names one. A path is imported first, and terminals show the progress.
func FindStartImage(ctx context.Context, env *setup.Env, c *sprites.Client, said string) (string, error) {
	if env.RemoteSprites() != nil {
		if said == "" {
			return "", nil // the setting is about the embedded host
		}
		return "", fault.Unsupported("images_are_local", "only the embedded host has images; remote sprites start from those of their service").WithHint("leave out --image, or unset SPRITES_API_URL")
	}
	ref := cmp.Or(said, env.Expand(env.Settings.Image))
	if ref == "" || ref == sprites.NoImage {
		return ref, nil
	}
	if !LooksLikePath(ref) {
		img, err := c.Images().Get(ctx, ref)
		if err == nil {
			return img.Digest, nil
		}
		if _, missing := os.Stat(said); missing != nil || !errors.Is(err, sprites.ErrNotFound) {
			return "", ExplainImage(err)
		}
	}
	path, err := ImagePath(ref)
	if err != nil {
		return "", err
	}
	img, err := ImportImage(ctx, env.Console, c, sprites.ImageImport{Ref: path})
	return img.Digest, ExplainImage(err)
}

// LooksLikePath reports whether ref is written as a path rather than as the name of an image.
func LooksLikePath(ref string) bool {
	return filepath.IsAbs(ref) || strings.HasPrefix(ref, ".") || strings.ContainsRune(ref, filepath.Separator)
}

// ExplainImage gives errors of the host about images their exit codes.
func ExplainImage(err error) error {
	var answer *sprites.APIError
	if !errors.As(err, &answer) {
		return setup.ExplainSprite(err)
	}
	exit, hint := 0, ""
	switch answer.Code {
	case "image_refused":
		exit = protocol.ExitBadInput
	case "image_in_use":
		exit = protocol.ExitBusy
	case "image_not_found":
		exit = protocol.ExitNotFound
	case "isolation_unavailable":
		exit, hint = protocol.ExitUnsupported, "lattice doctor"
	case "disk_full", "disk_low":
		exit = protocol.ExitLimit
	default:
		return setup.ExplainSprite(err)
	}
	return fault.New(exit, answer.Code, "%s", answer.Message).WithHint("%s", hint)
}

func ShortDigest(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

// CompleteImages offers the names of images for the first argument. They are known only while their host runs.
func CompleteImages(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 || env.RemoteSprites() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.Images().List(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, img := range all {
			if len(img.Names) == 0 {
				names = append(names, complete.Describe(ShortDigest(img.Digest), img.Source))
			}
			for _, name := range img.Names {
				names = append(names, complete.Describe(name, img.Source))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// ImagePath returns the absolute path of an image to import.
func ImagePath(ref string) (string, error) {
	path, _, _ := strings.Cut(ref, "#")
	if _, err := os.Stat(ref); err != nil {
		if _, err := os.Stat(path); err != nil {
			return "", fault.NotFound("image_not_found", "%v", err).WithHint("give the path of an OCI layout, a docker-archive, or a root filesystem as a tar or a folder")
		}
	}
	return filepath.Abs(ref)
}

// ImportImage imports an image, and shows on a terminal how far that is.
func ImportImage(ctx context.Context, console *cli.Console, c *sprites.Client, in sprites.ImageImport) (sprites.Image, error) {
	show := cli.NewProgress(console)
	defer show.Clear()
	return c.Images().Import(ctx, in, func(p sprites.ImageProgress) { show.ShowStep(cmp.Or(p.Step, p.Data), p.Done, p.Of) })
}
