package worktree

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/skills/unified"
)

// Content gives a Request's Review access to the objects and lines that a push adds. All of it is untrusted.
type Content struct {
	// Changes are the files that differ between base and head.
	Changes    []Change
	q          quarantine
	base, head string
}

// Change is a file that a push changes.
type Change struct {
	Path    string
	Deleted bool
}

// Objects calls each for every new object of the push, even if a later commit removes it again: commits (with path ""),
// trees and blobs. It stops at the first error of each and returns it.
func (c Content) Objects(ctx context.Context, each func(path string, content io.Reader) error) error {
	list, err := c.q.mustRun(ctx, "rev-list", "--objects", c.head, "--not", c.base)
	if err != nil {
		return err
	}
	var ids bytes.Buffer
	var paths []string
	for l := range strings.Lines(string(list.Stdout)) {
		id, path, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		ids.WriteString(id + "\n")
		paths = append(paths, path)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	read := c.q.gitCommand("cat-file", "--batch", "--buffer")
	read.Stdin, read.Out = &ids, w
	ended := make(chan error, 1)
	go func() {
		res, err := c.q.git.proc.Run(ctx, read)
		if err == nil && res.Exit != 0 {
			err = fmt.Errorf("read the sprite's objects (exit %d): %s", res.Exit, res.Stderr)
		}
		w.CloseWithError(err)
		ended <- err
	}()
	err = readBatch(bufio.NewReaderSize(r, 64<<10), paths, each)
	if err != nil {
		cancel()
	}
	r.CloseWithError(err)
	if late := <-ended; err == nil {
		err = late
	}
	return err
}

// readBatch parses the output of git cat-file --batch, one object for each of paths.
func readBatch(r *bufio.Reader, paths []string, each func(string, io.Reader) error) error {
	for _, path := range paths {
		head, err := r.ReadString('\n') // ID KIND SIZE
		if err != nil {
			return fmt.Errorf("read the sprite's objects: %w", err)
		}
		f := strings.Fields(head)
		if len(f) != 3 {
			return gitexec.Refuse("bad_bundle", "", "an object of the bundle cannot be read: %s", gitexec.CleanLine(head))
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return fmt.Errorf("read the sprite's objects: %w", err)
		}
		body := &io.LimitedReader{R: r, N: size}
		if err := each(path, body); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, body.N+1); err != nil { // the rest, and a newline
			return fmt.Errorf("read the sprite's objects: %w", err)
		}
	}
	return nil
}

// Added is the text that a push adds to one file in one commit. Lines are numbered as in the file.
type Added struct {
	Path string
	Text []byte
	line []int // of each line of Text, in the file
}

// Line is the line in the file of a line of Text, both from 1.
func (a Added) Line(n int) int {
	if n < 1 || n > len(a.line) {
		return 0
	}
	return a.line[n-1]
}

// Added returns the text that the commits of a push add, file by file; cut says that there is more. Binary files are left out.
func (c Content) Added(ctx context.Context) (all []Added, cut bool, err error) {
	args := append([]string{"log", "--no-show-signature", "--format=%x00", "--unified=0", "-m", "--first-parent"}, patchFlags...)
	p, err := c.q.printPatch(ctx, append(args, c.base+".."+c.head)...)
	if err != nil {
		return nil, false, err
	}
	all, err = addedLines(p.Text, p.Cut)
	return all, p.Cut, err
}

// addedLines returns the added lines of a patch. A cut patch may end in the middle of a hunk.
func addedLines(patch string, cut bool) ([]Added, error) {
	sections, err := unified.Sections(patch)
	if err != nil && !cut {
		return nil, fmt.Errorf("read the patch of a push: %w", err)
	}
	var all []Added
	for _, s := range sections {
		if s.Plus == "" {
			continue
		}
		name, _, _ := strings.Cut(s.Plus, "\t")
		if strings.HasPrefix(name, `"`) {
			if name, _, err = unified.Unquote(name); err != nil {
				return nil, fmt.Errorf("read the patch of a push: %w", err)
			}
		}
		a := Added{Path: strings.TrimPrefix(name, "b/")}
		for _, h := range s.Hunks {
			at := h.NewStart
			for _, l := range h.Lines {
				switch l.Op {
				case '+':
					a.Text = append(append(a.Text, strings.TrimSuffix(l.Text, "\n")...), '\n')
					a.line = append(a.line, at)
					at++
				case ' ':
					at++
				}
			}
		}
		all = append(all, a)
	}
	return all, nil
}
