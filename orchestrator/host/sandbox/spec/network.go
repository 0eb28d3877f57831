package spec

import (
	"fmt"
)

// A box with Config.Network has a network namespace of its own with nothing in it but the loopback interface. No packet
// leaves it. Every IPv4 address is made local there, and outgoing traffic is led to two sockets that init opens and
// hands to the host: their holder decides about each connection, and the address that the command meant is
// told by the kernel (SO_ORIGINAL_DST), not by the command. Commands cannot change any of it, because they have no power
// over the namespace.

// Addresses of the box's network.
const (
	// ResolverIP is the name server that programs in the box are told to ask. Any other address is led to the same one.
	ResolverIP = "198.18.0.1"
	// OwnIP is the address that connections of the box come from.
	OwnIP = "198.18.0.2"
	// ProxyPort is where in the box the host's proxy listens when connections cannot be redirected.
	ProxyPort = 3128
)

// Files about names in a box with a network of its own.
const (
	resolvConf   = "nameserver " + ResolverIP + "\noptions timeout:1 attempts:2\n"
	nsswitchConf = "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
	hostsFile    = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.0.1 %s\n"
)

// NetworkFiles are the files below /etc that go with a network of its own.
func NetworkFiles(hostname string) map[string]string {
	return map[string]string{
		"etc/resolv.conf":   resolvConf,
		"etc/nsswitch.conf": nsswitchConf,
		"etc/hosts":         fmt.Sprintf(hostsFile, hostname),
	}
}
