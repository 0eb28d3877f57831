// Package checkout runs the command of a worker on this machine, in a git worktree: a frozen checkout of one commit. Start with [Run].
//
// The command gets little of the caller's environment and a session of its own, so that it can start from an agent's session. It reads
// all that the user can read, and changes only a temporary folder of its own and the writable paths of its job. All that it started ends
// with it; [Clean] does the same after a crash of the caller.
package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/marked"
	"github.com/spritekit/lattice/spritekit/readonly"
)

// Prefix begins the names of the folders of worktrees.
const Prefix = "lattice-worker-"

// tempSuffix is behind the name of a worktree in the name of its temporary folder.
const tempSuffix = ".tmp"

// devices can be written by every command.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"}

// markName is the variable that marks the processes of a command with the event that started it.
const markName = "LATTICE_STARTED_EVENT_ID"

// keptVariables are the variables of the caller that a command gets.
var keptVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TERM", "TMPDIR"}

// maxReport bounds the report of a command, in bytes.
const maxReport = 1 << 20

// Job is a command and its checkout.
type Job struct {
	Repository, Folder string // of the worktree, which does not exist yet
	Commit             string
	Command            string // for the shell
	Input              string // on standard input
	Environ            []string
	Variables          []string // more of them, NAME=VALUE
	Event              string   // process_started
	Timeout            time.Duration
	Writable           []string  // more paths that the command can change
	Log                io.Writer // gets the output, and the errors as well
}

// Run makes the worktree, runs the command in it and removes the worktree. It returns the output of the command.
func Run(ctx context.Context, j Job) (report string, err error) {
	defer func() { err = errors.Join(err, Clean(context.WithoutCancel(ctx), j.Repository, j.Folder, j.Event)) }()
	if err := runGit(ctx, j.Repository, "worktree", "add", "--quiet", "--detach", j.Folder, j.Commit); err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "/bin/sh", "-c", j.Command)
	cmd.Dir = j.Folder
	cmd.Env = append(keepVariables(j.Environ), j.Variables...)
	temp := j.Folder + tempSuffix
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return "", err
	}
	cmd.Env = append(cmd.Env, markName+"="+j.Event, "TMPDIR="+temp, "GIT_OPTIONAL_LOCKS=0")
	cmd.Stdin = strings.NewReader(j.Input)
	out := &beginning{}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, j.Log), j.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for output that an escaped child holds open
	if err = readonly.Start(slices.Concat(devices, []string{temp}, j.Writable), cmd.Start); err == nil {
		err = cmd.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return "", errors.New("lattice was ended")
	case limited.Err() != nil:
		return "", fmt.Errorf("it was ended after %s", j.Timeout)
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() > 0:
		return "", fmt.Errorf("the command exited with code %d", cmd.ProcessState.ExitCode())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("run the command: %w", err)
	}
	return out.String(), nil
}

// Clean kills all that the command of an event started, and removes its worktree. It does nothing if there is neither.
func Clean(ctx context.Context, repository, folder, event string) error {
	if event != "" {
		marked.Kill(markName, event)
	}
	if !strings.HasPrefix(filepath.Base(folder), Prefix) {
		return fmt.Errorf("%s is not the folder of a worker", folder)
	}
	if err := os.RemoveAll(folder + tempSuffix); err != nil {
		return err
	}
	if _, err := os.Lstat(folder); err == nil {
		if err := runGit(ctx, repository, "worktree", "remove", "--force", "--force", folder); err != nil {
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
		}
	}
	return runGit(ctx, repository, "worktree", "prune")
}

// List returns the folders of the workers' worktrees of a repository.
func List(ctx context.Context, repository string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", repository, "worktree", "list", "--porcelain").Output()
	if err != nil {
		return nil, fmt.Errorf("list the worktrees of %s: %w", repository, err)
	}
	var folders []string
	for line := range strings.Lines(string(out)) {
		if folder, ok := strings.CutPrefix(strings.TrimSpace(line), "worktree "); ok && strings.HasPrefix(filepath.Base(folder), Prefix) {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

func runGit(ctx context.Context, repository string, args ...string) error {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", repository, "-c", "core.hooksPath=/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s %s: %w: %s", args[0], args[1], err, bytes.TrimSpace(out))
	}
	return nil
}

func keepVariables(environ []string) (kept []string) {
	for _, e := range environ {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(keptVariables, name) {
			kept = append(kept, e)
		}
	}
	return kept
}

// beginning keeps the first bytes that are written.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxReport-b.Len())])
	return len(p), nil
}
