package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/subids"
)

// This file is about files of sub-ids, which root of an ordinary user's sprite makes (package subids). On the host they belong to
// neither this user nor root, and a folder of theirs can keep this user out. So each function of the package is a job: it is done
// here, and when a file of another user is in the way, again by a helper. The helper is this program, started once more in a
// user namespace in which it may do to files of sub-ids as root does. Most trees have none, and need no helper.

// HelperArg is argv[1] of the helper. A program that uses this package must call [Help] when it is started with it; see package
// early of sandboxes.
const HelperArg = "__tree-helper"

// job is a call of this package. Paths are bytes, because names of files need not be text.
type job struct {
	Do      operation `json:"do"`
	Dst     []byte    `json:"dst,omitempty"`  // the tree to make or remove
	From    [][]byte  `json:"from,omitempty"` // the layers to read, topmost first
	To      [][]byte  `json:"to,omitempty"`   // and those to compare them with
	Entries int64     `json:"entries,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
}

type operation string

const (
	opCopy   operation = "copy"
	opMerge  operation = "merge"
	opRemove operation = "remove"
	opDigest operation = "digest"
	opDense  operation = "dense-digest"
	opSize   operation = "size"
	opWithin operation = "within"
	opDiff   operation = "diff"
	opSame   operation = "same"
)

// answer is a line of the helper: a change, or at last the result.
type answer struct {
	Change *Change `json:"change,omitempty"`
	Path   []byte  `json:"path,omitempty"` // of the change
	Sum    Sum     `json:"sum"`
	Within bool    `json:"within,omitempty"`
	Error  string  `json:"error,omitempty"`
	Errno  int     `json:"errno,omitempty"`
}

func pathsOf(names ...string) (paths [][]byte) {
	for _, name := range names {
		paths = append(paths, []byte(name))
	}
	return paths
}

func namesOf(paths [][]byte) (names []string) {
	for _, path := range paths {
		names = append(names, string(path))
	}
	return names
}

// perform does the job in this process.
func (j job) perform(ctx context.Context, emit func(Change) error) (a answer, err error) {
	from, dst := namesOf(j.From), string(j.Dst)
	switch j.Do {
	case opCopy:
		err = copyTree(ctx, from[0], dst)
	case opMerge:
		err = mergeLayers(ctx, dst, from)
	case opRemove:
		err = removeTree(dst)
	case opDigest, opDense:
		a.Sum, err = digestTree(ctx, from[0], j.Do == opDense)
	case opSize:
		a.Sum, err = measureTree(ctx, from[0])
	case opWithin:
		a.Within, err = isWithin(ctx, from[0], j.Entries, j.Bytes)
	case opDiff:
		err = compareStacks(ctx, from, namesOf(j.To), false, emit)
	case opSame:
		err = compareStacks(ctx, from, namesOf(j.To), true, func(c Change) error { return fmt.Errorf("%s: %s", c.Path, c.Kind) })
	default:
		err = fmt.Errorf("unknown operation %q", j.Do)
	}
	return a, err
}

// run does the job here, or has the helper do it.
func (j job) run(ctx context.Context, emit func(Change) error) (answer, error) {
	if j.Do == opDiff && !privileged() { // changes that were told cannot be taken back
		if ids, err := subids.Find(); err == nil {
			return j.delegate(ctx, ids, emit)
		}
	}
	a, err := j.perform(ctx, emit)
	if privileged() || !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
		return a, err
	}
	ids, missing := subids.Find()
	if missing != nil {
		return a, fmt.Errorf("%w; if files of sub-ids are in the way: %w", err, missing)
	}
	if j.Do == opCopy || j.Do == opMerge { // there is a part of it
		if err := removeTree(string(j.Dst)); err != nil {
			return a, err
		}
	}
	return j.delegate(ctx, ids, emit)
}

// errForeign says that a copy would lose the owner of a file.
var errForeign = fmt.Errorf("it belongs to another user: %w", syscall.EPERM)

// helperTimeout bounds how long a helper takes to end once it has said all, or shall.
const helperTimeout = 10 * time.Second

// delegate has a helper do the job. The helper ends with ctx, and with this process.
func (j job) delegate(ctx context.Context, ids subids.Range, emit func(Change) error) (answer, error) {
	running, end := context.WithCancel(ctx)
	defer end()
	cmd := exec.CommandContext(running, "/proc/self/exe", HelperArg)
	var said bytes.Buffer
	cmd.Args[0], cmd.Env, cmd.Dir, cmd.Stderr, cmd.WaitDelay = "lattice-tree", []string{}, "/", &said, helperTimeout
	in, err := cmd.StdinPipe()
	if err != nil {
		return answer{}, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = ids.Start(cmd)
	}
	if err != nil {
		return answer{}, errors.Join(fmt.Errorf("reach files of sub-ids: %w", err), in.Close())
	}
	a, err := j.ask(in, out, emit)
	if err != nil {
		end()
	}
	in.Close() // the helper has ended, or ends by this
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if ended := cmd.Wait(); err != nil && said.Len() > 0 {
		err = fmt.Errorf("%w (%w: %s)", err, ended, said.String())
	}
	if err == nil && a.Error != "" {
		err = &helperError{syscall.Errno(a.Errno), a.Error}
	}
	return a, err
}

// ask gives the helper its job and reads its answer.
func (j job) ask(in io.Writer, out io.Reader, emit func(Change) error) (a answer, err error) {
	if err := json.NewEncoder(in).Encode(j); err != nil {
		return a, fmt.Errorf("start the helper for files of sub-ids: %w", err)
	}
	for said := json.NewDecoder(out); ; {
		a = answer{}
		if err := said.Decode(&a); err != nil {
			return a, fmt.Errorf("hear from the helper for files of sub-ids: %w", err)
		}
		if a.Change == nil {
			return a, nil
		}
		a.Change.Path = string(a.Path)
		if err := emit(*a.Change); err != nil {
			return a, err
		}
	}
}

// helperError is an error that the helper reported by number and text.
type helperError struct {
	errno syscall.Errno
	text  string
}

func (e *helperError) Error() string { return e.text }

func (e *helperError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// Help is the helper: it reads a job from in, does it, and writes the outcome to out. It returns early when in ends, since the
// host has then ended. The result is the exit status, with which the caller ends the process at once.
func Help(in io.Reader, out io.Writer) int {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, "read a job:", err)
		return 1
	}
	ended := make(chan error, 2) // both goroutines end with the process
	go func() {
		_, _ = io.Copy(io.Discard, in)
		ended <- errors.New("the host is gone")
	}()
	go func() { ended <- j.answer(json.NewEncoder(out)) }()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// answer does the job and writes its outcome.
func (j job) answer(say *json.Encoder) error {
	a, err := j.perform(context.Background(), func(c Change) error {
		return say.Encode(answer{Change: &c, Path: []byte(c.Path)})
	})
	if err != nil {
		a.Error = err.Error()
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			a.Errno = int(errno)
		}
	}
	return say.Encode(a)
}
