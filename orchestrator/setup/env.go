// Package setup reads the environment of a command of lattice, once: variables, settings, the state directory, and the models,
// agents and remote sprites that they name.
//
// Begin with Env, which every command is given. No other package below main reads the environment.
package setup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Env is the environment of a command, as main has read it.
type Env struct {
	*cli.Console
	Exe      string // this binary, for sandboxes and leaders that it starts
	Home     string // state directory
	Settings settings.Settings

	SpritesURL, spritesToken string // the remote Sprites API, "" for the embedded host

	User    string
	Version string
	// API and Oldest are the versions of the leader's interface that this build speaks, and serves.
	API, Oldest int
	Log         zerolog.Logger
	// LogSecrets returns the secrets that no line of Log may hold; the leader of this process sets it.
	LogSecrets atomic.Pointer[func() *redact.Secrets]
	// WrapLog lets a composition root put its own log between engine and store.
	WrapLog func(driver.Log) driver.Log
	// OpenEngine connects a process that leads to the engine of the settings; nil in a binary without one.
	OpenEngine func(context.Context, *Env) (drive.Engine, error)
	// Recorded, if not nil, is called when an entry of the audit log is on disk.
	Recorded func()

	forges forgeClients
}

// New reads the environment that the console has. exe is this binary, "" when it is not known.
func New(console *cli.Console, exe string) *Env {
	env := &Env{Console: console, Exe: exe, Home: stateDir(console.Getenv), User: "operator", Version: protocol.BuildVersion(), API: api.Version, Oldest: api.Oldest, Log: zerolog.Nop()}
	env.Explain = func(err error) error { return explainFullDisk(env.Home, err) }
	if u, err := user.Current(); err == nil && u.Username != "" {
		env.User = u.Username
	}
	if level, err := zerolog.ParseLevel(env.Getenv("LATTICE_LOG")); err == nil && env.Getenv("LATTICE_LOG") != "" {
		env.Log = zerolog.New(env.LogWriter(env.Err)).Level(level).With().Timestamp().Logger()
	}
	return env
}

// LogWriter returns a writer to a log, which takes out the secrets that the leader of this process knows.
func (env *Env) LogWriter(w io.Writer) *redact.Writer {
	return redact.NewWriter(w, func() *redact.Secrets {
		if secrets := env.LogSecrets.Load(); secrets != nil {
			return (*secrets)()
		}
		return nil
	})
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

// explainFullDisk adds a remedy to an error about a full disk, of the state directory or of another place.
func explainFullDisk(home string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) { // it may strike anywhere: a lock file, the socket, the programs that are installed for sprites
		return err
	}
	var at *fs.PathError
	switch {
	case !errors.As(err, &at):
		return problem.StoreProblem(err)
	case at.Path == os.Stdout.Name():
		return fault.Limit("output_full", "write standard output: %v", at.Err).WithHint("free some space there, or write somewhere else")
	case strings.HasPrefix(at.Path, home+"/"):
		return problem.StoreProblem(err)
	}
	return fault.Limit("disk_full", "%v", err).WithHint("free some space there, or write somewhere else")
}
