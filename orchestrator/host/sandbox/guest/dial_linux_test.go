package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

func TestTablesOfSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0000000000000000 20 4 30 10 -1
   3: 00000000000000000000000001000000:1538 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 44 1 0 100 0 0 10 0
   4: 0000000000000000FFFF00000100007F:1539 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 45 1 0 100 0 0 10 0
`
	got := map[uint64]channel.Port{}
	if err := readListeners(strings.NewReader(table), got); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]channel.Port{
		41: {Port: 8080, Address: "127.0.0.1"}, 42: {Port: 22, Address: "0.0.0.0"}, 44: {Port: 5432, Address: "::1"}, 45: {Port: 5433, Address: "127.0.0.1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := readListeners(strings.NewReader("0: xyz 0 0A 0 0 0 0 0 1\n"), got); err == nil {
		t.Error("an odd line was taken")
	}
}

func TestAddressesOutsideAreRefused(t *testing.T) {
	s := &server{}
	for _, host := range []string{"example.com", "1.1.1.1", "10.0.0.1", "169.254.169.254", "::ffff:1.1.1.1", "2001:db8::1", "127.1", "0x7f000001", "host.lattice.internal"} {
		body, err := json.Marshal(channel.NetTarget{Network: "tcp", Host: host, Port: 80})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.netCall(t.Context(), "net.dial", body, nil); !errors.Is(err, channel.ErrOutside) {
			t.Errorf("dial %s = %v, want ErrOutside", host, err)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST.", "", "0.0.0.0", "::", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"} {
		if _, err := ownAddresses(host); err != nil {
			t.Errorf("ownAddresses(%q) = %v", host, err)
		}
	}
	if _, _, err := s.netCall(t.Context(), "net.dial", bytes.Repeat([]byte("{"), 10), nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an unreadable call = %v", err)
	}
}
