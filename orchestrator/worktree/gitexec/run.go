// Package gitexec runs git processes. A [Command] is run either with the user's environment and configuration, or with
// neither; with [Limits] it cannot use more memory, processor time, wall-clock time or output than they allow. All text of
// git that becomes a message passes [Sanitize]. Start with Runner. The package never chooses what git does, and never asks
// anyone for a password.
package gitexec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Runner starts git processes. It is safe for concurrent use.
type Runner struct {
	path    string
	Env     []string // the user's environment
	scratch string   // the working directory of commands without one, and the home of those without the user's environment
	cages   chan struct{}
}

// New returns a runner of the git executable path.
func New(path string, env []string, scratch string) *Runner {
	return &Runner{path: path, Env: env, scratch: scratch, cages: make(chan struct{}, concurrentCages)}
}

// WithEnv returns a runner with another environment and the same limit on processes.
func (g *Runner) WithEnv(env []string) *Runner {
	other := *g
	other.Env = env
	return &other
}

// MaxOutput is the number of bytes that are kept of a git command's stdout. Result.Cut reports that there was more.
const MaxOutput = 32 << 20

// Command is one run of git.
type Command struct {
	Dir   string   // working directory; "" = the scratch directory
	User  bool     // with the user's environment and configuration, else with neither
	Env   []string // on top
	Hide  []string // names of variables of the user's environment that are left out
	Stdin io.Reader
	Out   io.Writer // gets stdout, all of it, in the place of the result
	// Limits bound a git that reads objects of a sprite; nil for one that reads the user's.
	Limits *Limits
	// Hold stays open for as long as git runs, even should this process be killed.
	Hold *os.File
	Args []string
}

// Result is the output of a command that exited. A command that was killed or could not be started is an error instead.
type Result struct {
	Stdout []byte
	Cut    bool // stdout was longer than maxOutput
	Stderr string
	Exit   int
}

// StdoutText is stdout without the final newline.
func (r Result) StdoutText() string { return strings.TrimSuffix(string(r.Stdout), "\n") }

// safeConfig holds for every command: nothing of a repository that is read may start a program or a background job.
var safeConfig = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "core.pager=cat",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "submodule.recurse=false",
	"-c", "fetch.recurseSubmodules=false",
	"-c", "push.recurseSubmodules=no",
	"-c", "protocol.ext.allow=never",
	"-c", "core.splitIndex=false",
	"-c", "core.untrackedCache=false",
	"-c", "core.protectHFS=true",
	"-c", "core.protectNTFS=true",
}

// Run executes git and waits for it and its children. A non-zero exit is not an error here.
func (g *Runner) Run(ctx context.Context, c Command) (Result, error) {
	path, args := g.path, append([]string{"--no-pager"}, safeConfig...)
	parent := ctx
	if c.Limits != nil {
		leave, err := g.acquireCage(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("git %s: %w", c.Args[0], err)
		}
		defer leave()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Limits.Deadline)
		defer cancel()
		args = append(args, cageConfig...)
		path, args = c.Limits.wrapCommand(path, append(args, c.Args...))
	} else {
		args = append(args, c.Args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = cmp.Or(c.Dir, g.scratch)
	if c.User {
		cmd.Env = userEnv(g.Env, c.Hide)
	} else {
		cmd.Env = g.bareEnv()
	}
	cmd.Env = append(cmd.Env, c.Env...)
	cmd.Stdin = c.Stdin
	if c.Hold != nil {
		cmd.ExtraFiles = []*os.File{c.Hold}
	}
	out, diag := &capped{max: MaxOutput}, &capped{max: 64 << 10}
	if c.Limits != nil {
		out.full = func() { _ = cmd.Cancel() } // nothing that it could still print is used
	}
	cmd.Stdout, cmd.Stderr = out, diag
	if c.Out != nil {
		cmd.Stdout = c.Out
	}
	// A new session: git has no terminal to prompt on, and its process group can be killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second

	err := cmd.Run()
	r := Result{Stdout: out.buf.Bytes(), Cut: out.cut, Stderr: Sanitize(diag.buf.String())}
	if parent.Err() != nil {
		return r, fmt.Errorf("git %s: %w", c.Args[0], parent.Err())
	}
	var exit *exec.ExitError
	errors.As(err, &exit)
	if c.Limits != nil {
		if err := c.Limits.limitRefusal(c.Args[0], exit, r, ctx.Err() != nil); err != nil {
			return r, err
		}
	}
	if exit != nil && exit.ExitCode() >= 0 {
		r.Exit = exit.ExitCode()
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("git %s: %w", c.Args[0], err)
	}
	return r, nil
}

// MustRun is like run, but a non-zero exit code or truncated output is an error.
func (g *Runner) MustRun(ctx context.Context, c Command) (Result, error) {
	r, err := g.Run(ctx, c)
	if err != nil {
		return r, err
	}
	if r.Exit != 0 {
		return r, fmt.Errorf("git %s (exit %d): %s", c.Args[0], r.Exit, r.Stderr)
	}
	if r.Cut {
		return r, fmt.Errorf("git %s: more than %d MiB of output", c.Args[0], MaxOutput>>20)
	}
	return r, nil
}

// ConfigEnv returns variables that set one value of git's configuration for a command with the user's environment, which may
// set others in the same way.
func (g *Runner) ConfigEnv(key, value string) []string {
	n := 0
	for _, kv := range g.Env {
		if count, ok := strings.CutPrefix(kv, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(count) // git refuses a count that is not a number
		}
	}
	return []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1), fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value)}
}

// userEnv returns the user's environment without hidden variables and those that select another repository.
func userEnv(env, hide []string) []string {
	out := make([]string, 0, len(env)+4)
	allow := false
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_QUARANTINE_PATH",
			"GIT_INTERNAL_SUPER_PREFIX", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
			"GIT_ICASE_PATHSPECS", "GIT_DEFAULT_HASH", "GIT_EXTERNAL_DIFF", "GIT_TERMINAL_PROMPT", "LC_ALL", "LANGUAGE":
			continue
		case "GIT_ALLOW_PROTOCOL":
			allow = true
		}
		if strings.HasPrefix(name, "GIT_TRACE") || slices.Contains(hide, name) { // traces may hold credentials
			continue
		}
		out = append(out, kv)
	}
	if !allow {
		out = append(out, "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh")
	}
	return append(out, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1")
}

// bareEnv is the environment for repositories with a sprite's objects: only their own configuration, and no network.
func (g *Runner) bareEnv() []string {
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, kv := range g.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	return []string{
		"PATH=" + path, "HOME=" + filepath.Join(g.scratch, "home"), "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
	}
}

// Find returns the absolute path of a git executable; "" is the first git in PATH.
func Find(path string) (string, error) {
	path = cmp.Or(path, "git")
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("find git: %w; install git 2.32 or newer", err)
	}
	return filepath.Abs(found)
}

// capped keeps the first max bytes and discards the rest, so that the writer never blocks. It calls full, if set, when
// there is more. The buffer is not embedded: io.Copy would use its ReadFrom instead of Write.
type capped struct {
	buf  bytes.Buffer
	max  int
	cut  bool
	full func()
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.max - c.buf.Len()
	if room >= len(p) {
		return c.buf.Write(p)
	}
	c.buf.Write(p[:room])
	if !c.cut && c.full != nil {
		c.full()
	}
	c.cut = true
	return len(p), nil
}
