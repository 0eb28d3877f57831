package worktree

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
)

// runner starts git processes. It is safe for concurrent use.
type runner struct {
	path    string
	env     []string // the user's environment
	scratch string   // the working directory of commands without one, and the home of those without the user's environment
	cages   chan struct{}
}

// newRunner returns a runner of the git executable path.
func newRunner(path string, env []string, scratch string) *runner {
	return &runner{path: path, env: env, scratch: scratch, cages: make(chan struct{}, concurrentCages)}
}

// withEnv returns a runner with another environment and the same limit on processes.
func (g *runner) withEnv(env []string) *runner {
	other := *g
	other.env = env
	return &other
}

// maxOutput is the number of bytes that are kept of a git command's stdout. result.cut reports that there was more.
const maxOutput = 32 << 20

// command is one run of git.
type command struct {
	dir   string   // working directory; "" = the scratch directory
	user  bool     // with the user's environment and configuration, else with neither
	env   []string // on top
	hide  []string // names of variables of the user's environment that are left out
	stdin io.Reader
	out   io.Writer // gets stdout, all of it, in the place of the result
	// limits bound a git that reads objects of a sprite; nil for one that reads the user's.
	limits *limits
	// hold stays open for as long as git runs, even should this process be killed.
	hold *os.File
	args []string
}

// result is the output of a command that exited. A command that was killed or could not be started is an error instead.
type result struct {
	stdout []byte
	cut    bool // stdout was longer than maxOutput
	stderr string
	exit   int
}

// stdoutText is stdout without the final newline.
func (r result) stdoutText() string { return strings.TrimSuffix(string(r.stdout), "\n") }

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

// run executes git and waits for it and its children. A non-zero exit is not an error here.
func (g *runner) run(ctx context.Context, c command) (result, error) {
	path, args := g.path, append([]string{"--no-pager"}, safeConfig...)
	parent := ctx
	if c.limits != nil {
		leave, err := g.acquireCage(ctx)
		if err != nil {
			return result{}, fmt.Errorf("git %s: %w", c.args[0], err)
		}
		defer leave()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.limits.deadline)
		defer cancel()
		args = append(args, cageConfig...)
		path, args = c.limits.wrapCommand(path, append(args, c.args...))
	} else {
		args = append(args, c.args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = g.scratch
	}
	if c.user {
		cmd.Env = userEnv(g.env, c.hide)
	} else {
		cmd.Env = g.bareEnv()
	}
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Stdin = c.stdin
	if c.hold != nil {
		cmd.ExtraFiles = []*os.File{c.hold}
	}
	out, diag := &capped{max: maxOutput}, &capped{max: 64 << 10}
	if c.limits != nil {
		out.full = func() { _ = cmd.Cancel() } // nothing that it could still print is used
	}
	cmd.Stdout, cmd.Stderr = out, diag
	if c.out != nil {
		cmd.Stdout = c.out
	}
	// A new session: git has no terminal to prompt on, and its process group can be killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second

	err := cmd.Run()
	r := result{stdout: out.buf.Bytes(), cut: out.cut, stderr: Sanitize(diag.buf.String())}
	if parent.Err() != nil {
		return r, fmt.Errorf("git %s: %w", c.args[0], parent.Err())
	}
	var exit *exec.ExitError
	errors.As(err, &exit)
	if c.limits != nil {
		if err := c.limits.limitRefusal(c.args[0], exit, r, ctx.Err() != nil); err != nil {
			return r, err
		}
	}
	if exit != nil && exit.ExitCode() >= 0 {
		r.exit = exit.ExitCode()
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("git %s: %w", c.args[0], err)
	}
	return r, nil
}

// mustRun is like run, but a non-zero exit code or truncated output is an error.
func (g *runner) mustRun(ctx context.Context, c command) (result, error) {
	r, err := g.run(ctx, c)
	if err != nil {
		return r, err
	}
	if r.exit != 0 {
		return r, fmt.Errorf("git %s (exit %d): %s", c.args[0], r.exit, r.stderr)
	}
	if r.cut {
		return r, fmt.Errorf("git %s: more than %d MiB of output", c.args[0], maxOutput>>20)
	}
	return r, nil
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
func (g *runner) bareEnv() []string {
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, kv := range g.env {
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

func findGit(path string) (string, error) {
	if path == "" {
		path = "git"
	}
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
