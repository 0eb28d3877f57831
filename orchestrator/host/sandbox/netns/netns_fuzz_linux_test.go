package netns

import (
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
)

// FuzzMatch holds the part of the nftables rules that tells addresses against what it is to mean.
func FuzzMatch(f *testing.F) {
	f.Add(uint32(0x7f000000), uint8(8), uint32(0x7f000001))
	f.Add(uint32(0xc6120002), uint8(32), uint32(0xc6120003))
	f.Add(uint32(0), uint8(0), uint32(0xffffffff))
	address := func(n uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	f.Fuzz(func(t *testing.T, network uint32, bits uint8, destination uint32) {
		prefix := netip.PrefixFrom(address(network), int(bits%33)).Masked()
		parts := matchPrefix(prefix)
		load, mask, compare := parts[0].(*expr.Payload), parts[1].(*expr.Bitwise), parts[2].(*expr.Cmp)
		if load.Offset != 16 || load.Len != 4 || compare.Op != expr.CmpOpEq {
			t.Fatalf("it looks at %+v, %+v", load, compare)
		}
		matches, at := true, address(destination).As4()
		for i := range at {
			matches = matches && at[i]&mask.Mask[i]^mask.Xor[i] == compare.Data[i]
		}
		if want := prefix.Contains(address(destination)); matches != want {
			t.Errorf("%s matches %s: %t, want %t", prefix, address(destination), matches, want)
		}
	})
}
