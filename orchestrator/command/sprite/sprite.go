// Package sprite holds the commands below lattice sprite, which work with sprites directly: one file per command, or per noun
// where a noun has several.
package sprite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "sprite", Short: "Work with sprites (sandboxes) directly", Long: "Work with sprites directly: on the embedded host, or on a remote one when SPRITES_API_URL and SPRITES_TOKEN are set.\n" + cli.ExitCodes,
		Example: "  lattice sprite create box\n  lattice sprite exec box -- sh -c 'echo hello >/workspace/f'\n  lattice sprite checkpoint box --comment 'with f'"})
	cmd.AddCommand(
		newSpriteCreateCmd(env),
		connect.NewSpriteCmd(env, "show NAME", "Show a sprite", "  lattice sprite show box --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
			s, err := c.Get(ctx, list[0])
			if err != nil {
				return err
			}
			return printSprite(env.Console, s)
		}),
		newSpriteLsCmd(env),
		newSpriteRmCmd(env),
		newSpriteCheckpointCmd(env),
		newSpriteCheckpointsCmd(env),
		connect.NewSpriteCmd(env, "restore NAME CHECKPOINT", "Put a sprite's files back to a checkpoint; its processes end", "  lattice sprite restore box v1", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
			err := c.Restore(ctx, list[0], list[1])
			if errors.Is(err, sprites.ErrNotFound) {
				if _, gone := c.Get(ctx, list[0]); gone == nil {
					return fault.NotFound("checkpoint_not_found", "%s has no checkpoint %s", list[0], cli.Clean(list[1])).WithHint("lattice sprite checkpoints %s", list[0])
				}
			}
			if err == nil && env.JSON {
				return env.PrintJSON(map[string]any{"name": list[0], "restored": list[1]})
			}
			return err
		}),
		newSpriteForkCmd(env),
		newSpriteDiffCmd(env),
		newSpriteUsageCmd(env),
		newSpriteExecCmd(env),
		newSpriteConsoleCmd(env),
		newSpriteSessionsCmd(env),
		newSpriteAttachCmd(env),
		newSpriteKillCmd(env),
		newSpriteRestartCmd(env),
		newSpriteCheckCmd(env),
		newSpriteUpdateCmd(env),
		newSpriteTaskCmd(env),
		newSpriteInstallCmd(env),
		newSpriteServeCmd(env),
		newSpritePolicyCmd(env),
		newSpritePruneCmd(env),
		newSpriteServiceCmd(env),
		newSpriteProxyCmd(env),
		newSpritePortsCmd(env),
		newSpriteURLCmd(env),
		newSpriteCpCmd(env),
		newSpriteFilesCmd(env),
		newSpriteWatchCmd(env),
	)
	complete.SpriteCommands(env, cmd)
	return cmd
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

// urlText is a sprite's URL and who may open it.
func urlText(s sprites.Sprite) string {
	if s.URL == "" || s.URLSettings == nil {
		return s.URL
	}
	return s.URL + " (" + s.URLSettings.Auth + ")"
}
