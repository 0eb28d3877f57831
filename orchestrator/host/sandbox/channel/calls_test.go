package channel

import (
	"net/netip"
	"testing"
)

func TestWhatAPortCovers(t *testing.T) {
	t.Parallel()
	v4, other, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"), netip.IPv6Loopback()
	for _, c := range []struct {
		bound string
		addr  netip.Addr
		port  uint16
		want  bool
	}{
		{"127.0.0.1", v4, 80, true}, {"127.0.0.1", v4, 81, false}, {"127.0.0.1", other, 80, false}, {"127.0.0.1", v6, 80, false},
		{"0.0.0.0", other, 80, true}, {"0.0.0.0", v6, 80, false}, {"::", v4, 80, true}, {"::", v6, 80, true}, {"::1", v4, 80, false}, {"odd", v4, 80, false},
	} {
		if got := (Port{Port: 80, Address: c.bound}).Covers(c.addr, c.port); got != c.want {
			t.Errorf("%s:80 covers %s:%d = %t, want %t", c.bound, c.addr, c.port, got, c.want)
		}
	}
}
