package sprite

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// installOptions are the flags of lattice sprite install.
type installOptions struct {
	checkpoint bool
	comment    string
	spritekit  string
}

func newInstallCmd(env *setup.Env) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Install the skills into a remote sprite's /skills, and keep the result as its golden checkpoint",
		Long: `Install the skills of spritekit into a remote sprite, for its architecture: spritekit-linux-ARCH or spritekit, next to
lattice, on PATH or given with --spritekit. Existing files are compared by their digests, and the digests of sent files are
verified; other skills in /skills do not change. Runs do this automatically before the first call in a sprite, and sprites of
the embedded host get their skills from the host.

Afterwards the sprite gets a golden checkpoint, whose comment contains the digest of spritekit, to which lattice sprite
restore can return. If this checkpoint exists already, it is kept, so that an install can be repeated, even after one that was
interrupted. Another --comment creates another checkpoint, --checkpoint=false none.
` + cli.ExitCodes,
		Example: "  lattice sprite install box --spritekit bin/spritekit-linux-arm64\n  lattice sprite install box --comment 'node 22 and the tools'",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: complete.Sprites(env),
		RunE: func(c *cobra.Command, list []string) error {
			if !o.checkpoint && o.comment != "" {
				return cli.UsageErrorf("--comment names the checkpoint, which --checkpoint=false leaves out")
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return installSprite(ctx, env, client, o, list[0])
			})
		},
	}
	equip.AddSpritekitFlag(cmd, &o.spritekit, "the sprite")
	cmd.Flags().BoolVar(&o.checkpoint, "checkpoint", true, "keep the result as a golden checkpoint")
	cmd.Flags().StringVar(&o.comment, "comment", "", "`TEXT` of the golden checkpoint's comment, before the digest (default golden)")
	return cmd
}

// installed is the output of lattice sprite install --json.
type installed struct {
	Sprite     string `json:"sprite"`
	Installed  bool   `json:"installed"`
	Spritekit  string `json:"spritekit_sha256,omitempty"` // of remote sprites
	Checkpoint string `json:"checkpoint_id,omitempty"`
	Reused     bool   `json:"checkpoint_reused,omitempty"` // it was there before
}

func installSprite(ctx context.Context, env *setup.Env, client *sprites.Client, o installOptions, name string) error {
	if _, err := client.Get(ctx, name); err != nil {
		return err
	}
	out := installed{Sprite: name, Installed: true}
	var err error
	if env.RemoteSprites() != nil {
		kit, show := equip.NewEquipment(env, client, o.spritekit), cli.NewProgress(env.Console)
		kit.Tell = show.ShowStep
		out.Spritekit, err = kit.Install(ctx, name)
		show.Clear()
		if err != nil {
			return err
		}
	}
	if o.checkpoint {
		stop := env.ShowWait("take the golden checkpoint")
		golden, err := skillset.TakeGolden(ctx, client, name, goldenName(o.comment, out.Spritekit))
		stop()
		if err != nil {
			return err
		}
		out.Checkpoint, out.Reused = golden.Checkpoint.ID, golden.Reused
	}
	if env.JSON {
		return env.PrintJSON(out)
	}
	fmt.Fprintf(env.Out, "sprite %s has the skills of this spritekit\n", name)
	if out.Checkpoint != "" {
		_, err = fmt.Fprintf(env.Out, "golden checkpoint %s; to return to it: lattice sprite restore %s %s\n", cli.Clean(out.Checkpoint), name, cli.Clean(out.Checkpoint))
	}
	return err
}

// goldenName returns the comment of a golden checkpoint: the text of the person, and the digest of spritekit.
func goldenName(comment, digest string) string {
	name := cmp.Or(strings.TrimSpace(comment), "golden")
	if digest != "" {
		name += fmt.Sprintf(" (spritekit %.12s)", digest)
	}
	return name
}
