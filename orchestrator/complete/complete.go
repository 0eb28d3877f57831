// Package complete offers a shell the ids of runs, waits, moments, sprites and checkpoints. It asks a leader or a sprite host
// that is there already, else reads the store. It is silent, starts nothing and changes nothing.
package complete

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// Timeout bounds the wait of a person who pressed Tab.
const Timeout = 2 * time.Second

// peeked is how many of the newest runs are offered.
const peeked = 100

// PeekRuns lists the newest runs without leading: from the leader, else from the store as it lies there. Completion is silent:
// when neither answers there are none.
func PeekRuns(ctx context.Context, env *setup.Env) []api.RunView {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if env.Home == "" {
		return nil
	}
	home := home.Home(env.Home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	if runs, err := client.Runs(ctx, api.RunList{Limit: peeked}); err == nil {
		return runs
	}
	runs, err := leader.Peek(env.StoreAddress(), peeked)
	if err != nil {
		return nil
	}
	return runs
}

// Moments offers the moments of the run that is named, newest first, or of the last one.
func Moments(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, m := range slices.Backward(peekMoments(c.Context(), env, cli.Optional(list))) {
			names = append(names, Describe(fmt.Sprintf("%s#%d", m.Node, m.Visit), m.At.Local().Format(time.DateTime)+" "+m.Why))
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Turns offers the turns of the agents of the run that is named, newest first, or of the last one. Only a leader knows them.
func Turns(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), Timeout)
		defer cancel()
		client := api.NewClient(home.Home(env.Home).Socket())
		defer client.Close()
		turns, err := client.Turns(ctx, cli.Optional(list))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, t := range slices.Backward(turns) {
			names = append(names, Describe(fmt.Sprint(t.Turn), fmt.Sprintf("%s %s %s", t.At.Local().Format(time.DateTime), t.Node, t.Tool)))
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Nodes offers the nodes of the program of the run that is named, or of the last one: those inside of others, too.
func Nodes(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		var flow ir.Document
		if json.Unmarshal(peekProgram(c.Context(), env, cli.Optional(list)), &flow) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ir.WalkNodes(flow.Nodes, "", func(n *ir.Node, _ string) { names = append(names, Describe(n.ID, string(n.Op)+" "+n.Tool)) })
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

func peekProgram(ctx context.Context, env *setup.Env, run string) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if env.Home == "" {
		return nil
	}
	client := api.NewClient(home.Home(env.Home).Socket())
	defer client.Close()
	program, err := client.Program(ctx, run)
	if err != nil {
		program, _ = leader.PeekProgram(env.StoreAddress(), run) // completion is silent
	}
	return program
}

func peekMoments(ctx context.Context, env *setup.Env, run string) []api.Moment {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if env.Home == "" {
		return nil
	}
	home := home.Home(env.Home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	moments, err := client.Moments(ctx, run)
	if err != nil {
		if moments, err = leader.PeekMoments(env.StoreAddress(), run); err != nil {
			return nil
		}
	}
	return moments
}

// IsWaiting keeps the runs that wait for a person.
func IsWaiting(v api.RunView) bool { return len(v.Waits) > 0 && !v.Status.Ended() }

// IsOpen keeps the runs that are not over.
func IsOpen(v api.RunView) bool { return !v.Status.Ended() }

// Runs offers the ids of runs for the first argument, with how they stand. A keep that is given chooses among them.
func Runs(env *setup.Env, keep ...func(api.RunView) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, r := range PeekRuns(c.Context(), env) {
			if !slices.ContainsFunc(keep, func(k func(api.RunView) bool) bool { return !k(r) }) {
				ids = append(ids, Describe(r.RunID, string(r.Status)+" "+r.Flow))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Waits offers the open waits of the run that is named, or of all.
func Waits(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		for _, r := range PeekRuns(c.Context(), env) {
			if !IsWaiting(r) || len(list) > 0 && !strings.HasPrefix(r.RunID, list[0]) {
				continue
			}
			for _, w := range r.Waits {
				ids = append(ids, Describe(w.ID, w.Node+": "+w.Prompt))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// Answers offers the run first, then the inputs that its wait expects.
func Answers(env *setup.Env) cobra.CompletionFunc {
	runs := Runs(env, IsWaiting)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) == 0 {
			return runs(c, list, word)
		}
		var pairs []string
		for _, r := range PeekRuns(c.Context(), env) {
			lastMeant := strings.Contains(list[0], "=") // a pair, and no run
			if !IsWaiting(r) || !lastMeant && !strings.HasPrefix(r.RunID, list[0]) {
				continue
			}
			for _, name := range cli.SortedKeys(r.Waits[0].Expected) {
				pairs = append(pairs, Describe(name+"=", r.Waits[0].Expected[name]))
			}
			if lastMeant {
				break
			}
		}
		return pairs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// Describe returns a completion with its description, without characters that control a terminal or a shell.
func Describe(value, text string) string { return cli.Clean(value) + "\t" + cli.Clean(text) }

// Without leaves out the completions that the command line has already.
func Without(list []string) func(offered []string, how cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
	return func(offered []string, how cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(offered, func(line string) bool {
			name, _, _ := strings.Cut(line, "\t")
			return slices.Contains(list, name)
		}), how
	}
}

// Permissions completes the last of a list of permissions.
func Permissions(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
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
