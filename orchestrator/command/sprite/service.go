package sprite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newSpriteServiceCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "service", Aliases: []string{"services"}, Short: "Have programs run in a sprite whenever it does",
		Long: `Have programs run in a sprite whenever it does: servers, databases, agents. A service is started with the sprite, after
the services that it needs, and again when it ends by itself, after a pause that grows with each failure. One that is
stopped stays stopped. Services come back after a restore; what was started by hand does not. They do not keep a sprite
awake. Their output is in /.sprite/logs/services, as the sprite sees it.
` + cli.ExitCodes,
		Example: "  lattice sprite service create box web --http-port 3000 -- python3 -m http.server 3000\n  lattice sprite service ls box\n  lattice sprite service logs box web -f"})
	cmd.AddCommand(newServiceLsCmd(env), newServiceCreateCmd(env), newServiceRunCmd(env, "start", "Start a service, with all that it needs", (*sprites.Client).StartService),
		newServiceRunCmd(env, "restart", "Stop a service and start it", (*sprites.Client).RestartService), newServiceStopCmd(env), newServiceLogsCmd(env), newServiceSignalCmd(env),
		connect.NewSpriteCmd(env, "rm NAME SERVICE", "Stop a service and forget it; its log stays", "  lattice sprite service rm box web", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
			return c.DeleteService(ctx, list[0], list[1])
		}))
	for _, sub := range cmd.Commands() {
		sub.ValidArgsFunction = completeServices(env)
	}
	return cmd
}

func newServiceLsCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "ls NAME", "List a sprite's services", "  lattice sprite service ls box --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		all, err := c.Services(ctx, list[0])
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(append([]sprites.Service{}, all...))
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SERVICE\tSTATUS\tPID\tRESTARTS\tHTTP\tNEEDS\tCOMMAND")
		for _, s := range all {
			state := sprites.ServiceState{}
			if s.State != nil {
				state = *s.State
			}
			status := cli.Clean(state.Status)
			if state.Error != "" {
				status += " (" + cli.Clean(state.Error) + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", cli.Clean(s.Name), status, orDash(state.PID), state.RestartCount, orDash(s.HTTPPort), cli.Clean(strings.Join(s.Needs, ",")),
				cli.Clean(strings.Join(append([]string{s.Cmd}, s.Args...), " ")))
		}
		return w.Flush()
	})
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func newServiceCreateCmd(env *setup.Env) *cobra.Command {
	var s sprites.Service
	var vars []string
	var follow time.Duration
	cmd := &cobra.Command{
		Use: "create NAME SERVICE -- CMD…", Short: "Define a service, or change it, and start it",
		Long: `Define a service, or change it, and start it. What it says in its first seconds is shown; when it ends within them, the
exit code is 1. It is tried again all the same, until lattice sprite service stop.
` + cli.ExitCodes,
		Example: "  lattice sprite service create box db -- postgres -D /home/sprite/data\n  lattice sprite service create box web --needs db --http-port 3000 -- npm start",
		Args:    cli.Args(cobra.MinimumNArgs(3)),
		RunE: func(c *cobra.Command, list []string) error {
			s.Name, s.Cmd, s.Args = list[1], list[2], list[3:]
			s.Env = map[string]string{}
			for _, kv := range vars {
				key, value, ok := strings.Cut(kv, "=")
				if !ok || key == "" {
					return cli.UsageErrorf("--env is KEY=VALUE, not %q", kv)
				}
				s.Env[key] = value
			}
			return connect.WithHost(c.Context(), env, func(ctx context.Context, client *sprites.Client, outlived bool) error {
				w := serviceWatch{console: env.Console, service: s.Name}
				err := w.end(client.PutService(ctx, list[0], s, w.call(follow)))
				if err == nil && !outlived {
					connect.WarnOfEnding(env.Console)
				}
				return setup.ExplainSprite(err)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.HTTPPort, "http-port", 0, "`PORT` on which it serves the sprite's URL; of one service of a sprite")
	f.StringSliceVar(&s.Needs, "needs", nil, "`SERVICES` that must run before it, by commas")
	f.StringArrayVar(&vars, "env", nil, "set `KEY=VALUE` for it, on top of the sprite's own variables")
	f.StringVar(&s.Dir, "dir", "", "working directory in the sprite (default /home/sprite)")
	addFollowFlag(cmd, &follow)
	return cmd
}

func addFollowFlag(cmd *cobra.Command, follow *time.Duration) {
	cmd.Flags().DurationVar(follow, "duration", 3*time.Second, "for how long to show what it says")
}

func newServiceRunCmd(env *setup.Env, verb, short string, do func(*sprites.Client, context.Context, string, string, sprites.ServiceCall) error) *cobra.Command {
	var follow time.Duration
	cmd := connect.MarkLasting(connect.NewSpriteCmd(env, verb+" NAME SERVICE", short, "  lattice sprite service "+verb+" box web", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
		w := serviceWatch{console: env.Console, service: list[1]}
		return w.end(do(c, ctx, list[0], list[1], w.call(follow)))
	}))
	addFollowFlag(cmd, &follow)
	return cmd
}

func newServiceStopCmd(env *setup.Env) *cobra.Command {
	var timeout time.Duration
	cmd := connect.NewSpriteCmd(env, "stop NAME SERVICE", "Stop a service until it is started by request", "  lattice sprite service stop box web --timeout 30s", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
		w := serviceWatch{console: env.Console, service: list[1], ends: true}
		return w.end(c.StopService(ctx, list[0], list[1], timeout, w.call(0)))
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long it may take to end by itself before it is killed")
	return cmd
}

func newServiceSignalCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "signal NAME SERVICE SIGNAL", "Send a signal to a service and all processes of its group", "  lattice sprite service signal box web HUP", 3, func(ctx context.Context, c *sprites.Client, list []string) error {
		return c.SignalService(ctx, list[0], list[1], list[2])
	})
}

// forEver is how long is asked for at a time where somebody follows until he ends it himself.
const forEver = 24 * time.Hour

func newServiceLogsCmd(env *setup.Env) *cobra.Command {
	var lines int
	var follow bool
	cmd := connect.NewSpriteCmd(env, "logs NAME SERVICE", "Show what a service said last", "  lattice sprite service logs box web -n 20 -f", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
		w := serviceWatch{console: env.Console, service: list[1], ends: true}
		if !follow {
			return c.ServiceLogs(ctx, list[0], list[1], lines, w.call(0))
		}
		for {
			err := c.ServiceLogs(ctx, list[0], list[1], lines, w.call(forEver))
			if ctx.Err() != nil {
				return nil // as asked
			}
			if err != nil {
				return err
			}
			lines = 0
		}
	})
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it says from then on, until Ctrl-C")
	return cmd
}

// serviceWatch shows the events of a service: its output as it is, all else on standard error, or everything as JSON.
type serviceWatch struct {
	console *cli.Console
	service string
	ends    bool // it is to end
	failed  string
}

func (w *serviceWatch) call(length time.Duration) sprites.ServiceCall {
	return sprites.ServiceCall{Duration: length, OnEvent: w.event}
}

func (w *serviceWatch) event(e sprites.ServiceEvent) error {
	switch {
	case e.Type == "started":
		w.failed = ""
	case e.Type == "error":
		w.failed = cli.Clean(e.Data)
	case e.Type == "exit" && e.ExitCode != nil:
		w.failed = fmt.Sprintf("it ended with exit code %d", *e.ExitCode)
	case e.Type == "stopping": // its end is no failure
		return w.show(e)
	case e.Type == "stopped":
		w.failed = ""
	}
	return w.show(e)
}

func (w *serviceWatch) show(e sprites.ServiceEvent) error {
	if w.console.JSON {
		return w.console.PrintJSON(e)
	}
	data := e.Data
	if data != "" && !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	var err error
	switch e.Type {
	case "stdout":
		_, err = fmt.Fprint(cli.SanitizeTerminal(w.console.Out), data)
	case "stderr":
		_, err = fmt.Fprint(cli.SanitizeTerminal(w.console.Err), data)
	case "exit":
		if e.ExitCode != nil {
			_, err = fmt.Fprintf(w.console.Err, "%s: exit code %d\n", w.service, *e.ExitCode)
		}
	case "complete":
	default:
		_, err = fmt.Fprintf(w.console.Err, "%s: %s\n", w.service, strings.TrimSpace(e.Type+" "+cli.Clean(e.Data)))
	}
	return err
}

// end is what the call came to: an error, or a service that has not stayed.
func (w *serviceWatch) end(err error) error {
	if err == nil && w.failed != "" && !w.ends {
		return &cli.ExitError{Code: protocol.ExitFailed, Err: errors.New("service " + w.service + " does not run: " + w.failed)}
	}
	return err
}

// completeServices offers sprites, then the services of one.
func completeServices(env *setup.Env) cobra.CompletionFunc {
	names := complete.Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(list) == 0:
			return names(c, list, word)
		case len(list) > 1 || c.Name() == "ls":
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.Services(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, s := range all {
			found = append(found, complete.Describe(s.Name, s.Cmd))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
