package sprite

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newForkCmd(env *setup.Env) *cobra.Command {
	var at string
	cmd := connect.NewSpriteCmd(env, "fork NAME NEW", "Create a sprite with the files of another", "  lattice sprite fork box box-2\n  lattice sprite fork box experiment --at v3", cobra.ExactArgs(2),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			stop := env.ShowWait("fork")
			s, err := c.Fork(ctx, list[0], at, list[1])
			stop()
			if err != nil {
				return forkProblem(ctx, c, list[0], at, list[1], err)
			}
			return printSprite(env.Console, s)
		})
	cmd.Long = `Create a sprite with the files of another, as they are now or, with --at, as they are in a checkpoint. The other sprite keeps
running, and neither sees what the other writes from then on. The new sprite has the services, environment, tools and skills
of the other one, but not its checkpoints, labels and processes. Only the embedded host supports this.
` + cli.ExitCodes
	cmd.ValidArgsFunction = func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete.Sprites(env)(c, list, word)
	}
	cmd.Flags().StringVar(&at, "at", sprites.Current, "use the files of this `CHECKPOINT`")
	_ = cmd.RegisterFlagCompletionFunc("at", func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeManyCheckpoints(env)(c, list, word)
	})
	return cmd
}

// forkProblem says which of the things that a fork needs is not there.
func forkProblem(ctx context.Context, c *sprites.Client, name, at, to string, err error) error {
	var refused *sprites.APIError
	if !errors.As(err, &refused) {
		return err
	}
	unsupported := fault.Unsupported("no_fork", "this host cannot fork sprites").WithHint("lattice sprite restore %s %s restores %s itself; or use the embedded host", name, at, name)
	switch refused.Status {
	case http.StatusConflict:
		if _, gone := c.Get(ctx, to); gone == nil {
			return fault.Busy("sprite_exists", "the sprite %s already exists", to).WithHint("lattice sprite rm %s, or choose another name", to)
		}
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return unsupported
	case http.StatusNotFound:
		err = checkpointProblem(ctx, c, name, at, err)
		var known *fault.Error
		if _, gone := c.Get(ctx, name); gone == nil && !errors.As(err, &known) {
			return unsupported // both are there: it is the call that is not
		}
	}
	return err
}

// checkpointProblem says so when it is a checkpoint that was not found.
func checkpointProblem(ctx context.Context, c *sprites.Client, name, id string, err error) error {
	if !errors.Is(err, sprites.ErrNotFound) || id == "" || id == sprites.Current {
		return err
	}
	all, listErr := c.AllCheckpoints(ctx, name)
	if listErr != nil || slices.ContainsFunc(all, func(p sprites.Checkpoint) bool { return p.ID == id }) {
		return err // it is the sprite, or something else
	}
	return fault.NotFound("checkpoint_not_found", "%s has no checkpoint %s", name, cli.Clean(id)).WithHint("lattice sprite checkpoints %s", name)
}
