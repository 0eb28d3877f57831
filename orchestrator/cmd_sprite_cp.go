package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// spriteCpOptions are the flags of `lattice sprite cp`.
type spriteCpOptions struct {
	recursive bool
}

func newSpriteCpCmd(d *deps) *cobra.Command {
	var o spriteCpOptions
	cmd := &cobra.Command{
		Use: "cp SRC DST", Short: "Copy files into a sprite, out of it, within it or to another",
		Long: `Copy a file, or with -r a folder. SRC and DST are paths of this machine or SPRITE:PATH; a relative path in a sprite is
below /home/sprite. - as SRC is standard input, as DST standard output. Into a folder that exists the copy goes under its
own name, as with cp. A path of this machine that has a colon is told from a sprite's by a leading ./

Permissions are kept, and files are replaced whole. With -r folders travel as one stream, by the tar of the sprite, with links
as they are and times; what is neither file, folder nor link is left out and named. A link as SRC itself is followed. In a
sprite without tar, files are copied one by one, links as the files that they mean, and links to folders are left out and
named. With --json the last line is {"files":N,"bytes":N,"skipped":[…]}.
` + exitCodes,
		Example: "  lattice sprite cp go.mod box:/workspace/\n  lattice sprite cp -r box:/workspace/out .\n  tar c . | lattice sprite cp - box:/tmp/all.tar\n  lattice sprite cp box:/etc/os-release -",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			return runSpriteCp(c.Context(), d, o, parsePlace(list[0]), parsePlace(list[1]))
		},
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "copy folders with all that is in them")
	return cmd
}

// place is one end of a copy.
type place struct {
	sprite string // "" for this machine
	path   string // "-" for a standard stream
	into   bool   // it was written as a folder
}

var placeInSprite = regexp.MustCompile(`^([a-z0-9](?:[a-z0-9-]*[a-z0-9])?):(.*)$`)

func parsePlace(text string) place {
	p := place{path: text, into: strings.HasSuffix(text, "/")}
	if m := placeInSprite.FindStringSubmatch(text); m != nil {
		p.sprite, p.path = m[1], m[2]
		if !path.IsAbs(p.path) {
			p.path = path.Join("/home/sprite", p.path)
		}
		p.path, p.into = path.Clean(p.path), p.into || m[2] == ""
	}
	return p
}

func (p place) std() bool { return p.sprite == "" && p.path == "-" }

// base is the name that a copy of p has in a folder.
func (p place) base() string {
	if p.sprite != "" {
		return path.Base(p.path)
	}
	abs, err := filepath.Abs(p.path)
	if err != nil {
		return filepath.Base(p.path)
	}
	return filepath.Base(abs)
}

// copied is what a copy comes to.
type copied struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Skipped []string `json:"skipped"`
}

// maxCopy bounds a whole copy; without a bound the client gives each call its own, too short for a large file.
const maxCopy = 7 * 24 * time.Hour

func runSpriteCp(ctx context.Context, d *deps, o spriteCpOptions, from, to place) error {
	if from.sprite == "" && to.sprite == "" {
		return usageError{errors.New("one of SRC and DST must be in a sprite, as SPRITE:PATH")}
	}
	ctx, cancel := context.WithTimeout(ctx, maxCopy)
	defer cancel()
	return d.withSprites(ctx, func(ctx context.Context, c *sprites.Client) error {
		job := copyJob{d: d, c: c, from: from, to: to, recursive: o.recursive, done: copied{Skipped: []string{}}}
		if err := job.run(ctx); err != nil {
			return spriteProblem(err)
		}
		for _, s := range job.done.Skipped {
			fmt.Fprintf(d.err, "left out: %s\n", clean(s))
		}
		if d.json && !to.std() {
			return d.printJSON(job.done)
		}
		return nil
	})
}

// copyJob is one copy at work.
type copyJob struct {
	d         *deps
	c         *sprites.Client
	from, to  place
	recursive bool
	done      copied
}

func (j *copyJob) run(ctx context.Context) error {
	if j.from.std() || j.to.std() {
		return j.stream(ctx)
	}
	dest, err := j.destination(ctx)
	if err != nil {
		return err
	}
	if j.from.sprite != "" && j.from.sprite == j.to.sprite {
		made, err := j.c.Copy(ctx, j.from.sprite, j.from.path, dest, sprites.CopyOptions{Recursive: j.recursive})
		j.done.Files, j.done.Bytes = made.Count, made.TotalBytes
		return err
	}
	if j.recursive {
		if folder, err := j.fromFolder(ctx); err != nil {
			return err
		} else if folder {
			can, err := j.streams(ctx)
			if err != nil {
				return err
			}
			if can {
				return j.tree(ctx, dest)
			}
			fmt.Fprintln(j.d.err, "lattice: warning: there is no tar in the sprite: files are copied one by one, and links as the files that they mean")
		}
	}
	var sink copySink = &spriteSink{ctx: ctx, c: j.c, sprite: j.to.sprite, top: dest}
	if j.to.sprite == "" {
		if sink, err = newLocalSink(dest); err != nil {
			return err
		}
	}
	walk := j.walkLocal
	if j.from.sprite != "" {
		walk = j.walkSprite
	}
	// Folders get their permissions last: what is to be put into one may have to be written.
	var folders []copyItem
	err = walk(ctx, func(it copyItem) error {
		if it.folder {
			folders = append(folders, it)
			return sink.folder(it.rel)
		}
		return j.file(sink, it)
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
	if j.from.sprite == "" {
		st, err := os.Stat(j.from.path)
		return err == nil && st.IsDir(), err
	}
	st, err := j.c.Stat(ctx, j.from.sprite, j.from.path)
	return err == nil && st.IsDir, err
}

// stream copies from standard input or to standard output.
func (j *copyJob) stream(ctx context.Context) error {
	if j.from.std() {
		dest := j.to.path
		if j.to.into {
			return usageError{errors.New("standard input needs the name of a file at DST, not a folder")}
		}
		return j.c.WriteFile(ctx, j.to.sprite, dest, j.d.in, 0o644)
	}
	r, err := j.c.ReadFrom(ctx, j.from.sprite, j.from.path, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(j.d.out, r)
	return err
}

// destination is where the copy goes: below DST when that is a folder.
func (j *copyJob) destination(ctx context.Context) (string, error) {
	isDir := j.to.into
	if !isDir && j.to.sprite == "" {
		st, err := os.Stat(j.to.path)
		isDir = err == nil && st.IsDir()
	} else if !isDir {
		st, err := j.c.Stat(ctx, j.to.sprite, j.to.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		isDir = err == nil && st.IsDir
	}
	switch {
	case !isDir:
		return j.to.path, nil
	case j.to.sprite == "":
		return filepath.Join(j.to.path, j.from.base()), nil
	}
	return path.Join(j.to.path, j.from.base()), nil
}

// file copies one file and counts it.
func (j *copyJob) file(sink copySink, it copyItem) error {
	r, err := it.open()
	if err != nil {
		return err
	}
	defer r.Close()
	counted := &counter{Reader: r}
	content := io.Reader(counted)
	if f, ok := r.(*os.File); ok && it.mode.IsRegular() {
		content = f // which can be sent again should the connection break
	}
	if err := sink.file(it.rel, content, it.mode.Perm()); err != nil {
		return err
	}
	j.done.Files++
	j.done.Bytes += max(it.size, counted.n)
	if isTerminal(j.d.err) && !j.d.json {
		fmt.Fprintf(j.d.err, "\r%s, %s\x1b[K", numbered(j.done.Files, "file", "files"), bytesText(j.done.Bytes))
	}
	return nil
}

// counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// copyItem is one file or folder on its way. rel is below the copy's top, with slashes; "" for that itself.
type copyItem struct {
	rel    string
	mode   fs.FileMode
	size   int64
	folder bool
	open   func() (io.ReadCloser, error)
}

// errFolder asks for -r.
func errFolder(p place) error {
	return usageError{fmt.Errorf("%s is a folder: copy it with -r", p.path)}
}
