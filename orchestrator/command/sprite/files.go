package sprite

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSpriteFilesCmd(env *setup.Env) *cobra.Command {
	var recursive bool
	var pattern string
	cmd := &cobra.Command{
		Use: "files NAME [PATH]", Short: "List files of a sprite",
		Long: `List a folder of a sprite, /workspace unless another is named, or one file. A relative PATH is below /home/sprite. With
--json an array of {"name","path","type","size","mode","modTime","isDir"} comes out.
` + cli.ExitCodes,
		Example: "  lattice sprite files box\n  lattice sprite files box /workspace -r --pattern '*.go' --json",
		Args:    cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			dir := "/workspace"
			if len(list) > 1 {
				dir = inSprite(list[1])
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				all, err := client.ListDir(ctx, list[0], dir)
				if err == nil && (recursive || pattern != "") {
					all, err = listMatching(ctx, client, list[0], dir, pattern, recursive, all)
				}
				if err != nil {
					return setup.ExplainSprite(err)
				}
				return printFiles(env.Console, dir, all)
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list what is below folders, too")
	cmd.Flags().StringVar(&pattern, "pattern", "", "list only names that match a `GLOB`")
	return cmd
}

func listMatching(ctx context.Context, c *sprites.Client, name, dir, pattern string, recursive bool, all []sprites.FileInfo) ([]sprites.FileInfo, error) {
	if recursive {
		return c.ListTree(ctx, name, dir, pattern)
	}
	kept := []sprites.FileInfo{}
	for _, f := range all {
		match, err := path.Match(pattern, f.Name)
		if err != nil {
			return nil, cli.UsageErrorf("--pattern: %w", err)
		}
		if match {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// inSprite is a path of a sprite as a person names it.
func inSprite(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/home/sprite", name)
}

func printFiles(console *cli.Console, dir string, all []sprites.FileInfo) error {
	if console.JSON {
		return console.PrintJSON(append([]sprites.FileInfo{}, all...))
	}
	for _, f := range all {
		name := f.Path
		if len(name) > len(dir)+1 && name[:len(dir)] == dir && name[len(dir)] == '/' {
			name = name[len(dir)+1:]
		}
		name = cli.Clean(name)
		switch f.Type {
		case "directory":
			name += "/"
		case "symlink":
			name += "@"
		}
		if _, err := fmt.Fprintf(console.Out, "%s %12d  %s  %s\n", f.Mode, f.Size, f.ModTime.Local().Format("2006-01-02 15:04"), name); err != nil {
			return err
		}
	}
	return nil
}

func newSpriteWatchCmd(env *setup.Env) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "watch NAME [PATH…]", Short: "Show what happens to files of a sprite, as it happens",
		Long: `Show what happens to files and in folders of a sprite, /workspace unless others are named, until Ctrl-C or until the
sprite is stopped, restored or removed. With --json each line is {"type","path","event","timestamp","size","isDir"}; the
first is of type "subscribed", after which nothing is missed, and what could not be told is of type "error".
` + cli.ExitCodes,
		Example: "  lattice sprite watch box -r\n  lattice sprite watch box /workspace/log.txt --json",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			paths := []string{"/workspace"}
			if len(list) > 1 {
				paths = nil
				for _, p := range list[1:] {
					paths = append(paths, inSprite(p))
				}
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return setup.ExplainSprite(watchFiles(ctx, env.Console, client, list[0], paths, recursive))
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "watch what is below folders, too, new ones included")
	return cmd
}

// watchFiles prints events until ctx or the watch ends.
func watchFiles(ctx context.Context, console *cli.Console, c *sprites.Client, name string, paths []string, recursive bool) error {
	w, err := c.Watch(ctx, name, paths, recursive)
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
