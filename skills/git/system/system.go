// Package system is the engine that drives the git of the sprite. Start with Engine.run: every command is started there,
// with nothing inherited from the environment, with overrides on its command line over whatever a repository's
// configuration says, and with nothing executable taken from the repository. What git says is read from its stable
// formats only, as it streams; its messages, in the C locale, tell failures apart (diag.go).
//
// One verb is as few processes as it can be: what lies in plain files of a repository (HEAD, refs, a fresh commit, the
// number of files) is read from there by refs.go, as far as that is simple and exactly right, and git is asked otherwise.
package system

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxOutput = 4 << 20  // bytes of git's stdout that are kept; what can be longer is read as it streams
	maxDiag   = 64 << 10 // bytes of git's stderr that are kept
	stopGrace = 2 * time.Second
)

// nowhere is a home without configuration; git takes a missing folder as an empty one.
const nowhere = "/nonexistent"

// sshCommand asks no questions and accepts only known hosts.
const sshCommand = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oIdentitiesOnly=yes"

// overrides are forced onto every git command, over whatever the repository's configuration says. They stand on the
// command line, where they win in every git since 2.30. What cannot be overridden makes a repository refused before it
// is opened.
func overrides() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=", "core.untrackedCache=false", "core.attributesFile=/dev/null",
		"core.excludesFile=/dev/null", "core.askPass=", "core.editor=false", "sequence.editor=false", "core.pager=cat",
		"core.quotePath=false", "core.protectHFS=true", "core.protectNTFS=true", "core.precomposeUnicode=false",
		"credential.helper=", "protocol.ext.allow=never", "http.followRedirects=initial", "transfer.fsckObjects=true",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "push.followTags=false",
		"push.gpgSign=false", "push.pushOption=", "commit.gpgSign=false", "tag.gpgSign=false", "log.showSignature=false",
		"commit.cleanup=whitespace", "commit.verbose=false", "i18n.commitEncoding=UTF-8", "i18n.logOutputEncoding=UTF-8",
		"pack.threads=1", "gc.auto=0", "maintenance.auto=false", "init.templateDir=", "color.ui=false", "column.ui=never",
		"status.relativePaths=false", "status.showStash=false", "status.aheadBehind=true", "diff.ignoreSubmodules=dirty",
		"diff.renames=true", "rebase.autoStash=false", "advice.detachedHead=false",
	}
}

// Engine drives one git for one call.
type Engine struct {
	reaper *proc.Reaper
	bin    string
	path   string // PATH for git's own children
}

var _ engine.Engine = (*Engine)(nil)

// Name is engine.System.
func (s *Engine) Name() string { return engine.System }

// Open has nothing to open: git is told where the repository lies, and discovers nothing.
func (s *Engine) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	return s.open(at), nil
}

func (s *Engine) open(at engine.Location) *repo {
	return &repo{Unsupported: engine.Unsupported{Engine: engine.System}, Engine: s, at: at}
}

// repo is an opened repository.
type repo struct {
	engine.Unsupported // for the verbs that lie in files to come
	*Engine
	at engine.Location
}

// git runs a command in the repository.
func (r *repo) git(ctx context.Context, args ...string) ([]byte, error) {
	return r.in(ctx, command{args: args})
}

// read runs a command that takes no locks.
func (r *repo) read(ctx context.Context, args ...string) ([]byte, error) {
	return r.in(ctx, command{args: args, reading: true})
}

func (r *repo) in(ctx context.Context, cmd command) ([]byte, error) {
	cmd.dir = r.at.Dir
	cmd.env = append([]string{"GIT_DIR=" + r.at.GitDir, "GIT_WORK_TREE=" + r.at.Dir, "GIT_LITERAL_PATHSPECS=1"}, cmd.env...)
	return r.run(ctx, cmd)
}

// command is one run of git.
type command struct {
	args    []string
	dir     string // where git runs; "/" when empty, so that it finds no repository by itself
	env     []string
	allow   string // the transport protocols that may be used, none when empty
	stdin   string
	stdout  io.Writer         // instead of returning it
	ok      []int             // exit codes that are not a failure, besides 0
	follow  func(line string) // sees each line of stderr
	hide    []string          // secrets that no message may show
	files   []*os.File        // inherited as descriptors 3, 4 …
	reading bool              // takes no optional locks
}

// failure is a git command that ended with a code that was not expected.
type failure struct {
	verb   string
	exit   proc.Exit
	stderr string
}

func (f *failure) Error() string {
	if f.stderr == "" {
		return fmt.Sprintf("git %s ended with code %d", f.verb, f.exit.Code)
	}
	return fmt.Sprintf("git %s: %s", f.verb, f.stderr)
}

// run runs git and returns its stdout. A failure that everybody treats alike comes as a *skill.Error, others as
// a *failure.
func (s *Engine) run(ctx context.Context, cmd command) ([]byte, error) {
	argv := []string{s.bin}
	for _, o := range overrides() {
		argv = append(argv, "-c", o)
	}
	argv = append(argv, cmd.args...)
	stdout, stderr := &proc.Head{Limit: maxOutput}, &proc.Head{Limit: maxDiag}
	diag := &lineWriter{to: stderr, follow: cmd.follow}
	spec := proc.Spec{
		Argv: argv, Dir: cmd.dir, Env: append(s.env(cmd), cmd.env...), Stdin: cmd.stdin, Files: cmd.files,
		Stdout: stdout, Stderr: diag, Grace: stopGrace,
	}
	if cmd.stdout != nil {
		spec.Stdout = cmd.stdout
	}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	exit, err := s.reaper.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb(cmd.args), context.Cause(ctx))
	}
	if exit.Code != 0 && !slices.Contains(cmd.ok, exit.Code) {
		f := &failure{verb: verb(cmd.args), exit: exit, stderr: tidy(stderr.Bytes(), cmd.hide)}
		if f.couldNotWrite() && isFull(spec.Dir) {
			return nil, skill.Fault(because{f, syscall.ENOSPC})
		}
		return nil, classify(f)
	}
	if stdout.Omitted() > 0 {
		return nil, fault.Limit("too_much_output", "git %s said more than %d bytes", verb(cmd.args), maxOutput)
	}
	return stdout.Bytes(), nil
}

// env is the whole environment of git.
func (s *Engine) env(cmd command) []string {
	allow := cmd.allow
	if allow == "" {
		allow = "none"
	}
	env := []string{
		"PATH=" + s.path, "HOME=" + nowhere, "XDG_CONFIG_HOME=" + nowhere, "LC_ALL=C", "LANGUAGE=", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_ALLOW_PROTOCOL=" + allow,
		"GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ADVICE=0",
		"GIT_SSH_COMMAND=" + sshCommand, "GIT_SSH_VARIANT=ssh",
	}
	if cmd.reading {
		env = append(env, "GIT_OPTIONAL_LOCKS=0")
	}
	return env
}
