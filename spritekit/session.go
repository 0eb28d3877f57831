package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/cli"
	"github.com/spritekit/lattice/spritekit/session"
)

// sessionGrace is the time that a third-party program has after SIGINT, and again after SIGTERM.
const sessionGrace = 5 * time.Second

// serveSession serves calls from stdin until that ends.
func (a app) serveSession(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	var set skills.Set
	o := session.Options{
		Skills: set.All(), Self: self, Environ: a.environ,
		Run: func(ctx context.Context, p session.Program) (int, error) {
			return set.Program(ctx, proc.Spec{
				Argv: p.Argv, Dir: p.Dir, Env: p.Env, Stdin: string(p.Stdin), Stdout: p.Stdout, Stderr: p.Stderr, Grace: sessionGrace,
			})
		},
	}
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if args = args[1:]; !ok && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		var problem error
		switch name {
		case "--parallel":
			o.Parallel, problem = strconv.Atoi(value)
			if problem == nil && (o.Parallel < 1 || o.Parallel > session.MaxParallel) {
				problem = fmt.Errorf("it is not within 1 and %d", session.MaxParallel)
			}
		case "--idle":
			o.Idle, problem = parsePositive(value)
		case "--keepalive":
			o.Keepalive, problem = parsePositive(value)
		default:
			return usagef("there is no flag %s", name)
		}
		if problem != nil {
			return usagef("%s %q: %v", name, value, problem)
		}
	}
	procs := runtime.GOMAXPROCS(1) // no thread wakes another for a small call
	o.Hurry = func(on bool) {
		if on {
			runtime.GOMAXPROCS(procs)
		} else {
			runtime.GOMAXPROCS(1)
		}
	}
	guardSession()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a closed stdout ends the session, not its calls
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cli.CancelAtSignal(cancel)
	exit, err := session.Serve(ctx, o, makePollable(a.stdin), a.stdout)
	if err != nil {
		return err
	}
	return exitWith(exit)
}

func parsePositive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("it must be above 0, such as 30s")
	}
	return d, err
}

// makePollable returns a pipe or a socket as a file whose reading waits without holding a thread, and anything else as it is:
// to wake a thread for each call takes longer than a small call.
func makePollable(stdin io.Reader) io.Reader {
	f, ok := stdin.(*os.File)
	if !ok {
		return stdin
	}
	if info, err := f.Stat(); err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return stdin
	}
	if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
		return stdin
	}
	return os.NewFile(f.Fd(), f.Name())
}
