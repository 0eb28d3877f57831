// Package program is the command lattice: it reads the environment, and composes the groups of commands below command. It is a
// package of its own because there are two binaries: the ordinary one, and the one of orchestrator/temporal, which adds an engine.
// Start with Main.
package program

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
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // the init of a sandbox gets no further
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Main runs the command line of this process, and ends the process.
func Main(env *setup.Env) {
	ctx, stop := UntilSignal(env)
	code := Execute(ctx, env, os.Args[1:])
	stop()
	os.Exit(code)
}

// NewEnv reads the environment of this process.
func NewEnv() *setup.Env {
	exe, _ := os.Executable() // without it the first sandbox says so
	return setup.New(&cli.Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
		Terminal: cli.IsTerminal(os.Stdout) && cli.IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb",
		Exit:     os.Exit, Deadline: &cli.Deadline{Within: cli.EndWithin},
	}, exe)
}

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the process at once, which is
// for what cannot be called off, such as reading a backup from a terminal. So does time: the process ends within
// cli.EndWithin even if something hangs, and its runs can be resumed as after kill -9.
func UntilSignal(env *setup.Env) (ctx context.Context, stop func()) {
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

// Execute runs one command line and returns its exit code; the only place that turns errors into exits.
func Execute(ctx context.Context, env *setup.Env, args []string) int {
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
