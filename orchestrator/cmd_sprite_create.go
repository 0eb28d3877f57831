package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newSpriteCreateCmd(d *deps) *cobra.Command {
	var tools, skills, labels []string
	var image string
	var limits limitOptions
	var fresh spriteOptions
	cmd := d.spriteCmd("create NAME", "Create a sprite", "  lattice sprite create box\n  lattice sprite create rusty --tool ~/.rustup/toolchains/stable-x86_64-unknown-linux-gnu\n  lattice sprite create deb --image ./rootfs.tar.zst\n  lattice sprite create small --memory 512M --cpus 1 --min-isolation ns-user", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if err := cmp.Or(limits.check(), fresh.check(d, "")); err != nil {
			return err
		}
		if fresh.spritekit != "" && d.remoteSprites() != nil {
			return fault.Unsupported("spritekit_is_local", "a remote sprite gets its skills when they are first needed").WithHint("lattice sprite install %s --spritekit %s", list[0], fresh.spritekit)
		}
		checked, err := d.spriteTools(tools)
		if err != nil {
			return err
		}
		own, err := d.ownSkills(skills, "")
		if err != nil {
			return err
		}
		start, err := d.startImage(ctx, c, image)
		if err != nil {
			return err
		}
		s, err := c.Create(ctx, sprites.Create{Name: list[0], Labels: labels, Image: start, Network: fresh.network.preset, HostPorts: fresh.hostPorts(ctx, d), Spritekit: d.shownSpritekit(fresh), Tools: checked, Skills: d.shownSkills(own),
			Config: limits.config(), MinIsolation: limits.least.String()})
		var refused *sprites.APIError
		if errors.As(err, &refused) && refused.Status == http.StatusConflict {
			if _, gone := c.Get(ctx, list[0]); gone == nil {
				return fault.Busy("sprite_exists", "there is a sprite %s already", list[0]).WithHint("lattice sprite rm %s, or take another name", list[0])
			}
		}
		if err != nil {
			return err
		}
		if err := d.sendSkills(ctx, c, list[0], own); err != nil {
			return err
		}
		return d.printSprite(s)
	})
	cmd.Flags().StringArrayVar(&labels, "label", nil, "give it this `LABEL`, by which lattice sprite ls finds it (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("label", completeLabels(d))
	limits.addFlags(cmd, "the sprite's")
	fresh.addFlags(cmd)
	addImageFlag(d, cmd, &image)
	addToolFlag(cmd, &tools)
	addSkillFlag(cmd, &skills)
	return cmd
}
