package sprite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/patient"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// forward is one local address that leads to a port of a sprite.
type forward struct {
	local string // address to listen on
	host  string // in the sprite
	port  int
}

// parseForward reads [BIND:]LOCAL:REMOTE or [BIND:]LOCAL:HOST:REMOTE, or one port for both. Without BIND it is this machine
// alone that reaches it.
func parseForward(text string) (forward, error) {
	parts := strings.Split(text, ":")
	f := forward{host: "localhost"}
	bind := "127.0.0.1"
	switch len(parts) {
	case 1:
		parts = []string{text, text}
	case 2:
	case 3:
		if _, err := portOf(parts[0], 0); err == nil {
			f.host, parts = parts[1], []string{parts[0], parts[2]}
		} else {
			bind, parts = parts[0], parts[1:]
		}
	case 4:
		bind, f.host, parts = parts[0], parts[2], []string{parts[1], parts[3]}
	default:
		return f, cli.UsageErrorf("%q is no [BIND:]LOCAL:[HOST:]REMOTE such as 8080:3000", text)
	}
	local, err := portOf(parts[0], 0)
	if err == nil {
		f.port, err = portOf(parts[1], 1)
	}
	if err != nil {
		return f, cli.UsageErrorf("%q: %w", text, err)
	}
	f.local = net.JoinHostPort(bind, strconv.Itoa(local))
	return f, nil
}

func portOf(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > 65535 {
		return 0, fmt.Errorf("%q is no port from %d to 65535", text, least)
	}
	return n, nil
}

func newSpriteProxyCmd(env *setup.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "proxy NAME LOCAL:REMOTE…", Short: "Have ports of this machine lead to ports of a sprite",
		Long: `Have ports of this machine lead to ports of a sprite, until Ctrl-C. Only this machine reaches them; BIND:LOCAL:REMOTE
listens on another address. Local port 0 takes a free one. The sprite is woken by the first connection, and stays awake as
long as there are any.

With --json a line {"local","host","port"} says of each where it listens, when all do.
` + cli.ExitCodes,
		Example: "  lattice sprite proxy box 5432 8080:3000\n  lattice sprite proxy box 0:8080 --json",
		Args:    cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			var forwards []forward
			for _, text := range list[1:] {
				f, err := parseForward(text)
				if err != nil {
					return err
				}
				forwards = append(forwards, f)
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				if _, err := client.Get(ctx, list[0]); err != nil {
					return setup.ExplainSprite(err)
				}
				return forwardPorts(ctx, env.Console, client, list[0], forwards)
			})
		},
	}
	return cmd
}

// forwardPorts listens on all addresses, says so, and serves them until ctx ends.
func forwardPorts(ctx context.Context, console *cli.Console, c *sprites.Client, name string, forwards []forward) (err error) {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, f := range forwards {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.local)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fault.Busy("port_taken", "another program listens on %s", f.local).WithHint("choose another local port, or 0 for a free one")
		}
		if err != nil {
			return fmt.Errorf("listen on %s: %w", f.local, err)
		}
		listeners = append(listeners, l)
	}
	for i, l := range listeners {
		f := forwards[i]
		if console.JSON {
			err = console.PrintJSON(map[string]any{"local": l.Addr().String(), "host": f.host, "port": f.port})
		} else {
			_, err = fmt.Fprintf(console.Err, "%s leads to port %d of %s\n", l.Addr(), f.port, name)
		}
		if err != nil {
			return err
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	for i, l := range listeners {
		all.Go(func() error { return serveForward(ctx, console, c, name, forwards[i], l) })
	}
	if err := all.Wait(); ctx.Err() == nil || !errors.Is(err, net.ErrClosed) && err != nil {
		return err
	}
	return nil
}

// serveForward hands each connection on, until ctx ends. A connection that fails is told of; the others go on.
func serveForward(ctx context.Context, console *cli.Console, c *sprites.Client, name string, f forward, l net.Listener) error {
	l = patient.Listener(l)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil // as asked
			}
			return fmt.Errorf("accept on %s: %w", f.local, err)
		}
		conns.Go(func() {
			defer conn.Close()
			remote, err := c.Dial(ctx, name, f.host, f.port)
			if err != nil {
				if ctx.Err() == nil {
					fmt.Fprintf(console.Err, "lattice: %v\n", err)
				}
				return
			}
			join(ctx, conn, remote)
		})
	}
}

// join copies both ways, and passes the end of each direction on, until both have ended, one has failed, or ctx ends.
func join(ctx context.Context, a, b net.Conn) {
	closeBoth := sync.OnceFunc(func() { a.Close(); b.Close() })
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()
	var both sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			closeBoth()
		}
	}
	both.Go(func() { oneWay(a, b) })
	both.Go(func() { oneWay(b, a) })
	both.Wait()
}

func newSpritePortsCmd(env *setup.Env) *cobra.Command {
	var follow bool
	cmd := connect.NewSpriteCmd(env, "ports NAME", "List the ports on which programs in a sprite listen", "  lattice sprite ports box\n  lattice sprite ports box -f --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if !follow {
			all, err := c.Ports(ctx, list[0])
			if err != nil {
				return err
			}
			return printPorts(env.Console, all)
		}
		show := func(e sprites.PortEvent) error {
			if env.JSON {
				return env.PrintJSON(e)
			}
			_, err := fmt.Fprintf(env.Out, "%s\t%s\tprocess %d\n", strings.TrimPrefix(cli.Clean(e.Type), "port_"), net.JoinHostPort(cli.Clean(e.Address), strconv.Itoa(e.Port)), e.PID)
			return err
		}
		err := c.WatchPorts(ctx, list[0], func(all []sprites.PortEvent) error {
			for _, e := range all {
				e.Type = "port_opened"
				if err := show(e); err != nil {
					return err
				}
			}
			return nil
		}, show)
		if ctx.Err() != nil {
			return nil // as asked
		}
		return err
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each port that is opened or closed, until Ctrl-C")
	return cmd
}

func printPorts(console *cli.Console, all []sprites.PortEvent) error {
	if console.JSON {
		return console.PrintJSON(append([]sprites.PortEvent{}, all...))
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PORT\tADDRESS\tPROCESS")
	for _, p := range all {
		fmt.Fprintf(w, "%d\t%s\t%d\n", p.Port, cli.Clean(p.Address), p.PID)
	}
	return w.Flush()
}

func newSpriteURLCmd(env *setup.Env) *cobra.Command {
	var open string
	var login, address bool
	cmd := connect.MarkLasting(connect.NewSpriteCmd(env, "url NAME", "Print the URL of what a sprite serves", "  curl \"$(lattice sprite url box --open public)\"\n  xdg-open \"$(lattice sprite url box --login)\"\n  wget -qO- \"$(lattice sprite url box --address --open public)\"", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		switch open {
		case "", "sprite", "public":
		default:
			return cli.UsageErrorf("--open is public or sprite, not %q", open)
		}
		return showURL(ctx, env.Console, c, list[0], open, login, address)
	}))
	cmd.Long = `Print the URL of what a sprite serves: its service with an HTTP port, else what listens on its port 8080. A request wakes
the sprite and starts its services.

Of the embedded host it is http://NAME.localhost:PORT/, which browsers and curl find without any name server. Programs that
ask the C library find it where nss-myhostname is installed (lattice doctor looks); --address prints an address that all
programs understand, such as http://127.93.4.17:PORT/, which the sprite keeps. Both work as long as a lattice leads, such as
lattice serve. It asks for a token, as Authorization: Bearer, unless --open public has
opened it to everybody on this machine. --login prints an address that signs a browser in, once, within five minutes.
--json has all of them.
` + cli.ExitCodes
	cmd.Flags().StringVar(&open, "open", "", "`WHOM` to open it to from now on: public, or sprite for those with a token")
	cmd.Flags().BoolVar(&login, "login", false, "print an address that signs a browser in")
	cmd.Flags().BoolVar(&address, "address", false, "print the URL with an address of the sprite's own, for programs that do not know NAME.localhost")
	_ = cmd.RegisterFlagCompletionFunc("open", cobra.FixedCompletions([]string{"public", "sprite"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func showURL(ctx context.Context, console *cli.Console, c *sprites.Client, name, open string, login, address bool) error {
	if open != "" {
		if _, err := c.SetURLAuth(ctx, name, open); err != nil {
			return err
		}
	}
	s, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	if s.URL == "" {
		return fault.Unsupported("no_url", "this host serves no URLs of sprites").WithHint("lattice sprite proxy %s 8080", name)
	}
	access := sprites.URLAccess{URL: s.URL, Auth: "sprite"}
	if s.URLSettings != nil && s.URLSettings.Auth != "" {
		access.Auth = s.URLSettings.Auth
	}
	if address || !c.Remote() && (login || console.JSON) {
		if access, err = c.InviteURL(ctx, name, address); err != nil {
			var refused *sprites.APIError
			known := errors.As(err, &refused)
			switch {
			case known && address && (refused.Status == 404 || refused.Status == 405):
				return fault.Unsupported("no_address", "this host gives sprites no addresses of their own").WithHint("lattice sprite url %s", name)
			case known && !address && (refused.Status == 404 || refused.Status == 501):
				return fault.Unsupported("no_login", "this host signs nobody in").WithHint("send its token as Authorization: Bearer")
			}
			return err
		}
	}
	switch {
	case console.JSON:
		return console.PrintJSON(access)
	case login && access.Login == "":
		return fault.Unsupported("no_login", "remote sprites take the token of the API").WithHint(`curl -H "Authorization: Bearer $SPRITES_TOKEN" %s`, s.URL)
	case login:
		_, err = fmt.Fprintln(console.Out, access.Login)
	default:
		_, err = fmt.Fprintln(console.Out, access.URL)
	}
	return err
}
