package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/mcp"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/web"
	"github.com/spritekit/lattice/spritekit/fault"
)

type serveOptions struct {
	connect.Options
	idle        time.Duration
	log, resume string
	stop        bool
}

func newServeCmd(env *setup.Env) *cobra.Command {
	o := serveOptions{Options: connect.Options{Serve: true}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the leader in the foreground, and resume interrupted runs",
		Long: `Lead the state directory until Ctrl-C: resume every interrupted run, and drive the runs that other commands start or answer.
The command prints one JSON line to standard output as soon as it leads, and logs JSON to standard error.

If another process is the leader already, the command says so and ends with 6. A leader of another version or build is asked
to hand over: it finishes the current steps of its runs, and this process continues them. lattice run --detach starts this
command in the background, where it ends after it has been idle for a while. --stop ends it at once; lattice resume
continues its runs.

--http also serves a page for browsers at a TCP address, which lattice open opens, and to callers with tokens (lattice help token)
the interface, /api/v1, which /api/v1/openapi.json describes, the tools of lattice mcp at /mcp and, in the text format of
Prometheus, /metrics. /healthz and /readyz need no token. An address that other machines reach needs a certificate.

With --standby, several nodes share one database, each with a state directory of its own. One leads; the others wait, forward what
comes to their address, and answer /readyz with 503. When the leader ends or is cut off, another one takes over within ten seconds and
resumes its runs. A node that is cut off stops before that, and stands by again.
` + cli.ExitCodes,
		Example: "  lattice serve\n  lattice serve --idle 10m --log serve.log\n  lattice serve --stop\n  lattice serve --http 127.0.0.1:8080\n  lattice serve --standby --http 10.0.0.1:8080 --tls-cert node.pem --tls-key node.key",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.resume != "all" && o.resume != "none" {
				return cli.UsageErrorf("--resume must be all or none, not %q", o.resume)
			}
			if o.HTTPRequired = cmd.Flags().Changed("http"); !o.HTTPRequired {
				o.HTTP = env.Settings.Serve.HTTP
			}
			if err := errors.Join(checkStandby(env, o), checkWeb(o.Options)); err != nil {
				return err
			}
			if o.stop {
				return stopServing(cmd.Context(), env)
			}
			return runServe(cmd.Context(), env, o)
		},
	}
	equip.AddSpritekitFlag(cmd, &o.Spritekit, "a sprite")
	o.Network.AddFlags(cmd, "sprites reach if no flag says otherwise")
	f := cmd.Flags()
	f.DurationVar(&o.idle, "idle", 0, "end after this long without runs and requests (default: never)")
	f.StringVar(&o.HTTP, "http", "", "also serve the page and /api/v1 at `ADDRESS`, such as 127.0.0.1:8080 (default: http of [serve] in the settings)")
	f.StringVar(&o.TLSCert, "tls-cert", "", "encrypt what --http serves, with the certificates in `FILE`, in PEM")
	f.StringVar(&o.TLSKey, "tls-key", "", "the private key of --tls-cert, a `FILE` in PEM")
	f.BoolVar(&o.Anywhere, "http-anywhere", false, "let --http be an address that other machines reach; nothing is encrypted")
	f.BoolVar(&o.Standby, "standby", false, "be one of several nodes on a database: wait while another one leads")
	f.StringVar(&o.URL, "url", "", "with --standby: the `URL` at which the other nodes reach this one (default: that of --http)")
	f.StringVar(&o.log, "log", "", "log to `FILE` instead of standard error; its size is limited")
	f.StringVar(&o.resume, "resume", "all", "which interrupted runs to resume: all or none")
	f.BoolVar(&o.stop, "stop", false, "end the lattice serve that is the leader; its runs can be resumed")
	_ = cmd.RegisterFlagCompletionFunc("resume", cobra.FixedCompletions([]string{"all", "none"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// checkWeb checks the options about the address that is served.
func checkWeb(o connect.Options) error {
	switch {
	case o.Anywhere && o.HTTP == "":
		return cli.UsageErrorf("--http-anywhere needs --http")
	case o.TLSCert != "" && o.HTTP == "":
		return cli.UsageErrorf("--tls-cert needs --http")
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return cli.UsageErrorf("--tls-cert and --tls-key belong together")
	case o.HTTP == "":
		return nil
	}
	return web.CheckAddress(o.HTTP, o.TLSCert != "", o.Anywhere)
}

// checkStandby checks the options of one node of several.
func checkStandby(env *setup.Env, o serveOptions) error {
	host, _, _ := net.SplitHostPort(o.HTTP)
	ip := net.ParseIP(host)
	switch {
	case !o.Standby && o.URL != "":
		return cli.UsageErrorf("--url needs --standby")
	case !o.Standby:
		return nil
	case o.stop || o.idle > 0:
		return cli.UsageErrorf("--standby does not go together with --stop and --idle")
	case o.HTTP == "":
		return cli.UsageErrorf("--standby needs --http, at which the other nodes reach this one")
	case o.URL == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		return cli.UsageErrorf("--standby at %s needs --url: other nodes do not know which address that is", o.HTTP)
	}
	return connect.CheckStandby(env)
}

// runNode leads and stands by in turn, until ctx ends.
func runNode(ctx context.Context, env *setup.Env, o serveOptions) error {
	for {
		err := connect.StandBy(ctx, env, &o.Options)
		if err == nil {
			err = lead(ctx, env, o)
		}
		switch p := fault.As(err); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, connect.ErrLost), p != nil && p.Code == "store_locked": // another node was first
			fmt.Fprintf(env.Err, "lattice: %v\n", err)
		default:
			return err
		}
	}
}

func runServe(ctx context.Context, env *setup.Env, o serveOptions) error {
	var out io.Writer = env.Err
	if o.log != "" {
		file := &connect.LogFile{Path: o.log, Max: connect.MaxServeLog}
		defer file.Close()
		out = file
	}
	to := env.LogWriter(out)
	defer to.Flush()
	env.Log = zerolog.New(to).Level(env.LogLevel(zerolog.InfoLevel)).With().Timestamp().Logger()
	o.MCP = func(dial func(context.Context) (net.Conn, error)) http.Handler { return mcp.NewHandler(env, dial) }
	if o.Standby {
		return runNode(ctx, env, o)
	}
	return lead(ctx, env, o)
}

// lead leads until ctx ends or the lead does.
func lead(ctx context.Context, env *setup.Env, o serveOptions) error {
	c, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Leading == nil {
		hello, err := c.Hello(ctx)
		if err != nil {
			return err
		}
		hint := "wait until the leading command has ended"
		if hello.Serving {
			hint = "end it with: lattice serve --stop"
		}
		return fault.Busy("led", "process %d is already the leader of %s", hello.PID, hello.Home).WithHint("%s", hint)
	}
	if o.resume == "all" {
		if err := resumeRuns(ctx, c); err != nil {
			fmt.Fprintf(env.Err, "lattice: %v\n", err)
		}
	}
	hello := c.Leading.Hello()
	env.Log.Info().Str("version", hello.Version).Int("pid", hello.PID).Str("home", hello.Home).Str("sandbox", hello.Sandbox).Msg("leads")
	line := map[string]any{"socket": c.Socket, "pid": hello.PID, "isolation": hello.Isolation, "sandbox": hello.Sandbox}
	if hello.HTTP != "" {
		line["http"] = hello.HTTP
	}
	if err := env.PrintJSON(line); err != nil {
		return err
	}
	if hello.HTTP != "" {
		fmt.Fprintf(env.Err, "the page is at %s; to log in: lattice open\n", hello.HTTP)
	}
	if o.idle > 0 {
		if err := c.Leading.Retire(ctx, o.idle); err == nil {
			env.Log.Info().Msg("ends: nothing to do, or handed over")
			return nil
		}
	}
	select {
	case <-ctx.Done():
		env.Log.Info().Msg("ends: told to")
	case <-c.Leading.Ended: // after a hand-over, or because its socket failed
		return c.Leading.Err
	}
	return nil
}

// resumeRuns goes on with every interrupted run and every run that waits for a time, and names those that it cannot go on with.
func resumeRuns(ctx context.Context, c *connect.Conn) error {
	runs, err := c.Runs(ctx, api.RunList{Open: true})
	if err != nil {
		return err
	}
	var failed error
	for _, r := range runs {
		timed := r.Status == lattice.Waiting && r.Doing == string(lattice.DoTimer)
		if r.Status == lattice.Running || r.Status == lattice.Pending || timed {
			values, err := c.Env.Values().Require(r)
			if err == nil {
				_, err = c.Drive(ctx, r.RunID, api.DriveRequest{Values: values})
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("go on with %s: %w", r.RunID, err))
			}
		}
	}
	return failed
}

// stopServing ends the lattice serve that leads, and waits until it does not lead any more.
func stopServing(ctx context.Context, env *setup.Env) error {
	home := home.Home(env.Home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	hello, err := client.Hello(ctx)
	if err != nil {
		if env.JSON {
			return env.PrintJSON(map[string]any{"stopped": false})
		}
		_, err := fmt.Fprintln(env.Err, "no process leads", env.Home)
		return err
	}
	if !hello.Serving {
		return fault.Busy("not_serving", "process %d is the leader only while its own command runs", hello.PID).WithHint("end that command")
	}
	handed, err := client.HandOver(ctx, api.HandoverRequest{API: env.API, Version: env.Version, PID: os.Getpid(), WaitS: 1})
	if err != nil && !errors.Is(err, api.ErrGone) {
		// It does not come to rest: interrupt it, like Ctrl-C.
		process, err := os.FindProcess(hello.PID)
		if err != nil {
			return fmt.Errorf("find process %d: %w", hello.PID, err)
		}
		if err := process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("end process %d: %w", hello.PID, err)
		}
	}
	if err := home.Left(ctx); err != nil {
		return err
	}
	if env.JSON {
		runs := []string{}
		for _, r := range handed.Runs {
			runs = append(runs, r.RunID)
		}
		return env.PrintJSON(map[string]any{"stopped": true, "pid": hello.PID, "resumable": runs})
	}
	for _, r := range handed.Runs {
		fmt.Fprintf(env.Err, "to continue %s: lattice resume %s\n", r.RunID, r.RunID)
	}
	_, err = fmt.Fprintf(env.Err, "process %d is no longer the leader of %s\n", hello.PID, env.Home)
	return err
}
