package sprite

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newCreateCmd(env *setup.Env) *cobra.Command {
	var tools, skills, labels []string
	var image string
	var limits equip.LimitOptions
	var fresh equip.Options
	cmd := connect.NewSpriteCmd(env, "create NAME", "Create a sprite", "  lattice sprite create box\n  lattice sprite create rusty --tool ~/.rustup/toolchains/stable-x86_64-unknown-linux-gnu\n  lattice sprite create deb --image ./rootfs.tar.zst\n  lattice sprite create small --memory 512M --cpus 1 --min-isolation ns-user", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		if err := cmp.Or(limits.Check(), fresh.Check(env, "")); err != nil {
			return err
		}
		if fresh.Spritekit != "" && env.RemoteSprites() != nil {
			return fault.Unsupported("spritekit_is_local", "a remote sprite gets its skills when they are first needed").WithHint("lattice sprite install %s --spritekit %s", list[0], fresh.Spritekit)
		}
		checked, err := equip.CheckSpriteTools(env, tools)
		if err != nil {
			return err
		}
		own, err := equip.FindSkillFolders(env, skills, "")
		if err != nil {
			return err
		}
		start, err := equip.FindStartImage(ctx, env, c, image)
		if err != nil {
			return err
		}
		stop := env.ShowWait("create")
		s, err := c.Create(ctx, sprites.Create{Name: list[0], Labels: labels, Image: start, Network: fresh.Network.Preset, HostPorts: fresh.HostPorts(ctx, env), Spritekit: equip.SelectShownSpritekit(env, fresh), Tools: checked, Skills: equip.SelectShownSkills(env, own),
			Config: limits.Config(), MinIsolation: limits.Least.String()})
		stop()
		if refused, ok := errors.AsType[*sprites.APIError](err); ok && refused.Status == http.StatusConflict {
			if _, gone := c.Get(ctx, list[0]); gone == nil {
				return fault.Busy("sprite_exists", "the sprite %s already exists", list[0]).WithHint("lattice sprite rm %s, or choose another name", list[0])
			}
		}
		if err != nil {
			return err
		}
		if err := equip.SendSkills(ctx, env, c, list[0], own); err != nil {
			return err
		}
		return printSprite(env.Console, s)
	})
	cmd.Flags().StringArrayVar(&labels, "label", nil, "add this `LABEL`, by which lattice sprite ls finds the sprite; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("label", completeLabels(env))
	limits.AddFlags(cmd, "the sprite's")
	fresh.AddFlags(cmd)
	equip.AddImageFlag(env, cmd, &image)
	equip.AddToolFlag(cmd, &tools)
	equip.AddSkillFlag(cmd, &skills)
	return cmd
}
