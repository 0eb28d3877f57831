package sandbox_test

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// networked starts a box with a network of its own.
func networked(t *testing.T) (*sandbox.Box, *sandbox.Network) {
	t.Helper()
	cfg, err := config(t.TempDir(), false)
	must(t, err)
	cfg.Network = true
	box, err := sandbox.Start(cfg)
	var refusal *spec.Refusal
	if errors.As(err, &refusal) {
		t.Skipf("no namespaces here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := errors.Join(box.Network().Close(), box.Stop()); err != nil {
			t.Error(err)
		}
	})
	if n := box.Network(); n == nil || !n.Redirected {
		t.Skipf("nothing can be redirected here: %+v", n)
	}
	return box, box.Network()
}

// python is what the attempts are written in: a shell has no sockets.
func python(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: what programs see of the network is not tried")
	}
}

func TestConnectionsAreRedirected(t *testing.T) {
	python(t)
	box, n := networked(t)
	meant := make(chan string, 1)
	go func() { // ends with the listener
		conn, err := n.TCP.AcceptTCP()
		if err != nil {
			meant <- err.Error()
			return
		}
		defer conn.Close()
		raw, err := conn.SyscallConn()
		if err != nil {
			meant <- err.Error()
			return
		}
		raw.Control(func(fd uintptr) {
			dst, err := unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
			if err != nil {
				meant <- err.Error()
				return
			}
			meant <- net.IP(dst.Multiaddr[4:8]).String()
		})
		io.WriteString(conn, "hello")
	}()
	out, _ := run(t, box, `python3 -c 'import socket; s = socket.create_connection(("93.184.216.34", 443), 5); print(s.getsockname()[0], s.recv(9).decode())'`)
	if got := <-meant; got != "93.184.216.34" || out != "198.18.0.2 hello" {
		t.Errorf("meant %s, and the box printed %q", got, out)
	}
}

func TestQuestionsAreRedirected(t *testing.T) {
	python(t)
	box, n := networked(t)
	go func() { // ends with the socket
		buf := make([]byte, 512)
		size, from, err := n.DNS.ReadFrom(buf)
		if err == nil {
			n.DNS.WriteTo(buf[:size], from)
		}
	}()
	out, _ := run(t, box, `cat /etc/resolv.conf; python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(b"who", ("8.8.8.8", 53)); print(s.recvfrom(9))'`)
	if !strings.Contains(out, "nameserver 198.18.0.1") || !strings.Contains(out, `(b'who', ('8.8.8.8', 53))`) {
		t.Errorf("the box printed %q", out)
	}
}

func TestNothingElseLeavesTheBox(t *testing.T) {
	python(t)
	box, _ := networked(t)
	for name, script := range map[string]string{
		"UDP":          `s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("1.1.1.1", 443)); s.send(b"x"); s.settimeout(5); s.recv(1)`,
		"IPv6":         `socket.create_connection(("2606:4700::1111", 443), 5)`,
		"ping":         `s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1); s.sendto(b"\x08\0\0\0\0\0\0\0", ("1.1.1.1", 0))`,
		"raw socket":   `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`,
		"packets":      `socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`,
		"lower the lo": `s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.bind((0, 0)); s.send(bytes.fromhex("20000000100005000100000000000000" "00000000010000000000000001000000")); r = s.recv(999); import struct; e = struct.unpack("i", r[16:20])[0]; (e == 0) or exec("raise OSError(-e, 1)")`,
	} {
		begun := time.Now()
		out, code := run(t, box, "python3 -c 'import socket\n"+script+"'")
		if code == 0 || !strings.Contains(out, "Error") {
			t.Errorf("%s: exit %d, %q", name, code, out)
		}
		if strings.Contains(out, "timed out") || time.Since(begun) > 4*time.Second {
			t.Errorf("%s hangs instead of failing: %q", name, out)
		}
	}
	if out, code := run(t, box, `python3 -c 'import socket
l = socket.create_server(("", 80)); s = socket.create_connection(("127.0.0.1", 80)); print("own", l.getsockname()[1])'`); code != 0 || out != "own 80" {
		t.Errorf("the box's own loopback: %d %q", code, out)
	}
}
