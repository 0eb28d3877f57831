package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newSpriteCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "sprite", Short: "Work with sprites (sandboxes) directly", Long: "Work with sprites directly: on the embedded host, or on a remote one when SPRITES_API_URL and SPRITES_TOKEN are set.\n" + exitCodes,
		Example: "  lattice sprite create box\n  lattice sprite exec box -- sh -c 'echo hello >/workspace/f'\n  lattice sprite checkpoint box --comment 'with f'"})
	cmd.AddCommand(
		newSpriteCreateCmd(d),
		d.spriteCmd("show NAME", "Show a sprite", "  lattice sprite show box --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
			s, err := c.Get(ctx, list[0])
			if err != nil {
				return err
			}
			return d.printSprite(s)
		}),
		newSpriteLsCmd(d),
		newSpriteRmCmd(d),
		newSpriteCheckpointCmd(d),
		newSpriteCheckpointsCmd(d),
		d.spriteCmd("restore NAME CHECKPOINT", "Put a sprite's files back to a checkpoint; its processes end", "  lattice sprite restore box v1", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
			err := c.Restore(ctx, list[0], list[1])
			if errors.Is(err, sprites.ErrNotFound) {
				if _, gone := c.Get(ctx, list[0]); gone == nil {
					return fault.NotFound("checkpoint_not_found", "%s has no checkpoint %s", list[0], clean(list[1])).WithHint("lattice sprite checkpoints %s", list[0])
				}
			}
			if err == nil && d.json {
				return d.printJSON(map[string]any{"name": list[0], "restored": list[1]})
			}
			return err
		}),
		newSpriteForkCmd(d),
		newSpriteDiffCmd(d),
		newSpriteUsageCmd(d),
		newSpriteExecCmd(d),
		newSpriteConsoleCmd(d),
		newSpriteSessionsCmd(d),
		newSpriteAttachCmd(d),
		newSpriteKillCmd(d),
		newSpriteRestartCmd(d),
		newSpriteCheckCmd(d),
		newSpriteUpdateCmd(d),
		newSpriteTaskCmd(d),
		newSpriteInstallCmd(d),
		newSpriteServeCmd(d),
		newSpritePolicyCmd(d),
		newSpritePruneCmd(d),
		newSpriteServiceCmd(d),
		newSpriteProxyCmd(d),
		newSpritePortsCmd(d),
		newSpriteURLCmd(d),
		newSpriteCpCmd(d),
		newSpriteFilesCmd(d),
		newSpriteWatchCmd(d),
	)
	completeSpriteCmds(d, cmd)
	return cmd
}

// spriteCmd makes a command that speaks to the sprite host.
func (d *deps) spriteCmd(use, short, example string, n int, do func(context.Context, *sprites.Client, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + exitCodes, Example: example, Args: args(cobra.ExactArgs(n)),
		RunE: func(c *cobra.Command, list []string) error {
			return d.withHost(c.Context(), func(ctx context.Context, client *sprites.Client, outlived bool) error {
				err := do(ctx, client, list)
				if _, lasts := c.Annotations[lasting]; lasts && err == nil && !outlived {
					d.sayEnding()
				}
				return spriteProblem(err)
			})
		},
	}
	return cmd
}

// lasting marks commands of spriteCmd that are about what lasts no longer than the host.
const lasting = "lasting"

func lasts(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{lasting: ""}
	return cmd
}

// sayEnding says what becomes of it where this process is the host.
func (d *deps) sayEnding() {
	fmt.Fprintln(d.err, "lattice: nothing else leads here, so that what runs in sprites, is served from them or is noted about them ends with this command\n  try: keep lattice serve running beside it")
}

// withSprites hands the client of the remote host, or of the leader's embedded one, to do.
func (d *deps) withSprites(ctx context.Context, do func(context.Context, *sprites.Client) error) error {
	return d.withHost(ctx, func(ctx context.Context, c *sprites.Client, _ bool) error { return do(ctx, c) })
}

// withHost is withSprites that also says whether the host outlives this process.
func (d *deps) withHost(ctx context.Context, do func(ctx context.Context, c *sprites.Client, outlived bool) error) error {
	if client := d.remoteSprites(); client != nil {
		return do(ctx, client, true)
	}
	c, err := connect(ctx, d, leaderOptions{})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.warn(ctx); err != nil {
		return err
	}
	hc := api.HTTPClient(c.socket)
	defer hc.CloseIdleConnections()
	return do(ctx, sprites.New(api.Base, "", hc), c.leading == nil)
}

// remoteSprites is the client of the remote Sprites API, or nil when none is set.
func (d *deps) remoteSprites() *sprites.Client {
	if d.spritesURL != "" {
		return sprites.NewWith(d.spritesURL, d.spritesToken, nil, sprites.Options{Remote: true, Jitter: rand.Float64})
	}
	return nil
}

// spriteProblem gives errors of the Sprites API their exit codes and remedies.
func spriteProblem(err error) error {
	return leader.SpriteProblem(err)
}

func (d *deps) printSprite(s sprites.Sprite) error {
	if d.json {
		return d.printJSON(s)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{{"name", s.Name}, {"status", s.Status}, {"isolation", isolationText(s)}, {"limits", limitsText(s.Limits)}, {"id", s.ID}, {"url", urlText(s)}, {"labels", strings.Join(s.Labels, " ")}, {"network", networkText(s)},
		{"image", shortDigest(s.Image)}, {"workspace", s.WorkspacePath}, {"tools", strings.Join(s.Tools, " ")}, {"skills", strings.Join(s.Skills, " ")}, {"degraded", s.Degraded}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], clean(row[1]))
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

// networkText is the name of a sprite's network policy and what it is worth.
func networkText(s sprites.Sprite) string {
	if s.Network == nil {
		return ""
	}
	text := s.Network.Preset + ", " + s.Network.Enforcement
	if s.Network.Why != "" {
		text += ": " + s.Network.Why
	}
	return text
}
