package sprite

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// updateOptions are the flags of `lattice sprite update`.
type updateOptions struct {
	add, remove []string
	clear       bool
	url         string
}

func newUpdateCmd(env *setup.Env) *cobra.Command {
	var o updateOptions
	cmd := connect.NewSpriteCmd(env, "update NAME", "Change a sprite's labels, and who may open its URL", "  lattice sprite update box --label team-a --unlabel team-b\n  lattice sprite update box --clear-labels --url public", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		if len(o.add)+len(o.remove) == 0 && !o.clear && o.url == "" {
			return cli.UsageErrorf("there is nothing to change: use --label, --unlabel, --clear-labels or --url")
		}
		if o.url != "" && o.url != "sprite" && o.url != "public" {
			return cli.UsageErrorf("--url must be sprite or public, not %q", o.url)
		}
		var change sprites.Update
		if o.url != "" {
			change.URLSettings = &sprites.URLSettings{Auth: o.url}
		}
		if len(o.add)+len(o.remove) > 0 || o.clear {
			s, err := c.Get(ctx, list[0])
			if err != nil {
				return err
			}
			labels := o.labels(s.Labels)
			change.Labels = &labels
		}
		s, err := c.Update(ctx, list[0], change)
		if err != nil {
			return err
		}
		return printSprite(env.Console, s)
	})
	cmd.Long = `Change a sprite's labels, and who may open its URL. The label with the run for which a sprite was created is removed only if
it is named: lattice sprite prune needs it.
` + cli.ExitCodes
	f := cmd.Flags()
	f.StringArrayVar(&o.add, "label", nil, "add this `LABEL`; repeatable")
	f.StringArrayVar(&o.remove, "unlabel", nil, "remove this `LABEL`; repeatable")
	f.BoolVar(&o.clear, "clear-labels", false, "remove all other labels")
	f.StringVar(&o.url, "url", "", "who may open its URL: sprite (everyone with a token) or public")
	_ = cmd.RegisterFlagCompletionFunc("label", completeLabels(env))
	_ = cmd.RegisterFlagCompletionFunc("unlabel", completeLabels(env))
	_ = cmd.RegisterFlagCompletionFunc("url", cobra.FixedCompletions([]string{"sprite", "public"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// labels applies the options to a sprite's labels.
func (o updateOptions) labels(have []string) []string {
	kept := slices.DeleteFunc(slices.Clone(have), func(l string) bool {
		return slices.Contains(o.remove, l) || o.clear && !strings.HasPrefix(l, history.OwnerLabel)
	})
	for _, l := range o.add {
		if !slices.Contains(kept, l) {
			kept = append(kept, l)
		}
	}
	return kept
}
