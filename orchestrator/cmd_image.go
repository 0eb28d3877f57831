package main

import (
	"context"
	"errors"
	"fmt"
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
