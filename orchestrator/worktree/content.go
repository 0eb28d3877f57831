package worktree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
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
	return addedLines(p.Text), p.Cut, nil
}

// addedLines reads a patch without context. A line of a hunk is counted, so that content cannot pass for a header.
func addedLines(patch string) []Added {
	var all []Added
	at, removed, added := 0, 0, 0
	for l := range strings.Lines(patch) {
		l = strings.TrimSuffix(l, "\n")
		switch {
		case removed > 0 && strings.HasPrefix(l, "-"):
			removed--
		case added > 0 && strings.HasPrefix(l, "+"):
			added--
			a := &all[len(all)-1]
			a.Text = append(append(a.Text, l[1:]...), '\n')
			a.line = append(a.line, at)
			at++
		case strings.HasPrefix(l, "+++ "):
			name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(l, "\t"), "+++ "), "b/")
			if quoted, err := strconv.Unquote(strings.TrimPrefix(l, "+++ ")); err == nil {
				name = strings.TrimPrefix(quoted, "b/")
			}
			all = append(all, Added{Path: name})
		case strings.HasPrefix(l, "@@ ") && len(all) > 0:
			var err error
			if at, removed, added, err = parseHunk(l); err != nil {
				removed, added = 0, 0
			}
		}
	}
	return all
}

// parseHunk reads "@@ -A,B +C,D @@": where its added lines begin, how many are removed and added.
func parseHunk(l string) (at, removed, added int, err error) {
	f := strings.Fields(l)
	if len(f) < 4 {
		return 0, 0, 0, errors.New("a hunk without ranges")
	}
	count := func(text string) (first, n int, err error) {
		from, many, ok := strings.Cut(text[1:], ",")
		if first, err = strconv.Atoi(from); err != nil || !ok {
			return first, 1, err
		}
		n, err = strconv.Atoi(many)
		return first, n, err
	}
	_, removed, err1 := count(f[1])
	at, added, err2 := count(f[2])
	return at, removed, added, errors.Join(err1, err2)
}
