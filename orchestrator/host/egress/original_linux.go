package egress

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// originalDst is where a redirected connection was meant to go, as the kernel remembers.
func originalDst(conn *net.TCPConn) (dst netip.AddrPort, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return dst, fmt.Errorf("find the target of a connection: %w", err)
	}
	var asked error
	err = raw.Control(func(fd uintptr) {
		// A sockaddr_in comes back; of all calls that give this many bytes, this is the one that there is.
		m, err := unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
		if err != nil {
			asked = fmt.Errorf("find the target of a connection: %w", err)
			return
		}
		dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Multiaddr[4:8])), binary.BigEndian.Uint16(m.Multiaddr[2:4]))
	})
	if err == nil {
		err = asked
	}
	return dst, err
}
