package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// deps is what commands are given instead of finding it themselves.
type deps struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // out and err are terminals: live progress and colour
	getenv   func(string) string
	environ  []string
	exe      string // this binary, for sandboxes and leaders that it starts
	home     string // state directory
	settings settings.Settings

	spritesURL, spritesToken string // the remote Sprites API, "" for the embedded host

	user    string
	version string
	// api and oldest are the versions of the leader's interface that this build speaks, and serves.
	api, oldest int
	log         zerolog.Logger
	// wrapLog lets a composition root put its own log between engine and store.
	wrapLog func(driver.Log) driver.Log

	exit     func(code int) // ends the process, whatever it does
	deadline *deadline      // of the process, after a signal

	json bool // --json
}

// processDeps reads the process's surroundings once.
func processDeps() *deps {
	d := &deps{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, exit: os.Exit, deadline: &deadline{within: endWithin},
		terminal: term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb",
		getenv:   os.Getenv, environ: os.Environ(),
		version: buildVersion(), api: api.Version, oldest: api.Oldest, log: zerolog.Nop(),
	}
	d.exe, _ = os.Executable() // without it the first sandbox says so
	d.home = stateDir(os.Getenv)
	d.user = "operator"
	if u, err := user.Current(); err == nil && u.Username != "" {
		d.user = u.Username
	}
	if level, err := zerolog.ParseLevel(os.Getenv("LATTICE_LOG")); err == nil && os.Getenv("LATTICE_LOG") != "" {
		d.log = zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	}
	return d
}

// stateDir is $LATTICE_HOME, else lattice in the XDG state directory; "" when the environment names neither.
func stateDir(getenv func(string) string) string {
	dir := getenv("LATTICE_HOME")
	if dir == "" {
		if dir = getenv("XDG_STATE_HOME"); !filepath.IsAbs(dir) { // the specification has relative ones ignored
			home := getenv("HOME")
			if home == "" {
				return ""
			}
			dir = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(dir, "lattice")
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.1.0-dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// execute runs one command line and returns its exit code; the only place that turns errors into exits.
func execute(ctx context.Context, d *deps, args []string) int {
	root := newRootCmd(d)
	root.SetArgs(args)
	root.SetIn(d.in)
	root.SetOut(d.out)
	root.SetErr(d.err)
	err := root.ExecuteContext(ctx)
	if err != nil && asksJSON(args) { // which a command line that cannot be read may hide
		d.json = true
	}
	return d.report(ctx, err)
}

// asksJSON reports whether --json is among the arguments that are lattice's own.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// exitError ends the command with a code of its own; a nil err was reported already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// report prints err for the user (and, with --json, for a machine on stderr) and returns the exit code.
func (d *deps) report(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	if errors.Is(err, syscall.ENOSPC) { // wherever it struck: a lock file, the socket, what is installed for sprites
		err = d.diskFull(err)
	}
	var p *fault.Error
	if errors.As(err, &p) && d.json {
		_ = encoder(d.err).Encode(p) // nowhere left to report to
		return p.Exit
	}
	code := protocol.ExitFailed
	switch {
	case errors.As(err, &p):
		code = p.Exit
	case exit != nil:
		code = exit.code
	case ctx.Err() != nil:
		code = protocol.ExitCancelled
	case errors.Is(err, errUsage):
		code = protocol.ExitBadInput
	}
	if p == nil && d.json {
		p := fault.New(code, "failed", "%v", err)
		switch code {
		case protocol.ExitBadInput:
			p = fault.BadInput("usage", "%s", strings.TrimSuffix(err.Error(), seeHelp)).WithHint("--help")
		case protocol.ExitCancelled:
			p = fault.Cancelled("cancelled", "%v", err)
		}
		_ = encoder(d.err).Encode(p) // nowhere left to report to
		return code
	}
	words := sanitizer{d.err} // a sprite may have chosen some of them: names of files, what its host says of it
	if errors.As(err, &p) {
		fmt.Fprintf(words, "lattice: %s\n", strings.TrimRight(err.Error(), "\n"))
		if p.Fault.Hint != "" {
			fmt.Fprintf(words, "  try: %s\n", p.Fault.Hint)
		}
		return code
	}
	fmt.Fprintf(words, "lattice: %v\n", err)
	return code
}

// diskFull says what to do when there was no space: in the state directory, or where a person had something written.
func (d *deps) diskFull(err error) error {
	var at *fs.PathError
	switch {
	case !errors.As(err, &at):
		return leader.StoreProblem(err)
	case at.Path == os.Stdout.Name():
		return fault.Limit("output_full", "write standard output: %v", at.Err).WithHint("free some space there, or write to another place")
	case strings.HasPrefix(at.Path, d.home+"/"):
		return leader.StoreProblem(err)
	}
	return fault.Limit("disk_full", "%v", err).WithHint("free some space there, or write to another place")
}

// errUsage marks errors of the command line itself.
var errUsage = errors.New("usage")

// seeHelp ends what people are told of a wrong command line.
const seeHelp = "; see --help"

type usageError struct{ err error }

func (u usageError) Error() string   { return u.err.Error() + seeHelp }
func (u usageError) Unwrap() []error { return []error{u.err, errUsage} }
