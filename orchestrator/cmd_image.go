package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newImageCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "image", Short: "Keep the root filesystems that sprites of the embedded host start from",
		Long: `Keep the root filesystems that sprites of the embedded host start from. Nothing is fetched from registries and no daemon
is asked: an image comes as an OCI layout (a folder or a tar), as a docker-archive, or as a root filesystem (a tar, plain
or by gzip or zstd, or a folder).
` + exitCodes,
		Example: "  lattice image import ./rootfs.tar.zst --name debian\n  lattice image ls"})
	cmd.AddCommand(newImageBuildCmd(d), newImageImportCmd(d), newImageLsCmd(d), newImageShowCmd(d), newImageRmCmd(d))
	return cmd
}

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

func newImageLsCmd(d *deps) *cobra.Command {
	cmd := d.imageCmd("ls", "List the images, newest first", "  lattice image ls --json", func(ctx context.Context, c *sprites.Client, _ []string) error {
		all, err := c.Images(ctx)
		if err != nil {
			return err
		}
		if d.json {
			return d.printJSON(all)
		}
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "IMAGE\tNAMES\tKIND\tSIZE\tAGE")
		for _, img := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d MB\t%s\n", shortDigest(img.Digest), clean(strings.Join(img.Names, ",")), img.Kind, img.Size/1e6, age(img.ImportedAt))
		}
		return w.Flush()
	})
	cmd.Args = args(cobra.NoArgs)
	return cmd
}

func newImageShowCmd(d *deps) *cobra.Command {
	return d.imageCmd("show IMAGE", "Show an image", "  lattice image show debian --json", func(ctx context.Context, c *sprites.Client, list []string) error {
		img, err := c.Image(ctx, list[0])
		if err != nil {
			return err
		}
		return d.printImage(img)
	})
}

func newImageRmCmd(d *deps) *cobra.Command {
	cmd := d.imageCmd("rm IMAGE…", "Remove images that no sprite uses", "  lattice image rm debian\n  lattice image rm old older --json", func(ctx context.Context, c *sprites.Client, list []string) error {
		return d.removeEach(ctx, list, func(ctx context.Context, ref string) error {
			return imageProblem(c.RemoveImage(ctx, ref))
		})
	})
	cmd.Args = args(cobra.MinimumNArgs(1))
	cmd.Long = "Remove images that no sprite uses.\n" + removalHelp + exitCodes
	one := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return without(list)(one(c, nil, word))
	}
	return cmd
}

// imageCmd makes a command that speaks to the embedded host about images. It takes one argument.
func (d *deps) imageCmd(use, short, example string, do func(context.Context, *sprites.Client, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + exitCodes, Example: example, Args: args(cobra.ExactArgs(1)), ValidArgsFunction: completeImages(d),
		RunE: func(c *cobra.Command, list []string) error {
			if d.remoteSprites() != nil {
				return fault.Unsupported("images_are_local", "images are the embedded host's; remote sprites start from their service's").WithHint("unset SPRITES_API_URL, or keep a checkpoint there: lattice sprite install NAME")
			}
			return d.withSprites(c.Context(), func(ctx context.Context, client *sprites.Client) error {
				return imageProblem(do(ctx, client, list))
			})
		},
	}
	return cmd
}

// imageProblem gives what the host says of images its exit code.
func imageProblem(err error) error {
	var answer *sprites.APIError
	if !errors.As(err, &answer) {
		return spriteProblem(err)
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
		return spriteProblem(err)
	}
	return fault.New(exit, answer.Code, "%s", answer.Message).WithHint("%s", hint)
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

func shortDigest(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

func (d *deps) printImage(img sprites.Image) error {
	if d.json {
		return d.printJSON(img)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	rows := [][2]string{
		{"digest", img.Digest}, {"names", strings.Join(img.Names, " ")}, {"kind", img.Kind}, {"source", img.Source}, {"architecture", img.Architecture},
		{"entries", fmt.Sprint(img.Entries)}, {"size", fmt.Sprintf("%d MB", img.Size/1e6)}, {"env", strings.Join(img.Config.Env, " ")}, {"working dir", img.Config.WorkingDir},
		{"left out", leftOut(img.LeftOut)},
	}
	if img.Config.User != "" {
		rows = append(rows, [2]string{"user", img.Config.User + " (commands run as sprite)"})
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], clean(row[1]))
		}
	}
	return w.Flush()
}

func leftOut(l sprites.ImageLeftOut) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{l.Devices, "devices"}, {l.Attributes, "extended attributes"}, {l.Setid, "setuid and setgid bits"}, {l.Owners, "owners above 65535"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// completeImages offers the names of images for the first argument. They are known only while their host runs.
func completeImages(d *deps) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 || d.remoteSprites() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWait)
		defer cancel()
		client, done := d.peekSprites()
		defer done()
		all, err := client.Images(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, img := range all {
			if len(img.Names) == 0 {
				names = append(names, described(shortDigest(img.Digest), img.Source))
			}
			for _, name := range img.Names {
				names = append(names, described(name, img.Source))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
