package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// dialTimeout bounds how long init tries to connect.
const dialTimeout = 10 * time.Second

// netCall serves the calls whose names begin with "net.": work on the box's network from inside it.
//
//	net.dial   NetTarget → a connected TCP socket as descriptor, and the address it is connected to
//	net.ports  → the listening sockets
func (s *server) netCall(ctx context.Context, name string, body json.RawMessage, _ []*os.File) (answer any, send []*os.File, err error) {
	switch name {
	case "net.dial":
		var to channel.NetTarget
		if err := json.Unmarshal(body, &to); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
		f, err := s.dialBox(ctx, to)
		if err != nil {
			return nil, nil, err
		}
		return nil, []*os.File{f}, nil
	case "net.ports":
		ports, err := s.listPorts()
		return ports, nil, err
	}
	return nil, nil, unknownCall(name)
}

// dialBox connects to one of the box's own addresses, the first that answers.
func (s *server) dialBox(ctx context.Context, to channel.NetTarget) (*os.File, error) {
	addrs, err := ownAddresses(to.Host)
	if err != nil {
		return nil, err
	}
	if to.Shared {
		if addrs, err = s.heldBySprite(addrs, to.Port); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var failed error
	for _, addr := range addrs {
		conn, err := new(net.Dialer).DialContext(ctx, to.Network, netip.AddrPortFrom(addr, to.Port).String())
		if err != nil {
			if failed == nil || errors.Is(failed, syscall.EADDRNOTAVAIL) {
				failed = err
			}
			continue
		}
		defer conn.Close()
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return nil, fmt.Errorf("connect: a %s connection: %w", conn.RemoteAddr().Network(), syscall.EINVAL)
		}
		return tcp.File()
	}
	return nil, failed
}

// ownAddresses resolves a host name to addresses of the box, and refuses all others.
func ownAddresses(host string) ([]netip.Addr, error) {
	loopback := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if self, err := os.Hostname(); host == "localhost" || host == "" || err == nil && host == strings.ToLower(self) {
		return loopback, nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("connect to %.100q: %w: %w", host, channel.ErrOutside, syscall.EACCES)
	}
	addr = addr.Unmap().WithZone("")
	switch {
	case addr.IsUnspecified():
		return loopback, nil
	case addr.IsLoopback():
		return []netip.Addr{addr}, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the sprite's addresses: %w", err)
	}
	mine := slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap().WithZone("") == addr
	})
	if !mine {
		return nil, fmt.Errorf("connect to %s: %w: %w", addr, channel.ErrOutside, syscall.EACCES)
	}
	return []netip.Addr{addr}, nil
}

// heldBySprite keeps the addresses at which a process of the box listens on port.
func (s *server) heldBySprite(addrs []netip.Addr, port uint16) ([]netip.Addr, error) {
	ports, err := s.listPorts()
	if err != nil {
		return nil, err
	}
	held := slices.DeleteFunc(addrs, func(addr netip.Addr) bool {
		return !slices.ContainsFunc(ports, func(p channel.Port) bool { return p.Covers(addr, port) })
	})
	if len(held) == 0 {
		return nil, fmt.Errorf("connect to port %d: no process of the sprite listens there: %w", port, syscall.ECONNREFUSED)
	}
	return held, nil
}
