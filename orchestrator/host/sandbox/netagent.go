package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds how long init tries to connect.
const dialTimeout = 10 * time.Second

// netTarget is where the host wants to be connected to in the box's network.
type netTarget struct {
	Network string `json:"network"`
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	// Shared says that the box has no network of its own. What listens is then only reached when a process of the box
	// holds the socket: all else on the same addresses is the host's.
	Shared bool `json:"shared,omitempty"`
}

// ErrOutside says that an address is not one of the box's own. Dial reaches nothing else, so that a connection into a box
// is no way through it.
var ErrOutside = errors.New("only the sprite's own addresses can be reached: localhost, or an address of its own")

// netCall serves the calls whose names begin with "net.": work on the box's network from inside it.
//
//	net.dial   netTarget → a connected TCP socket as descriptor, and the address it is connected to
//	net.ports  → what listens
func (s *server) netCall(ctx context.Context, name string, body json.RawMessage, _ []*os.File) (answer any, send []*os.File, err error) {
	switch name {
	case "net.dial":
		var to netTarget
		if err := json.Unmarshal(body, &to); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
		f, err := s.dial(ctx, to)
		if err != nil {
			return nil, nil, err
		}
		return nil, []*os.File{f}, nil
	case "net.ports":
		ports, err := s.ports()
		return ports, nil, err
	}
	return nil, nil, unknownCall(name)
}

// dial connects to one of the box's own addresses, the first that answers.
func (s *server) dial(ctx context.Context, to netTarget) (*os.File, error) {
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
		return nil, fmt.Errorf("connect to %.100q: %w: %w", host, ErrOutside, syscall.EACCES)
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
		return nil, fmt.Errorf("connect to %s: %w: %w", addr, ErrOutside, syscall.EACCES)
	}
	return []netip.Addr{addr}, nil
}

// heldBySprite keeps the addresses at which a process of the box listens on port.
func (s *server) heldBySprite(addrs []netip.Addr, port uint16) ([]netip.Addr, error) {
	ports, err := s.ports()
	if err != nil {
		return nil, err
	}
	held := slices.DeleteFunc(addrs, func(addr netip.Addr) bool {
		return !slices.ContainsFunc(ports, func(p Port) bool { return p.covers(addr, port) })
	})
	if len(held) == 0 {
		return nil, fmt.Errorf("connect to port %d: no process of the sprite listens there: %w", port, syscall.ECONNREFUSED)
	}
	return held, nil
}

// Port is a TCP socket that a process of the box listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"` // it is bound to; 0.0.0.0 or :: for all
	PID     int    `json:"pid"`     // of a process that holds it, as the box numbers processes
}

// covers reports whether a connection to addr and port ends at p.
func (p Port) covers(addr netip.Addr, port uint16) bool {
	bound, err := netip.ParseAddr(p.Address)
	if err != nil || p.Port != int(port) {
		return false
	}
	bound = bound.Unmap()
	return bound == addr || bound.IsUnspecified() && (bound.Is6() || addr.Is4())
}

// Dial connects to addr, "localhost:8080" say, in the box's network and returns a TCP connection; network is "tcp", "tcp4"
// or "tcp6". Names are resolved inside; what is no address of the box's own is refused (ErrOutside). In a box on the host's
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
	to := netTarget{Network: network, Host: host, Port: uint16(port), Shared: !b.cfg.Network || b.cfg.plain()}
	files, err := b.call(ctx, "net.dial", to, nil, nil)
	if err != nil {
		if errors.Is(err, syscall.EACCES) {
			err = ErrOutside
		}
		return nil, fmt.Errorf("dial %s in the sprite: %w", addr, err)
	}
	defer closeAll(files)
	if len(files) != 1 {
		return nil, fmt.Errorf("dial %s in the sprite: init handed over %d descriptors", addr, len(files))
	}
	conn, err := connection(files[0], uint16(port))
	if err != nil {
		return nil, fmt.Errorf("dial %s in the sprite: %w", addr, err)
	}
	return conn, nil
}

// connection makes a connection of what init handed over, if that is a TCP socket connected to port. Init may be in the
// hands of what runs in the box, which might hand over a file, a listener, or something that blocks for ever.
func connection(f *os.File, port uint16) (net.Conn, error) {
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

// maxPorts bounds how many sockets Ports tells of.
const maxPorts = 4096

// Ports lists what the box's processes listen on, ordered by port. A process that hides from its own user, as programs may,
// is left out.
func (b *Box) Ports(ctx context.Context) ([]Port, error) {
	var all []Port
	files, err := b.call(ctx, "net.ports", struct{}{}, nil, &all)
	closeAll(files)
	if err != nil {
		return nil, fmt.Errorf("list the sprite's ports: %w", err)
	}
	all = slices.DeleteFunc(all, func(p Port) bool {
		_, err := netip.ParseAddr(p.Address)
		return err != nil || p.Port < 1 || p.Port > 65535 || p.PID < 1
	})
	return all[:min(len(all), maxPorts)], nil
}
