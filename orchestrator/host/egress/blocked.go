package egress

import (
	"net/netip"

	"github.com/spritekit/lattice/spritekit/netrange"
)

// synthetic is the network that addresses for names are given out of.
var synthetic = netrange.Benchmarks

// isBlocked reports whether an address is one that no sprite reaches, no matter what a rule or a name server says.
func isBlocked(a netip.Addr) bool {
	return netrange.IsPrivate(a) || synthetic.Contains(netrange.Unwrap(a))
}

// blockedNet reports whether all of a network is.
func blockedNet(n netip.Prefix) bool {
	return netrange.Covers(n) || synthetic.Bits() <= n.Bits() && synthetic.Contains(n.Addr())
}
