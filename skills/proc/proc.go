// Package proc runs programs for skills and owns every process that they start. Look at Reaper.Run first: it returns
// only when the program has ended and, for a Tree, when everything that it left behind is dead and reaped — also
// grandchildren that went into sessions of their own, or whose parent died first.
//
// On Linux the calling process becomes a child subreaper, so that orphans come to it and can be found; elsewhere the
// process group is all that can be reached. The package reads no environment and decides nothing about output; it
// hands bytes to writers.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Spec describes a program to run. Nothing is inherited: an empty Env is an empty environment.
type Spec struct {
	Argv []string // the program as an absolute path, which is not looked up, and its arguments
	Dir  string
	Env  []string
	// Stdin is the input of the program, which need not read it.
	Stdin string
	// Input, if set, is the stdin of the program in the place of Stdin. Run closes it.
	Input *os.File
	// Files are inherited as descriptors 3, 4 …; their owner closes them.
	Files []*os.File
	// Stdout and Stderr get the output. When both are the same writer they share one pipe, so that order is kept.
	// Write is never called concurrently for one pipe.
	Stdout, Stderr io.Writer
	// Tree makes Run find and kill every descendant, not only the process group.
	Tree bool
	// Grace is how long the program has after SIGINT, and again after SIGTERM, once the context ends. 0 kills at once.
	Grace time.Duration
	// Confine, if set, calls start, which starts the program, in the way in which the program is confined.
	Confine func(start func() error) error
	// Started, if set, is called with the id of the process.
	Started func(pid int)
}

// Exit says how the program ended.
type Exit struct {
	Code     int            // -1 when a signal ended it
	Signal   syscall.Signal // 0 when it exited by itself
	Duration time.Duration
	Leftover int // processes that it left behind and that were killed, its own when it had to be killed among them
}

// Reaper starts and reaps the processes of one spritekit process. The calls of a process share one, because orphans
// are adopted by the process, not by a call. The zero value is ready.
type Reaper struct {
	// Mark, if set, is put into the environment of every program, for KillMarked. It is set before the first Run.
	Mark string

	mu       sync.Mutex   // guards the fields below; held while starting, so that a sweep knows every child
	children map[int]bool // started by us and waited for by os/exec
	trees    int          // running specs with Tree
	prior    map[int]bool // children that were there before the first tree
}

// drainWait is how long output may still come after the last known process is dead, before it is cut off. Only a
// process that could not be found can keep a pipe open that long.
const drainWait = 2 * time.Second

// Run runs the program to its end. When ctx ends first, the program is asked (SIGINT, then SIGTERM) and then made to
// end (SIGKILL); that is no error, the caller looks at ctx. Errors are failures to start or to wait.
func (r *Reaper) Run(ctx context.Context, spec Spec) (Exit, error) {
	defer spec.Input.Close() // of nil it does nothing
	if err := ctx.Err(); err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	out, err := newOutput(spec.Stdout, spec.Stderr)
	if err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	cmd := &exec.Cmd{
		Path: spec.Argv[0], Args: spec.Argv, Dir: spec.Dir, Env: spec.Env,
		Stdout: out.stdout, Stderr: out.stderr, ExtraFiles: spec.Files,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	if r.Mark != "" {
		cmd.Env = append(slices.Clone(cmd.Env), markName+"="+r.Mark)
	}
	in, err := newInput(spec)
	if err != nil {
		out.closeWriters()
		out.waitCopied(0)
		return Exit{}, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	cmd.Stdin = in.read
	began := time.Now()
	err = r.startProcess(cmd, spec)
	out.closeWriters()
	in.read.Close()
	if err != nil {
		in.stopFeeding()
		out.waitCopied(0)
		return Exit{}, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	if spec.Started != nil {
		spec.Started(cmd.Process.Pid)
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	killed := map[int]bool{}
	select {
	case err = <-waited:
	case <-ctx.Done():
		err = r.stopProcess(cmd.Process.Pid, spec, waited, killed)
	}
	exit := Exit{Duration: time.Since(began)}
	r.killRest(cmd.Process.Pid, spec.Tree, killed)
	exit.Leftover = len(killed)
	in.stopFeeding()
	copyErr := out.waitCopied(drainWait)
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return exit, fmt.Errorf("wait for %s: %w", spec.Argv[0], err)
	}
	if copyErr != nil {
		return exit, fmt.Errorf("read output of %s: %w", spec.Argv[0], copyErr)
	}
	exit.Code = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit, nil
}

func (r *Reaper) startProcess(cmd *exec.Cmd, spec Spec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.children == nil {
		r.children = map[int]bool{}
	}
	if spec.Tree && r.trees == 0 {
		if err := adoptOrphans(); err != nil {
			return err
		}
		r.prior = map[int]bool{}
		for _, pid := range childrenOf(os.Getpid()) {
			r.prior[pid] = true
		}
	}
	start := cmd.Start
	if spec.Confine != nil {
		start = func() error { return spec.Confine(cmd.Start) }
	}
	if err := start(); err != nil {
		return err
	}
	r.children[cmd.Process.Pid] = true
	if spec.Tree {
		r.trees++
	}
	return nil
}

// stopProcess sends SIGINT, SIGTERM and SIGKILL, and adds the processes that it kills below pid to killed. It returns the
// result of Wait.
func (r *Reaper) stopProcess(pid int, spec Spec, waited <-chan error, killed map[int]bool) error {
	if spec.Grace > 0 {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			// ESRCH: the group is gone already, Wait is about to tell.
			_ = syscall.Kill(-pid, sig)
			timer := time.NewTimer(spec.Grace)
			select {
			case err := <-waited:
				timer.Stop()
				return err
			case <-timer.C:
			}
		}
	}
	if spec.Tree {
		r.killTree(pid, killed)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return <-waited
}

// killRest kills the processes that the program left behind and adds them to killed.
func (r *Reaper) killRest(pid int, tree bool, killed map[int]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.children, pid)
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	if !tree {
		return
	}
	r.trees--
	// While another tree runs, the owner of an orphan is unknown; the last tree kills them all.
	if r.trees == 0 {
		r.killOrphans(killed)
	}
}

// output carries a program's stdout and stderr to writers. The pipes are ours, not os/exec's: cmd.Wait must not wait
// for a grandchild that holds a pipe open, because the sweep that ends it comes after.
type output struct {
	stdout, stderr *os.File // write ends
	readers        []*os.File
	done           chan error
}

func newOutput(stdout, stderr io.Writer) (*output, error) {
	o := &output{done: make(chan error, 2)}
	var err error
	if o.stdout, err = o.newPipe(stdout); err != nil {
		return nil, err
	}
	if stderr == stdout {
		o.stderr = o.stdout
		return o, nil
	}
	if o.stderr, err = o.newPipe(stderr); err != nil {
		o.closeWriters()
		o.waitCopied(0)
		return nil, err
	}
	return o, nil
}

func (o *output) newPipe(to io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = io.Discard
	}
	o.readers = append(o.readers, r)
	go func() {
		_, err := io.Copy(to, r)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			// The program must not block on a full pipe because our writer failed.
			_, _ = io.Copy(io.Discard, r)
		} else {
			err = nil
		}
		o.done <- err
	}()
	return w, nil
}

func (o *output) closeWriters() {
	o.stdout.Close()
	if o.stderr != nil && o.stderr != o.stdout {
		o.stderr.Close()
	}
}

// waitCopied waits for both copies to reach the end, at most as long as given after the call.
func (o *output) waitCopied(limit time.Duration) error {
	for _, r := range o.readers {
		if err := r.SetReadDeadline(time.Now().Add(limit)); err != nil {
			r.Close()
		}
	}
	var first error
	for _, r := range o.readers {
		if err := <-o.done; err != nil && first == nil {
			first = err
		}
		defer r.Close()
	}
	return first
}

// input feeds a program's stdin through a pipe of ours, for the same reason.
type input struct {
	read, write *os.File
	done        chan struct{}
}

func newInput(spec Spec) (*input, error) {
	if spec.Input != nil {
		in := &input{read: spec.Input, done: make(chan struct{})}
		close(in.done)
		return in, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in := &input{read: r, write: w, done: make(chan struct{})}
	go func() {
		defer close(in.done)
		// A program that does not read its input has not failed.
		_, _ = io.WriteString(w, spec.Stdin)
		w.Close()
	}()
	return in, nil
}

// stopFeeding stops feeding; the program is dead.
func (in *input) stopFeeding() {
	_ = in.write.SetWriteDeadline(time.Now()) // closed already when everything was written
	<-in.done
}
