package complete

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// PeekSprites is a client of a sprite host that may be running: the remote one, or the leader's.
func PeekSprites(env *setup.Env) (*sprites.Client, func()) {
	if client := env.RemoteSprites(); client != nil {
		return client, func() {}
	}
	hc := api.HTTPClient(home.Home(env.Home).Socket())
	return sprites.New(api.Base, "", hc), hc.CloseIdleConnections
}

// Sprites offers the names of sprites for the first argument, or for a flag. Without a leader they are those of
// runs.
func Sprites(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 && c.HasParent() && c.Parent().Name() == "sprite" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), Timeout)
		defer cancel()
		client, done := PeekSprites(env)
		defer done()
		var names []string
		all, err := client.List(ctx, word)
		for _, s := range all {
			names = append(names, Describe(s.Name, s.Status))
		}
		if err != nil && env.SpritesURL == "" {
			seen := map[string]bool{} // a sprite of several runs is offered once, as the newest one's
			for _, r := range PeekRuns(ctx, env) {
				if r.Sprite != "" && !seen[r.Sprite] {
					seen[r.Sprite] = true
					names = append(names, Describe(r.Sprite, "of "+r.RunID+", "+string(r.Status)))
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// ManySprites offers any number of sprites, each once.
func ManySprites(env *setup.Env) cobra.CompletionFunc {
	one := Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return Without(list)(one(c, nil, word))
	}
}

// Checkpoints offers a sprite, then its checkpoints. They are known only while its host runs.
func Checkpoints(env *setup.Env) cobra.CompletionFunc {
	names := Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(list) {
		case 0:
			return names(c, list, word)
		case 1:
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), Timeout)
		defer cancel()
		client, done := PeekSprites(env)
		defer done()
		var ids []string
		all, err := client.Checkpoints(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, cp := range all {
			if cp.ID != sprites.Current {
				ids = append(ids, Describe(cp.ID, fmt.Sprintf("%s ago %s", cli.Age(cp.CreateTime), cp.Comment)))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// SpriteCommands gives every command below sprite that takes a sprite its completion.
func SpriteCommands(env *setup.Env, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		_, arguments, _ := strings.Cut(c.Use, " ")
		switch {
		case c.ValidArgsFunction != nil || c.Name() == "create":
		case strings.Contains(arguments, "CHECKPOINT"):
			c.ValidArgsFunction = Checkpoints(env)
		case strings.HasPrefix(arguments, "NAME"):
			c.ValidArgsFunction = Sprites(env)
		}
	}
}
