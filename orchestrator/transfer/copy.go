// Package transfer copies files and folders between this machine and sprites: as one tar stream where the sprite has tar,
// else file by file. Nothing that a sprite sends is written outside of the folder that a person named.
//
// Begin with Copy.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// maxCopy bounds a whole copy; without a bound the client gives each call its own, too short for a large file.
const maxCopy = 7 * 24 * time.Hour

// Copy copies, prints how far it is and, at the end, the entries that it left out.
func Copy(ctx context.Context, console *cli.Console, c *sprites.Client, from, to Place, recursive bool) error {
	ctx, cancel := context.WithTimeout(ctx, maxCopy)
	defer cancel()
	job := copyJob{console: console, c: c, from: from, to: to, recursive: recursive, done: copied{Skipped: []string{}}, progress: cli.NewProgress(console)}
	if from.Sprite == "" && console.Terminal {
		job.total = cli.MeasureFiles(from.path + string(filepath.Separator)) // of a folder, or of one that a link leads to
	}
	err := job.runCopy(ctx)
	job.progress.Clear()
	if err != nil {
		return err
	}
	for _, s := range job.done.Skipped {
		fmt.Fprintf(console.Err, "left out: %s\n", cli.Clean(s))
	}
	if console.JSON && !to.isStdio() {
		return console.PrintJSON(job.done)
	}
	return nil
}

func (j *copyJob) runCopy(ctx context.Context) error {
	if j.from.isStdio() || j.to.isStdio() {
		return j.copyStream(ctx)
	}
	dest, err := j.findDestination(ctx)
	if err != nil {
		return err
	}
	if j.from.Sprite != "" && j.from.Sprite == j.to.Sprite {
		defer j.console.ShowWait("copy")()
		made, err := j.c.Files().Copy(ctx, j.from.Sprite, j.from.path, dest, sprites.CopyOptions{Recursive: j.recursive})
		j.done.Files, j.done.Bytes = made.Count, made.TotalBytes
		return err
	}
	if j.recursive {
		if folder, err := j.fromFolder(ctx); err != nil {
			return err
		} else if folder {
			can, err := j.canStream(ctx)
			if err != nil {
				return err
			}
			if can {
				return j.copyTree(ctx, dest)
			}
			fmt.Fprintln(j.console.Err, "lattice: warning: there is no tar in the sprite: files are copied one by one, and links are followed")
		}
	}
	var sink copySink = &spriteSink{ctx: ctx, c: j.c, sprite: j.to.Sprite, top: dest}
	if j.to.Sprite == "" {
		if sink, err = newLocalSink(dest); err != nil {
			return err
		}
	}
	walk := j.walkLocal
	if j.from.Sprite != "" {
		walk = j.walkSprite
	}
	// Folders get their permissions last: a folder must be writable until its content is there.
	var folders []copyItem
	err = walk(ctx, func(it copyItem) error {
		if it.folder {
			folders = append(folders, it)
			return sink.folder(it.rel)
		}
		return j.copyFile(sink, it)
	})
	slices.Reverse(folders)
	for _, f := range folders {
		if err == nil {
			err = sink.mode(f.rel, f.mode)
		}
	}
	return errors.Join(err, sink.close())
}

// fromFolder reports whether SRC is a folder.
func (j *copyJob) fromFolder(ctx context.Context) (bool, error) {
	if j.from.Sprite == "" {
		st, err := os.Stat(j.from.path)
		return err == nil && st.IsDir(), err
	}
	st, err := j.c.Files().Stat(ctx, j.from.Sprite, j.from.path)
	return err == nil && st.IsDir, err
}

// copyStream copies from standard input or to standard output.
func (j *copyJob) copyStream(ctx context.Context) error {
	if j.from.isStdio() {
		dest := j.to.path
		if j.to.into {
			return cli.UsageErrorf("standard input needs the name of a file at DST, not a folder")
		}
		return j.c.WriteFile(ctx, j.to.Sprite, dest, j.console.In, 0o644)
	}
	r, err := j.c.ReadFrom(ctx, j.from.Sprite, j.from.path, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(j.console.Out, r)
	return err
}

// findDestination is where the copy goes: below DST when that is a folder.
func (j *copyJob) findDestination(ctx context.Context) (string, error) {
	isDir := j.to.into
	if !isDir && j.to.Sprite == "" {
		st, err := os.Stat(j.to.path)
		isDir = err == nil && st.IsDir()
	} else if !isDir {
		st, err := j.c.Files().Stat(ctx, j.to.Sprite, j.to.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		isDir = err == nil && st.IsDir
	}
	switch {
	case !isDir:
		return j.to.path, nil
	case j.to.Sprite == "":
		return filepath.Join(j.to.path, j.from.baseName()), nil
	}
	return path.Join(j.to.path, j.from.baseName()), nil
}
