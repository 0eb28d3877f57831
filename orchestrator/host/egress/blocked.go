package egress

import (
	"net/netip"
	"slices"
)

// synthetic is the network that addresses for names are given out of. It is set aside for tests of network devices, so
// that no machine has one of its addresses.
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

// blockedNets are networks that no sprite reaches, no matter what a rule or a name server says: they belong to this machine or
// to the network around it, or are reserved.
func blockedNets() []netip.Prefix {
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
		synthetic,                                 // ours, inside
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

// isBlocked reports whether an address is one that no sprite reaches.
func isBlocked(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if !a.IsValid() {
		return true
	}
	if a.Is6() {
		if inner, ok := embeddedIPv4(a); ok {
			return isBlocked(inner)
		}
	}
	return slices.ContainsFunc(blockedNets(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// blockedNet reports whether all of a network is.
func blockedNet(n netip.Prefix) bool {
	return slices.ContainsFunc(blockedNets(), func(p netip.Prefix) bool { return p.Bits() <= n.Bits() && p.Contains(n.Addr()) })
}
