package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// Dial connects to addr, "localhost:8080" say, in the box's network and returns a TCP connection; network is "tcp", "tcp4"
// or "tcp6". Names are resolved inside; addresses other than the box's own are refused (ErrOutside). In a box on the host's
// network only sockets of its own processes are reached. A port on which nothing listens is syscall.ECONNREFUSED.
func (b *Box) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial into the sprite: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("dial into the sprite: port %q is not between 1 and 65535", text)
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, fmt.Errorf("dial into the sprite: %w", net.UnknownNetworkError(network))
	}
	to := channel.NetTarget{Network: network, Host: host, Port: uint16(port), Shared: !b.cfg.Network || b.cfg.Plain()}
	files, err := b.callInit(ctx, "net.dial", to, nil, nil)
	if err != nil {
		if errors.Is(err, syscall.EACCES) {
			err = channel.ErrOutside
		}
		return nil, fmt.Errorf("dial %s in the sprite: %w", addr, err)
	}
	defer channel.CloseAll(files)
	if len(files) != 1 {
		return nil, fmt.Errorf("dial %s in the sprite: init handed over %d descriptors", addr, len(files))
	}
	conn, err := makeConnection(files[0], uint16(port))
	if err != nil {
		return nil, fmt.Errorf("dial %s in the sprite: %w", addr, err)
	}
	return conn, nil
}

// makeConnection makes a connection of a descriptor from init, if that is a TCP socket connected to port. Init may be in the
// hands of a program in the box, which might hand over a file, a listener, or something that blocks for ever.
func makeConnection(f *os.File, port uint16) (net.Conn, error) {
	if err := checkSocket(f); err != nil {
		return nil, fmt.Errorf("init handed over no TCP connection: %w", err)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	peer, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || peer.Port != int(port) {
		conn.Close()
		return nil, fmt.Errorf("init handed over a connection to %v", conn.RemoteAddr())
	}
	return conn, nil
}

// Ports lists the open ports of the box's processes, ordered by port. A process that hides from its own user, as programs may,
// is left out.
func (b *Box) Ports(ctx context.Context) ([]channel.Port, error) {
	var all []channel.Port
	files, err := b.callInit(ctx, "net.ports", struct{}{}, nil, &all)
	channel.CloseAll(files)
	if err != nil {
		return nil, fmt.Errorf("list the sprite's ports: %w", err)
	}
	all = slices.DeleteFunc(all, func(p channel.Port) bool {
		_, err := netip.ParseAddr(p.Address)
		return err != nil || p.Port < 1 || p.Port > 65535 || p.PID < 1
	})
	return all[:min(len(all), channel.MaxPorts)], nil
}
