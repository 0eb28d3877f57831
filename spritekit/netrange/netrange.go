// Package netrange tells the addresses of machines of the public internet from those of this machine, of the networks around it,
// and of reserved ranges. [IsPrivate] decides about an address, [Covers] about a network. The gateway of a sprite and programs
// in the sprite decide with the same table. The package is pure.
package netrange

import (
	"net/netip"
	"slices"
)

// privateNets are the ranges that are not public.
func privateNets() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),        // this network; 0.0.0.0 is this machine
		netip.MustParsePrefix("10.0.0.0/8"),       // private
		netip.MustParsePrefix("100.64.0.0/10"),    // carriers' own; metadata of Alibaba Cloud
		netip.MustParsePrefix("127.0.0.0/8"),      // loopback
		netip.MustParsePrefix("168.63.129.16/32"), // Azure's own services
		netip.MustParsePrefix("169.254.0.0/16"),   // link-local; metadata of most clouds
		netip.MustParsePrefix("172.16.0.0/12"),    // private
		netip.MustParsePrefix("192.0.0.0/24"),     // protocols; metadata of Oracle Cloud
		netip.MustParsePrefix("192.0.2.0/24"),     // documentation
		netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
		netip.MustParsePrefix("192.168.0.0/16"),   // private
		netip.MustParsePrefix("198.51.100.0/24"),  // documentation
		netip.MustParsePrefix("203.0.113.0/24"),   // documentation
		netip.MustParsePrefix("224.0.0.0/4"),      // multicast
		netip.MustParsePrefix("240.0.0.0/4"),      // reserved, broadcast
		netip.MustParsePrefix("::/96"),            // unspecified, loopback, IPv4 in disguise
		netip.MustParsePrefix("::ffff:0:0:0/96"),  // IPv4 in disguise
		netip.MustParsePrefix("64:ff9b:1::/48"),   // local translation to IPv4
		netip.MustParsePrefix("100::/64"),         // discard
		netip.MustParsePrefix("2001::/23"),        // protocols, Teredo
		netip.MustParsePrefix("2001:db8::/32"),    // documentation
		netip.MustParsePrefix("3fff::/20"),        // documentation
		netip.MustParsePrefix("fc00::/7"),         // private; metadata of AWS
		netip.MustParsePrefix("fe80::/10"),        // link-local
		netip.MustParsePrefix("fec0::/10"),        // site-local
		netip.MustParsePrefix("ff00::/8"),         // multicast
	}
}

// Benchmarks is the range that is set aside for tests of network devices, so that no machine has one of its addresses. In a
// sprite, the gateway gives out these addresses for names. IsPrivate and Covers leave the range to their callers.
var Benchmarks = netip.MustParsePrefix("198.18.0.0/15")

// embeddedIPv4 returns the IPv4 address that an IPv6 address of a translator leads to.
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	raw := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6])), true
	}
	return netip.Addr{}, false
}

// Unwrap returns the address that a leads to: without zone, and the IPv4 address if a stands for one.
func Unwrap(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if a.Is6() {
		if inner, ok := embeddedIPv4(a); ok {
			return inner
		}
	}
	return a
}

// IsPrivate reports whether an address is not public: it is invalid, belongs to this machine or to a private network, or is reserved.
func IsPrivate(a netip.Addr) bool {
	a = Unwrap(a)
	return !a.IsValid() || slices.ContainsFunc(privateNets(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// Covers reports whether one of the ranges holds all of a network.
func Covers(n netip.Prefix) bool {
	return slices.ContainsFunc(privateNets(), func(p netip.Prefix) bool { return p.Bits() <= n.Bits() && p.Contains(n.Addr()) })
}
