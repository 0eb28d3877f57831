//go:build !linux

package egress

import (
	"errors"
	"net"
	"net/netip"
)

// originalDst exists where connections can be redirected.
func originalDst(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.ErrUnsupported
}
