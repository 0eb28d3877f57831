package sprite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// lsOptions are the flags of `lattice sprite ls`.
type lsOptions struct {
	labels []string
	prefix string
	watch  bool
}

func newLsCmd(env *setup.Env) *cobra.Command {
	var o lsOptions
	cmd := connect.NewSpriteCmd(env, "ls", "List sprites, with the runs that they were created for", "  lattice sprite ls --label team-a\n  lattice sprite ls --watch --json", cobra.NoArgs,
		func(ctx context.Context, c *sprites.Client, _ []string) error {
			if o.watch {
				return watchSprites(ctx, env.Console, c, o)
			}
			all, err := c.List(ctx, o.prefix)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(s sprites.Sprite) bool { return !o.wants(s) })
			if env.JSON {
				return env.PrintJSON(all)
			}
			runs := map[string]api.RunView{}
			for _, r := range complete.PeekRuns(ctx, env) {
				runs[r.RunID] = r
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATUS\tISOLATION\tAGE\tRUN\tSTATE\tLABELS")
			for _, s := range all {
				run := api.OwnerOf(s.Labels)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Status, s.Isolation, cli.Age(s.CreatedAt), cli.Clean(run), runs[run].Status, cli.Clean(strings.Join(ownLabels(s), ",")))
			}
			return w.Flush()
		})
	cmd.Long = `List sprites, with the runs that they were created for. --watch shows the status of each sprite and then every change, until
Ctrl-C; with --json, each line is {"name","status","timestamp",…}, and the status of a removed sprite is "deleted".
` + cli.ExitCodes
	f := cmd.Flags()
	f.StringArrayVar(&o.labels, "label", nil, "list only sprites with this `LABEL`; repeatable, a sprite must have all of them")
	f.StringVar(&o.prefix, "prefix", "", "list only sprites whose name has this prefix")
	f.BoolVarP(&o.watch, "watch", "w", false, "show changes as they happen")
	_ = cmd.RegisterFlagCompletionFunc("label", completeLabels(env))
	return cmd
}

func (o lsOptions) wants(s sprites.Sprite) bool {
	return !slices.ContainsFunc(o.labels, func(l string) bool { return !slices.Contains(s.Labels, l) })
}

// watchSprites prints a line for each change until ctx or the stream ends.
func watchSprites(ctx context.Context, console *cli.Console, c *sprites.Client, o lsOptions) error {
	shown := map[string]bool{} // a removed sprite was shown before: its labels are no longer known
	err := c.WatchList(ctx, o.prefix, func(s sprites.SpriteState) error {
		if s.Type == "heartbeat" {
			return nil
		}
		if len(o.labels) > 0 && s.Status != "deleted" {
			full, err := c.Get(ctx, s.Name)
			if errors.Is(err, sprites.ErrNotFound) {
				return nil // that it is gone is the next line
			}
			if err != nil {
				return err
			}
			shown[s.Name] = shown[s.Name] || o.wants(full)
		}
		if len(o.labels) > 0 && !shown[s.Name] {
			return nil
		}
		return console.PrintResult(s, "%s  %-8s %s", s.Timestamp.Local().Format("15:04:05"), cli.Clean(s.Status), cli.Clean(s.Name))
	})
	if ctx.Err() != nil {
		return nil // as asked
	}
	return err
}

// ownLabels are those that people gave a sprite.
func ownLabels(s sprites.Sprite) []string {
	return slices.DeleteFunc(slices.Clone(s.Labels), func(l string) bool { return strings.HasPrefix(l, history.OwnerLabel) })
}

// completeLabels offers the labels that sprites have.
func completeLabels(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.List(ctx, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, s := range all {
			found = append(found, ownLabels(s)...)
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}
