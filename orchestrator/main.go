// Command lattice composes skills into flows, runs them in sprites, pauses for people and acts for sprites outside.
//
// The actors, and their connections:
//
//	command ──HTTP over lattice.sock──▶ leader ──▶ engine.Runner ──▶ session ──Sprites API──▶ embedded host │ remote
//	                                      │             │                                          │
//	                                      └── store ◀───┘ facts before effects                     └─▶ /skills/… in a sprite
//
// main reads flags and environment and hands values down; nothing below it does. The commands are in packages below command,
// one for each group; package connect decides whether this process leads or asks the one that does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// a box's init gets no further

func main() {
	env := newEnv()
	ctx, stop := untilSignal(env)
	code := execute(ctx, env, os.Args[1:])
	stop()
	os.Exit(code)
}

// newEnv reads the environment of this process.
func newEnv() *setup.Env {
	exe, _ := os.Executable() // without it the first sandbox says so
	return setup.New(&cli.Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
		Terminal: cli.IsTerminal(os.Stdout) && cli.IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb",
		Exit:     os.Exit, Deadline: &cli.Deadline{Within: cli.EndWithin},
	}, exe)
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the process at once, which is
// for what cannot be called off, such as reading a backup from a terminal. So does time: the process ends within
// cli.EndWithin even if something hangs, and its runs can be resumed as after kill -9.
func untilSignal(env *setup.Env) (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		env.Deadline.Begin(func() {
			fmt.Fprintf(env.Err, "lattice: it did not end within %v of a signal and is ended by force%s\n", env.Deadline.Within, writeStacks(env))
			env.Exit(protocol.ExitCancelled)
		})
	})
	return ctx, stop
}

// writeStacks writes the stacks of all goroutines to a file, and returns a clause that names it.
func writeStacks(env *setup.Env) string {
	if env.Home == "" {
		return ""
	}
	stacks := make([]byte, 4<<20)
	logs := home.Home(env.Home).Logs()
	_ = os.Mkdir(logs, 0o700) // without a home there is nothing to lead, and no log
	path := filepath.Join(logs, "hang.log")
	if os.WriteFile(path, stacks[:runtime.Stack(stacks, true)], 0o600) != nil {
		return ""
	}
	return "; what it was doing is in " + path
}

// completing reports whether this process only completes a command line for a shell.
func completing(c *cobra.Command) bool {
	return c.Name() == cobra.ShellCompRequestCmd || c.Name() == cobra.ShellCompNoDescRequestCmd
}

// execute runs one command line and returns its exit code; the only place that turns errors into exits.
func execute(ctx context.Context, env *setup.Env, args []string) int {
	root := newRootCmd(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && asksJSON(args) { // which a command line that cannot be read may hide
		env.JSON = true
	}
	return env.Report(ctx, err)
}

// asksJSON reports whether --json is among the arguments that are lattice's own.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}
