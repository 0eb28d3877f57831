package egress

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// TestGatewayBlocksAddresses: an address that belongs to this machine, to the network around it or to a metadata service
// is refused at the gateway even by a policy that allows every address.
func TestGatewayBlocksAddresses(t *testing.T) {
	g := New(Config{Now: time.Now}, compile(t)) // no rules: everything public
	for addr, want := range map[string]Code{
		"127.0.0.1": PrivateAddress, "10.1.2.3": PrivateAddress, "172.16.0.1": PrivateAddress, "192.168.1.1": PrivateAddress,
		"169.254.169.254": PrivateAddress, "100.64.0.1": PrivateAddress, "0.0.0.0": PrivateAddress, "224.0.0.1": PrivateAddress,
		"::1": PrivateAddress, "fe80::1": PrivateAddress, "fc00::1": PrivateAddress, "::ffff:10.0.0.1": PrivateAddress,
		"1.1.1.1": "", "2606:4700:4700::1111": "",
	} {
		err := g.judgeTarget(target{addr: netip.MustParseAddr(addr), port: 443})
		var r *refusal
		if got := errors.As(err, &r); got != (want != "") || got && r.code != want {
			t.Errorf("judge(%s) = %v, want %q", addr, err, want)
		}
	}
}
