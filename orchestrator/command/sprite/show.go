package sprite

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
)

func newShowCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "show NAME", "Show a sprite", "  lattice sprite show box --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		s, err := c.Get(ctx, list[0])
		if err != nil {
			return err
		}
		return printSprite(env.Console, s)
	})
}

func printSprite(console *cli.Console, s sprites.Sprite) error {
	if console.JSON {
		return console.PrintJSON(s)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{{"name", s.Name}, {"status", s.Status}, {"isolation", isolationText(s)}, {"limits", equip.DescribeLimits(s.Limits)}, {"id", s.ID}, {"url", urlText(s)}, {"labels", strings.Join(s.Labels, " ")}, {"network", equip.DescribeNetwork(s)},
		{"image", equip.ShortDigest(s.Image)}, {"workspace", s.WorkspacePath}, {"tools", strings.Join(s.Tools, " ")}, {"skills", strings.Join(s.Skills, " ")}, {"degraded", s.Degraded}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], cli.Clean(row[1]))
		}
	}
	return w.Flush()
}

// isolationText is how firmly a sprite is kept apart, and why it is not more firmly.
func isolationText(s sprites.Sprite) string {
	text := s.Isolation
	if s.MinIsolation != "" {
		text += ", at least " + s.MinIsolation
	}
	if s.Downgrade != nil {
		text += ": " + s.Downgrade.Reason + " (" + s.Downgrade.Remedy + ")"
	}
	return text
}

// urlText returns a sprite's URL and its access rule.
func urlText(s sprites.Sprite) string {
	if s.URL == "" || s.URLSettings == nil {
		return s.URL
	}
	return s.URL + " (" + s.URLSettings.Auth + ")"
}
