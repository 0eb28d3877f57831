package sprite

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newWatchCmd(env *setup.Env) *cobra.Command {
	var recursive bool
	cmd := connect.NewSpriteCmd(env, "watch NAME [PATH…]", "Show what happens to files of a sprite, as it happens", "  lattice sprite watch box -r\n  lattice sprite watch box /workspace/log.txt --json", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			paths := []string{"/workspace"}
			if len(list) > 1 {
				paths = nil
				for _, p := range list[1:] {
					paths = append(paths, inSprite(p))
				}
			}
			return watchFiles(ctx, env.Console, c, list[0], paths, recursive)
		})
	cmd.Long = `Show what happens to files and in folders of a sprite, /workspace unless others are named, until Ctrl-C or until the
sprite is stopped, restored or removed. With --json each line is {"type","path","event","timestamp","size","isDir"}; the
first is of type "subscribed", after which nothing is missed, and what could not be told is of type "error".
` + cli.ExitCodes
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "watch what is below folders, too, new ones included")
	return cmd
}

// watchFiles prints events until ctx or the watch ends.
func watchFiles(ctx context.Context, console *cli.Console, c *sprites.Client, name string, paths []string, recursive bool) error {
	w, err := c.Files().Watch(ctx, name, paths, recursive)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		e, err := w.Next(ctx)
		switch {
		case errors.Is(err, sprites.ErrWatchOver):
			return err
		case err != nil && ctx.Err() != nil:
			return nil // as asked
		case err != nil:
			return err
		case console.JSON:
			err = console.PrintJSON(e)
		case e.Type == "event":
			_, err = fmt.Fprintf(console.Out, "%s %-6s %s\n", e.Timestamp.Local().Format("15:04:05.000"), e.Event, cli.Clean(e.Path))
		case e.Type == "error":
			_, err = fmt.Fprintf(console.Err, "lattice: watch %s: %s\n", cli.Clean(e.Path), cli.Clean(e.Message))
		}
		if err != nil {
			return err
		}
	}
}
