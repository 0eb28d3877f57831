package sprite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// execOptions are the flags of `lattice sprite exec` and `console`.
type execOptions struct {
	exec   sprites.Exec
	tty    string // auto | true | false
	escape string // one character, or none
	attach string // id of a session to join instead of starting a command
}

func (o *execOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.exec.Dir, "dir", "", "working directory in the sprite (default /home/sprite)")
	cmd.Flags().StringArrayVar(&o.exec.Env, "env", nil, "set `KEY=VALUE` for the command, on top of the sprite's own variables")
	cmd.Flags().StringVar(&o.escape, "escape", "~", "escape `CHAR`: at the beginning of a line, CHAR and . detach, CHAR and ? print help; none turns it off")
}

func newExecCmd(env *setup.Env) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec NAME -- CMD… | exec NAME --attach SESSION",
		Short: "Run a command in a sprite, and end with its exit code",
		Long: `Run a command in a sprite. Standard input, output and error are passed through, and so is the exit code.

Interrupts (Ctrl-C), SIGTERM and SIGHUP are sent to the command; after the third one, lattice gives up waiting for it. With
--tty, the command gets a terminal of the size and type of yours, and everything that you type goes to the command, including
Ctrl-C. At the beginning of a line, ~. detaches and leaves the command running, and ~? prints help.

--tty=auto gives the command a terminal if standard input and output are terminals here. Without --tty there is none, so that
you can process the output: standard output and standard error are then two streams. Each keeps its order, but their relative
order is not guaranteed; with a terminal or 2>&1 there is a single stream. --attach attaches to a command that is already
running; lattice sprite sessions NAME lists them.

Exit codes: that of the command; 128+n if signal n ended it, 126 or 127 if it could not be started; otherwise 2 bad usage,
3 no such sprite or session, 4 not allowed, 5 the connection was lost before the command ended, 130 gave up waiting.`,
		Example: "  lattice sprite exec box -- go test ./...\n  lattice sprite exec box -t -- bash\n  lattice sprite exec box --attach 17",
		Args: cli.Args(func(c *cobra.Command, list []string) error {
			if o.attach != "" {
				return cobra.ExactArgs(1)(c, list)
			}
			return cobra.MinimumNArgs(2)(c, list)
		}),
		RunE: func(c *cobra.Command, list []string) error {
			o.exec.Cmd = list[1:]
			return runExec(c.Context(), env, list[0], o)
		},
	}
	cmd.Flags().StringVarP(&o.tty, "tty", "t", "false", "give the command a terminal: true, false or auto")
	cmd.Flags().Lookup("tty").NoOptDefVal = "true"
	cmd.Flags().StringVar(&o.attach, "attach", "", "attach to the running `SESSION` instead of starting a command")
	o.addFlags(cmd)
	return cmd
}

// runExec runs a command, or joins one, with the process's own input, output and signals.
func runExec(ctx context.Context, env *setup.Env, name string, o execOptions) error {
	escape, err := o.escapeChar()
	if err != nil {
		return err
	}
	switch o.tty {
	case "true", "false":
		o.exec.TTY = o.tty == "true"
	case "auto":
		o.exec.TTY = cli.IsTerminal(env.In) && cli.IsTerminal(env.Out)
	default:
		return cli.UsageErrorf("--tty must be true, false or auto, not %q", o.tty)
	}
	for _, kv := range o.exec.Env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" {
			return cli.UsageErrorf("--env must be KEY=VALUE, not %q", kv)
		}
	}
	return connect.WithHost(ctx, env, func(ctx context.Context, c *sprites.Client, outlived bool) error {
		if o.attach != "" {
			if err := o.find(ctx, c, name); err != nil {
				return setup.ExplainSprite(err)
			}
		}
		return ofSprite(name, setup.ExplainSprite(o.run(ctx, env.Console, c, name, escape, outlived)))
	})
}

// ofSprite puts the sprite's name into a remedy that speaks of sprites in general.
func ofSprite(name string, err error) error {
	if p, ok := errors.AsType[*fault.Error](err); ok {
		p.Fault.Hint = strings.ReplaceAll(p.Fault.Hint, " NAME", " "+name)
	}
	return err
}

func (o *execOptions) escapeChar() (byte, error) {
	switch {
	case o.escape == "none":
		return 0, nil
	case len(o.escape) == 1 && o.escape[0] > ' ' && o.escape[0] < 0x7f:
		return o.escape[0], nil
	}
	return 0, cli.UsageErrorf("--escape must be one character or none, not %q", o.escape)
}

// find looks the session up that is to be joined: whether it has a terminal must be known before ours is changed.
func (o *execOptions) find(ctx context.Context, c *sprites.Client, name string) error {
	all, err := c.Sessions(ctx, name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(s sprites.Session) bool { return s.ID == o.attach })
	if i < 0 {
		return fault.NotFound("session_not_found", "no command runs in sprite %s as session %s", name, o.attach).WithHint("lattice sprite sessions %s", name)
	}
	o.exec.TTY = all[i].TTY
	return nil
}

// Why a person's side of a command ended before the command did.
var (
	errDetached = errors.New("detached")
	errGaveUp   = errors.New("gave up waiting")
)

// run connects the command with this process until one of them ends.
func (o execOptions) run(ctx context.Context, console *cli.Console, c *sprites.Client, name string, escape byte, outlived bool) error {
	// Signals go to the command, not to the context.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	e, session := o.exec, o.attach
	e.Stdin, e.Stdout, e.Stderr = console.In, console.Out, console.Err
	e.OnSession = func(id string) { session = id }
	if in, ok := console.In.(*os.File); ok && e.TTY && cli.IsTerminal(console.In) {
		t, err := cli.TakeOver(in, console.Err)
		if err != nil {
			return err
		}
		defer t.Restore()
		e.Rows, e.Cols, e.Resize = t.Size.Rows, t.Size.Cols, t.Resizes
		if escape != 0 {
			e.Stdin = &cli.EscapeReader{In: in, Char: escape, Help: console.Err, Detach: func() { cancel(errDetached) }}
		}
	}
	if local := console.Getenv("TERM"); e.TTY && local != "" && !slices.ContainsFunc(e.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		e.Env = append(slices.Clone(e.Env), "TERM="+local)
	}
	defer console.Deadline.Pause()()
	signals := cli.ForwardSignals(e.TTY, func() { cancel(errGaveUp) })
	defer signals.Stop()
	e.Signals = signals.Names

	var exit int
	var err error
	if o.attach != "" {
		exit, err = c.Attach(ctx, name, o.attach, e)
	} else {
		exit, err = c.Exec(ctx, name, e)
	}
	switch cause := context.Cause(ctx); {
	case err == nil && exit == 0:
		return nil
	case err == nil:
		return &cli.ExitError{Code: exit}
	case errors.Is(cause, errDetached) && outlived:
		fmt.Fprintf(console.Err, "\r\ndetached; to attach again: lattice sprite exec %s --attach %s\r\n", name, session)
		return nil
	case errors.Is(cause, errDetached):
		fmt.Fprintf(console.Err, "\r\ndetached; the command ends with this process, which hosts the sprite (lattice serve keeps it running)\r\n")
		return nil
	case errors.Is(cause, errGaveUp):
		return &cli.ExitError{Code: protocol.ExitCancelled, Err: fmt.Errorf("gave up waiting for session %s in sprite %s, which may still be running", session, name)}
	}
	return err
}
