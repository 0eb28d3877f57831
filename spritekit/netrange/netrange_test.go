package netrange

import (
	"net/netip"
	"testing"
)

func TestIsPrivate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "10.1.2.3": true, "169.254.169.254": true, "::1": true, "::ffff:10.0.0.1": true, "64:ff9b::7f00:1": true, "2002:a00:1::": true,
		"fe80::1%eth0": true, "100.100.100.200": true, "1.1.1.1": false, "2606:4700::1111": false, "64:ff9b::101:101": false, "198.18.0.1": false,
	} {
		if got := IsPrivate(netip.MustParseAddr(text)); got != want {
			t.Errorf("IsPrivate(%s) = %v, want %v", text, got, want)
		}
	}
	if !IsPrivate(netip.Addr{}) {
		t.Error("an address that is none is public")
	}
	if !Covers(netip.MustParsePrefix("10.2.0.0/16")) || Covers(netip.MustParsePrefix("0.0.0.0/0")) {
		t.Error("Covers is wrong about 10.2.0.0/16 or 0.0.0.0/0")
	}
}
