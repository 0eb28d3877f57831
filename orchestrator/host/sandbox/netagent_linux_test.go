package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestTablesOfSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0000000000000000 20 4 30 10 -1
   3: 00000000000000000000000001000000:1538 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 44 1 0 100 0 0 10 0
   4: 0000000000000000FFFF00000100007F:1539 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 45 1 0 100 0 0 10 0
`
	got := map[uint64]Port{}
	if err := listeners(strings.NewReader(table), got); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]Port{
		41: {Port: 8080, Address: "127.0.0.1"}, 42: {Port: 22, Address: "0.0.0.0"}, 44: {Port: 5432, Address: "::1"}, 45: {Port: 5433, Address: "127.0.0.1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := listeners(strings.NewReader("0: xyz 0 0A 0 0 0 0 0 1\n"), got); err == nil {
		t.Error("an odd line was taken")
	}
}

func TestWhatAPortCovers(t *testing.T) {
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
		if got := (Port{Port: 80, Address: c.bound}).covers(c.addr, c.port); got != c.want {
			t.Errorf("%s:80 covers %s:%d = %t, want %t", c.bound, c.addr, c.port, got, c.want)
		}
	}
}

// Init may be in the hands of what runs in the box: what it hands over in the place of a connection is looked at.
func TestForgedConnections(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := func(f *os.File, err error) *os.File {
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, f := range map[string]*os.File{
		"a file":                file(os.Open(os.DevNull)),
		"a listener":            file(listener.(*net.TCPListener).File()),
		"a unix socket":         os.NewFile(uintptr(pair[0]), ""),
		"a datagram socket":     os.NewFile(uintptr(udp), ""),
		"an unconnected socket": os.NewFile(uintptr(fresh), ""),
	} {
		if conn, err := connection(f, port); err == nil {
			t.Errorf("%s was taken for a connection to %v", name, conn.RemoteAddr())
		}
		f.Close()
	}
	f := file(there.(*net.TCPConn).File())
	defer f.Close()
	if _, err := connection(f, port+1); err == nil {
		t.Error("a connection to another port was taken")
	}
	conn, err := connection(f, port)
	if err != nil {
		t.Fatalf("a true connection was refused: %v", err)
	}
	conn.Close()
}

func TestAddressesOutsideAreRefused(t *testing.T) {
	s := &server{}
	for _, host := range []string{"example.com", "1.1.1.1", "10.0.0.1", "169.254.169.254", "::ffff:1.1.1.1", "2001:db8::1", "127.1", "0x7f000001", "host.lattice.internal"} {
		body, err := json.Marshal(netTarget{Network: "tcp", Host: host, Port: 80})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.netCall(t.Context(), "net.dial", body, nil); !errors.Is(err, ErrOutside) {
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
