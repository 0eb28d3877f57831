package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newCompletionCmd(d *deps) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print the script that makes a shell complete lattice's commands",
		Long: `Print a completion script for a shell. It completes commands and flags, and asks lattice for the ids of runs, waits and
checkpoints and for the names of sprites, flows and permissions. Completing changes nothing and starts nothing.
In bash it needs the package bash-completion.
` + exitCodes,
		Example: `  source <(lattice completion bash)
  lattice completion zsh >"${fpath[1]}/_lattice"
  lattice completion fish >~/.config/fish/completions/lattice.fish`,
		Args:      args(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, list []string) error {
			root := c.Root()
			switch list[0] {
			case "bash":
				return root.GenBashCompletionV2(d.out, true)
			case "zsh":
				return root.GenZshCompletion(d.out)
			case "fish":
				return root.GenFishCompletion(d.out, true)
			}
			return root.GenPowerShellCompletionWithDesc(d.out)
		},
	}
}

// completeWait bounds what a person who pressed Tab waits for.
const completeWait = 2 * time.Second

// peeked is how many of the newest runs are offered.
const peeked = 100

// peekRuns lists the newest runs without leading: from the leader, else from the store as it lies there. Completion is silent:
// when neither answers there are none.
func (d *deps) peekRuns(ctx context.Context) []api.RunView {
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	if d.home == "" {
		return nil
	}
	home := leader.Home(d.home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	if runs, err := client.Runs(ctx, api.RunList{Limit: peeked}); err == nil {
		return runs
	}
	runs, err := leader.Peek(home, peeked)
	if err != nil {
		return nil
	}
	return runs
}

// completeMoments offers the moments of the run that is named, newest first, or of the last one.
func completeMoments(d *deps) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, m := range slices.Backward(d.peekMoments(c.Context(), optional(list))) {
			names = append(names, described(fmt.Sprintf("%s#%d", m.Node, m.Visit), m.At.Local().Format(time.DateTime)+" "+m.Why))
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func (d *deps) peekMoments(ctx context.Context, run string) []api.Moment {
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	if d.home == "" {
		return nil
	}
	home := leader.Home(d.home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	moments, err := client.Moments(ctx, run)
	if err != nil {
		if moments, err = leader.PeekMoments(home, run); err != nil {
			return nil
		}
	}
	return moments
}

// waiting keeps the runs that wait for a person.
func waiting(v api.RunView) bool { return len(v.Waits) > 0 && !v.Status.Ended() }

// unended keeps the runs that are not over.
func unended(v api.RunView) bool { return !v.Status.Ended() }

// completeRuns offers the ids of runs for the first argument, with how they stand. A keep that is given chooses among them.
func completeRuns(d *deps, keep ...func(api.RunView) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, r := range d.peekRuns(c.Context()) {
			if !slices.ContainsFunc(keep, func(k func(api.RunView) bool) bool { return !k(r) }) {
				ids = append(ids, described(r.RunID, string(r.Status)+" "+r.Flow))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeWaits offers the open waits of the run that is named, or of all.
func completeWaits(d *deps) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		for _, r := range d.peekRuns(c.Context()) {
			if !waiting(r) || len(list) > 0 && !strings.HasPrefix(r.RunID, list[0]) {
				continue
			}
			for _, w := range r.Waits {
				ids = append(ids, described(w.ID, w.Node+": "+w.Prompt))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeAnswers offers the run first, then what its wait expects.
func completeAnswers(d *deps) cobra.CompletionFunc {
	runs := completeRuns(d, waiting)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) == 0 {
			return runs(c, list, word)
		}
		var pairs []string
		for _, r := range d.peekRuns(c.Context()) {
			lastMeant := strings.Contains(list[0], "=") // a pair, and no run
			if !waiting(r) || !lastMeant && !strings.HasPrefix(r.RunID, list[0]) {
				continue
			}
			for _, name := range sortedKeys(r.Waits[0].Expected) {
				pairs = append(pairs, described(name+"=", r.Waits[0].Expected[name]))
			}
			if lastMeant {
				break
			}
		}
		return pairs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// described is a completion with its description, free of what a terminal or a shell would take for itself.
func described(value, text string) string { return clean(value) + "\t" + clean(text) }

// peekSprites is a client of a sprite host that may be running: the remote one, or the leader's.
func (d *deps) peekSprites() (*sprites.Client, func()) {
	if client := d.remoteSprites(); client != nil {
		return client, func() {}
	}
	hc := api.HTTPClient(leader.Home(d.home).Socket())
	return sprites.New(api.Base, "", hc), hc.CloseIdleConnections
}

// completeSprites offers the names of sprites for the first argument, or for a flag. Without a leader they are those of
// runs.
func completeSprites(d *deps) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 && c.HasParent() && c.Parent().Name() == "sprite" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWait)
		defer cancel()
		client, done := d.peekSprites()
		defer done()
		var names []string
		all, err := client.List(ctx, word)
		for _, s := range all {
			names = append(names, described(s.Name, s.Status))
		}
		if err != nil && d.spritesURL == "" {
			seen := map[string]bool{} // a sprite of several runs is offered once, as the newest one's
			for _, r := range d.peekRuns(ctx) {
				if r.Sprite != "" && !seen[r.Sprite] {
					seen[r.Sprite] = true
					names = append(names, described(r.Sprite, "of "+r.RunID+", "+string(r.Status)))
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeManySprites offers any number of sprites, each once.
func completeManySprites(d *deps) cobra.CompletionFunc {
	one := completeSprites(d)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return without(list)(one(c, nil, word))
	}
}

// without leaves out of what is offered what the command line has already.
func without(list []string) func(offered []string, how cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
	return func(offered []string, how cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(offered, func(line string) bool {
			name, _, _ := strings.Cut(line, "\t")
			return slices.Contains(list, name)
		}), how
	}
}

// completeCheckpoints offers a sprite, then its checkpoints. They are known only while its host runs.
func completeCheckpoints(d *deps) cobra.CompletionFunc {
	names := completeSprites(d)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(list) {
		case 0:
			return names(c, list, word)
		case 1:
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWait)
		defer cancel()
		client, done := d.peekSprites()
		defer done()
		var ids []string
		all, err := client.Checkpoints(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, cp := range all {
			if cp.ID != sprites.Current {
				ids = append(ids, described(cp.ID, fmt.Sprintf("%s ago %s", age(cp.CreateTime), cp.Comment)))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completePermissions completes the last of a list of permissions.
func completePermissions(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	taken := ""
	if i := strings.LastIndexByte(word, ','); i >= 0 {
		taken = word[:i+1]
	}
	given := strings.Split(taken, ",")
	var found []string
	for _, p := range append(manifests.Permissions(), "*") {
		if !slices.Contains(given, p) {
			found = append(found, taken+p)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSpriteCmds gives every command below sprite that takes a sprite its completion.
func completeSpriteCmds(d *deps, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		_, arguments, _ := strings.Cut(c.Use, " ")
		switch {
		case c.ValidArgsFunction != nil || c.Name() == "create":
		case strings.Contains(arguments, "CHECKPOINT"):
			c.ValidArgsFunction = completeCheckpoints(d)
		case strings.HasPrefix(arguments, "NAME"):
			c.ValidArgsFunction = completeSprites(d)
		}
	}
}

// completing reports whether this process only completes a command line for a shell.
func completing(c *cobra.Command) bool {
	return c.Name() == cobra.ShellCompRequestCmd || c.Name() == cobra.ShellCompNoDescRequestCmd
}

// completeWorldCalls completes the names of the skills of class world that the flow calls; without a flow those of all
// built-in skills.
func completeWorldCalls(d *deps, from *flowSources) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if len(list) > 0 && list[0] != "-" {
			if flow, err := d.compileFlow(c.Context(), list[0], *from); err == nil {
				return flow.Program.WorldCalls(nil), cobra.ShellCompDirectiveNoFileComp
			}
		}
		for _, s := range manifests.Skills() {
			if s.SideEffect == manifests.ClassWorld {
				names = append(names, s.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
