package sandbox

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

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
		if conn, err := makeConnection(f, port); err == nil {
			t.Errorf("%s was taken for a connection to %v", name, conn.RemoteAddr())
		}
		f.Close()
	}
	f := file(there.(*net.TCPConn).File())
	defer f.Close()
	if _, err := makeConnection(f, port+1); err == nil {
		t.Error("a connection to another port was taken")
	}
	conn, err := makeConnection(f, port)
	if err != nil {
		t.Fatalf("a true connection was refused: %v", err)
	}
	conn.Close()
}
