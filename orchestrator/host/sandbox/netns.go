package sandbox

import (
	"fmt"
	"net"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// Network is the host's end of a box's network. It belongs to the box's user, who closes it with Close.
type Network struct {
	// TCP accepts every connection that is to leave the box. Without Redirected it accepts those that programs make to
	// 127.0.0.1:ProxyPort, as to a proxy.
	TCP *net.TCPListener
	// DNS gets the packets that programs send to port 53 of any address except those of the box's loopback interface; nil without
	// Redirected.
	DNS *net.UDPConn
	// Redirected says that no program needs to know of TCP, and that SO_ORIGINAL_DST tells the original destination.
	Redirected bool
	// Why says why connections are not redirected.
	Why string
}

// Close closes both sockets. Connections that were accepted go on.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	err := n.TCP.Close()
	if n.DNS != nil {
		if e := n.DNS.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Network gives the box's sockets, nil for a box on the host's network. They outlive the box until they are closed.
func (b *Box) Network() *Network { return b.network }

// takeNetwork makes sockets of descriptors from init.
func takeNetwork(r channel.Reply, files []*os.File) (*Network, error) {
	defer channel.CloseAll(files)
	n := &Network{Redirected: r.Error == "", Why: r.Error}
	want := 1
	if n.Redirected {
		want = 2
	}
	if len(files) != want {
		return nil, fmt.Errorf("take over the box's network: got %d sockets, want %d", len(files), want)
	}
	listener, err := net.FileListener(files[0])
	if err != nil {
		return nil, fmt.Errorf("take over the box's network: %w", err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		listener.Close()
		return nil, fmt.Errorf("take over the box's network: a %s listener", listener.Addr().Network())
	}
	n.TCP = tcp
	if !n.Redirected {
		return n, nil
	}
	packets, err := net.FilePacketConn(files[1])
	if err != nil {
		tcp.Close()
		return nil, fmt.Errorf("take over the box's network: %w", err)
	}
	if n.DNS, ok = packets.(*net.UDPConn); !ok {
		tcp.Close()
		packets.Close()
		return nil, fmt.Errorf("take over the box's network: a %s socket", packets.LocalAddr().Network())
	}
	return n, nil
}
