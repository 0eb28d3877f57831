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
		return f, cli.UsageErrorf("%q is not [BIND:]LOCAL:[HOST:]REMOTE, such as 8080:3000", text)
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
		return 0, fmt.Errorf("%q is not a port from %d to 65535", text, least)
	}
	return n, nil
}

func newProxyCmd(env *setup.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "proxy NAME LOCAL:REMOTE…", Short: "Forward ports of this machine to a sprite",
		Long: `Forward ports of this machine to ports of a sprite, until Ctrl-C. Only this machine can connect to them; BIND:LOCAL:REMOTE
listens on another address. Local port 0 chooses a free port. The first connection wakes the sprite, which stays awake while
there are connections.

With --json, one line {"local","host","port"} for each port is printed once all of them listen.
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
					return err
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
			_, err = fmt.Fprintf(console.Err, "forwarding %s to port %d of %s\n", l.Addr(), f.port, name)
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
