package image

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// newHostCmd makes a command that speaks to the embedded host about images. It takes one argument.
func newHostCmd(env *setup.Env, use, short, example string, do func(context.Context, *sprites.Client, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + cli.ExitCodes, Example: example, Args: cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: equip.CompleteImages(env),
		RunE: func(c *cobra.Command, list []string) error {
			if env.RemoteSprites() != nil {
				return fault.Unsupported("images_are_local", "only the embedded host has images; remote sprites start from those of their service").WithHint("unset SPRITES_API_URL, or keep a checkpoint there: lattice sprite install NAME")
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return equip.ExplainImage(do(ctx, client, list))
			})
		},
	}
	return cmd
}

func printImage(console *cli.Console, img sprites.Image) error {
	if console.JSON {
		return console.PrintJSON(img)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
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
			fmt.Fprintf(w, "%s\t%s\n", row[0], cli.Clean(row[1]))
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
