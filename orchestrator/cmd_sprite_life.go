package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newSpriteRestartCmd(d *deps) *cobra.Command {
	cmd := d.spriteCmd("restart NAME", "End all that runs in a sprite and start it anew; its files stay", "  lattice sprite restart box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if err := c.Restart(ctx, list[0]); err != nil {
			return err
		}
		s, err := c.Get(ctx, list[0])
		if err != nil || !d.json {
			return err
		}
		return d.printJSON(s)
	})
	cmd.Long = `End all that runs in a sprite and start it anew. Its files stay as they are, and its services start again. It helps when a
sprite answers no more.
` + exitCodes
	return cmd
}

func newSpriteCheckCmd(d *deps) *cobra.Command {
	cmd := d.spriteCmd("check NAME", "Wake a sprite and find out whether commands run in it", "  lattice sprite check box || lattice sprite restart box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		h, err := c.Check(ctx, list[0])
		if err != nil {
			return err
		}
		if d.json {
			err = d.printJSON(h)
		} else {
			_, err = fmt.Fprintln(d.out, strings.TrimSpace(clean(h.Status+" "+h.Reason)))
		}
		if err == nil && h.Status != "healthy" {
			err = &exitError{code: protocol.ExitFailed}
		}
		return err
	})
	cmd.Long = "Wake a sprite and find out whether commands run in it. The exit code is 1 when they do not.\n" + exitCodes
	return cmd
}

// spriteUpdateOptions are the flags of `lattice sprite update`.
type spriteUpdateOptions struct {
	add, remove []string
	clear       bool
	url         string
}

func newSpriteUpdateCmd(d *deps) *cobra.Command {
	var o spriteUpdateOptions
	cmd := d.spriteCmd("update NAME", "Change a sprite's labels, and who may open its URL", "  lattice sprite update box --label team-a --unlabel team-b\n  lattice sprite update box --clear-labels --url public", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if len(o.add)+len(o.remove) == 0 && !o.clear && o.url == "" {
			return usageError{errors.New("nothing is to be changed: give --label, --unlabel, --clear-labels or --url")}
		}
		if o.url != "" && o.url != "sprite" && o.url != "public" {
			return usageError{fmt.Errorf("--url is sprite or public, not %q", o.url)}
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
		return d.printSprite(s)
	})
	cmd.Long = `Change a sprite's labels, and who may open its URL. The label that says for which run a sprite was made stays unless it is
named: it is how lattice sprite prune knows what to remove.
` + exitCodes
	f := cmd.Flags()
	f.StringArrayVar(&o.add, "label", nil, "give it this `LABEL`, too (repeatable)")
	f.StringArrayVar(&o.remove, "unlabel", nil, "take this `LABEL` away (repeatable)")
	f.BoolVar(&o.clear, "clear-labels", false, "take all other labels away")
	f.StringVar(&o.url, "url", "", "who may open its URL: sprite (who has a token) or public")
	_ = cmd.RegisterFlagCompletionFunc("label", completeLabels(d))
	_ = cmd.RegisterFlagCompletionFunc("unlabel", completeLabels(d))
	_ = cmd.RegisterFlagCompletionFunc("url", cobra.FixedCompletions([]string{"sprite", "public"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// labels is what the options make of a sprite's labels.
func (o spriteUpdateOptions) labels(have []string) []string {
	kept := slices.DeleteFunc(slices.Clone(have), func(l string) bool {
		return slices.Contains(o.remove, l) || o.clear && !strings.HasPrefix(l, leader.OwnerLabel)
	})
	for _, l := range o.add {
		if !slices.Contains(kept, l) {
			kept = append(kept, l)
		}
	}
	return kept
}

func newSpriteTaskCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "task", Aliases: []string{"tasks"}, Short: "Keep a sprite awake while nobody is attached to it",
		Long: `Keep a sprite awake while nobody is attached to it. An idle sprite falls asleep: its processes stand still until it is used
again. A task keeps it awake until the task ends, after an hour at most; adding it again renews it. What runs in a sprite
keeps itself awake the same way, through /.sprite/api.sock.
` + exitCodes,
		Example: "  lattice sprite task add box nightly-build --for 30m\n  lattice sprite task ls box\n  lattice sprite task rm box nightly-build"})
	var length time.Duration
	add := lasts(d.spriteCmd("add NAME TASK", "Keep a sprite awake by a task, or renew the task", "  lattice sprite task add box nightly-build --for 30m", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
		if length <= 0 {
			return usageError{errors.New("--for is a duration above 0")}
		}
		t, err := c.KeepAwake(ctx, list[0], list[1], length)
		if err != nil || !d.json {
			return err
		}
		return d.printJSON(t)
	}))
	add.Flags().DurationVar(&length, "for", time.Hour, "how long the task lasts, an hour at most")
	cmd.AddCommand(
		d.spriteCmd("ls NAME", "List what keeps a sprite awake", "  lattice sprite task ls box --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
			all, err := c.Tasks(ctx, list[0])
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(all)
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TASK\tLASTS")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\n", clean(t.Name), clean(t.Expire))
			}
			return w.Flush()
		}),
		add,
		d.spriteCmd("rm NAME TASK", "End a task before its time", "  lattice sprite task rm box nightly-build", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
			return c.EndTask(ctx, list[0], list[1])
		}))
	completeSpriteCmds(d, cmd)
	return cmd
}
