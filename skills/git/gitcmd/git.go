// Package gitcmd runs git as a process. Start with [Git.Run]: git inherits no environment, overrides on its command line win
// over the repository's configuration, and nothing executable comes from the repository. [Find] finds a git that is recent
// enough, [WorkTree] runs it in a repository, [Transfer] follows its progress and enforces limits, and a [Failure] is an
// exit code that the caller did not expect. Git's messages, in the C locale, tell failures apart.
//
// A credential reaches git through a pipe: it is in no argument, environment variable, file or configuration.
package gitcmd

import (
	"cmp"
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
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxOutput = 4 << 20  // bytes of git's stdout that are kept; longer output is read as it streams
	maxDiag   = 64 << 10 // bytes of git's stderr that are kept
	stopGrace = 2 * time.Second
)

// emptyHome is a home without configuration: git takes a missing folder as an empty one.
const emptyHome = "/nonexistent"

// sshCommand asks no questions and accepts only known hosts.
const sshCommand = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oIdentitiesOnly=yes"

// overrides are forced onto every git command, over whatever the repository's configuration says. On the command
// line they win in every git since 2.30. A repository with settings that cannot be overridden is refused before it is opened.
// With one thread git reads the entries of the index from the beginning, as package guard does, and ignores the table of offsets
// in it, which can lead to others.
func overrides() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=", "core.untrackedCache=false", "core.attributesFile=/dev/null",
		"core.excludesFile=/dev/null", "core.askPass=", "core.editor=false", "sequence.editor=false", "core.pager=cat",
		"core.quotePath=false", "core.protectHFS=true", "core.protectNTFS=true", "core.precomposeUnicode=false",
		"credential.helper=", "protocol.ext.allow=never", "http.followRedirects=initial", "transfer.fsckObjects=true",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "push.followTags=false",
		"push.gpgSign=false", "push.pushOption=", "commit.gpgSign=false", "tag.gpgSign=false", "log.showSignature=false",
		"commit.cleanup=whitespace", "commit.verbose=false", "i18n.commitEncoding=UTF-8", "i18n.logOutputEncoding=UTF-8",
		"pack.threads=1", "index.threads=1", "gc.auto=0", "maintenance.auto=false", "init.templateDir=", "color.ui=false", "column.ui=never",
		"status.relativePaths=false", "status.showStash=false", "status.aheadBehind=true", "diff.ignoreSubmodules=dirty",
		"diff.renames=true", "rebase.autoStash=false", "advice.detachedHead=false",
	}
}

// Git is one git program.
type Git struct {
	reaper *proc.Reaper
	bin    string
	path   string // PATH for git's own children
}

// Command is one run of git.
type Command struct {
	Args    []string
	Env     []string
	Remote  *engine.Source // the one remote that may be reached, with its credential; nil allows none
	Stdin   string
	Stdout  io.Writer         // receives stdout instead of the caller
	OK      []int             // exit codes besides 0 that are not a failure
	Follow  func(line string) // receives each line of stderr
	Reading bool              // takes no optional locks

	dir   string     // where git runs; "/" when empty, so that it finds no repository by itself
	hide  []string   // secrets that no message may show
	files []*os.File // inherited as descriptors 3, 4 …
}

// Run runs git and returns its stdout. A failure that all callers treat alike is a *skill.Error; any other is a *Failure.
func (g *Git) Run(ctx context.Context, cmd Command) ([]byte, error) {
	done, err := cmd.addRemote()
	if err != nil {
		return nil, err
	}
	defer done()
	argv := []string{g.bin}
	for _, o := range overrides() {
		argv = append(argv, "-c", o)
	}
	argv = append(argv, cmd.Args...)
	stdout, stderr := &proc.Head{Limit: maxOutput}, &proc.Head{Limit: maxDiag}
	spec := proc.Spec{
		Argv: argv, Dir: cmp.Or(cmd.dir, "/"), Env: append(g.environment(cmd), cmd.Env...), Stdin: cmd.Stdin, Files: cmd.files,
		Stdout: stdout, Stderr: &lineWriter{to: stderr, follow: cmd.Follow}, Grace: stopGrace,
	}
	if cmd.Stdout != nil {
		spec.Stdout = cmd.Stdout
	}
	exit, err := g.reaper.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verbOf(cmd.Args), context.Cause(ctx))
	}
	if exit.Code != 0 && !slices.Contains(cmd.OK, exit.Code) {
		f := &Failure{Code: exit.Code, Stderr: oneLine(stderr.Bytes(), cmd.hide), verb: verbOf(cmd.Args)}
		if f.Says("couldn't write", "nable to write", "write error") && isFull(spec.Dir) { // git does not always name the cause
			return nil, skill.Fault(because{f, syscall.ENOSPC})
		}
		return nil, classifyFailure(f)
	}
	if stdout.Omitted() > 0 {
		return nil, fault.Limit("too_much_output", "git %s printed more than %d bytes", verbOf(cmd.Args), maxOutput)
	}
	return stdout.Bytes(), nil
}

// environment returns the variables that every git gets.
func (g *Git) environment(cmd Command) []string {
	allow := "none"
	if cmd.Remote != nil {
		allow = cmd.Remote.Protocol
	}
	env := []string{
		"PATH=" + g.path, "HOME=" + emptyHome, "XDG_CONFIG_HOME=" + emptyHome, "LC_ALL=C", "LANGUAGE=", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_ALLOW_PROTOCOL=" + allow,
		"GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ADVICE=0",
		"GIT_SSH_COMMAND=" + sshCommand, "GIT_SSH_VARIANT=ssh",
	}
	if cmd.Reading {
		env = append(env, "GIT_OPTIONAL_LOCKS=0")
	}
	return env
}

// addRemote gives the command the environment and the credential of its remote. done must be called when git has ended.
//
// A token travels through a pipe. The helper is bound to scheme, host and port of the remote, so that it does not answer
// after a redirect to another host. The pipe holds the answer once, so that a second question, after the token was refused,
// fails. printf and read are shell builtins, so that no process list shows the token.
func (cmd *Command) addRemote() (done func(), err error) {
	done = func() {}
	if cmd.Remote == nil {
		return done, nil
	}
	cmd.Env = append(slices.Clip(cmd.Env), cmd.Remote.Env...)
	c := cmd.Remote.Credential
	switch {
	case c == nil:
		return done, nil
	case cmd.Remote.Protocol == "ssh":
		cmd.Env = append(cmd.Env, sshVariable(c))
		return done, nil
	}
	key, err := helperKey(cmd.Remote.URL)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pass the credential: %w", err)
	}
	// The text fits into a pipe: the write never blocks, even if git does not read.
	_, err = fmt.Fprintf(write, "username=%s\npassword=%s\n", c.Username, c.Token)
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("pass the credential: %w", err)
	}
	helper := fmt.Sprintf(`%s=!f() { test "$1" = get && while IFS= read -r l <&%d; do printf '%%s\n' "$l"; done; }; f`, key, credentialFile)
	cmd.Args = append([]string{"-c", helper}, cmd.Args...)
	cmd.files = []*os.File{read}
	cmd.hide = []string{c.Token}
	return func() { read.Close() }, nil
}

// sshVariable makes ssh use a key and trust the listed hosts. The verb has checked both files; ssh reads them itself.
func sshVariable(c *engine.Credential) string {
	ssh := "GIT_SSH_COMMAND=" + sshCommand
	if c.KeyFile != "" {
		ssh += " -i " + text.ShellWord(c.KeyFile)
	}
	if c.KnownHosts != "" {
		ssh += " -o UserKnownHostsFile=" + text.ShellWord(c.KnownHosts) + " -o GlobalKnownHostsFile=/dev/null"
	}
	return ssh
}
