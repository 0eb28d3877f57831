package sprite

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newFilesCmd(env *setup.Env) *cobra.Command {
	var recursive bool
	var pattern string
	cmd := connect.NewSpriteCmd(env, "files NAME [PATH]", "List files of a sprite", "  lattice sprite files box\n  lattice sprite files box /workspace -r --pattern '*.go' --json", cobra.RangeArgs(1, 2),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			dir := "/workspace"
			if len(list) > 1 {
				dir = inSprite(list[1])
			}
			all, err := c.Files().List(ctx, list[0], dir)
			if err == nil && (recursive || pattern != "") {
				all, err = listMatching(ctx, env.Console, c, list[0], dir, pattern, recursive, all)
			}
			if err != nil {
				return err
			}
			return printFiles(env.Console, dir, all)
		})
	cmd.Long = `List a folder of a sprite (default: /workspace), or one file. A relative PATH is below /home/sprite. --json prints an array of
{"name","path","type","size","mode","modTime","isDir"}.
` + cli.ExitCodes
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "also list the content of folders")
	cmd.Flags().StringVar(&pattern, "pattern", "", "list only names that match a `GLOB`")
	return cmd
}

func listMatching(ctx context.Context, console *cli.Console, c *sprites.Client, name, dir, pattern string, recursive bool, all []sprites.FileInfo) ([]sprites.FileInfo, error) {
	if recursive {
		defer console.ShowWait("list")()
		return c.Files().Tree(ctx, name, dir, pattern)
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
