package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// echoServer is a program that listens, says where, and answers each connection with what it was sent.
const echoServer = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport,"\n";` +
	`while(my $c=$s->accept){ my $b; while(sysread($c,$b,65536)){ syswrite($c,$b) } close $c }`

func listen(t *testing.T, box *sandbox.Box) int {
	t.Helper()
	if _, code := run(t, box, "command -v perl"); code != 0 {
		t.Skip("boxes see no perl")
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	_, err = box.Exec(spec.Process{Argv: []string{"perl", "-e", echoServer}, Env: box.Config().BaseEnv(), Stdout: w})
	must(t, w.Close())
	must(t, err)
	line, err := bufio.NewReader(r).ReadString('\n')
	must(t, err)
	port, err := strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	return port
}

func TestDialReachesWhatListensInTheBox(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, _ spec.Config) {
		port := listen(t, box)
		for _, host := range []string{"localhost", "127.0.0.1"} {
			conn, err := box.Dial(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			must(t, err)
			_, err = io.WriteString(conn, "hello")
			must(t, err)
			must(t, conn.(*net.TCPConn).CloseWrite())
			got, err := io.ReadAll(conn)
			must(t, err)
			must(t, conn.Close())
			if string(got) != "hello" {
				t.Errorf("%s answers %q", host, got)
			}
		}
		ports, err := box.Ports(t.Context())
		must(t, err)
		if len(ports) != 1 || ports[0].Port != port || ports[0].Address != "127.0.0.1" || ports[0].PID < 2 {
			t.Errorf("Ports = %+v, want only %d", ports, port)
		}
	})
}

// What listens on the host's loopback is none of the box's business, even where both share one network.
func TestDialNeverReachesTheHost(t *testing.T) {
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer hosts.Close()
	modes(t, func(t *testing.T, box *sandbox.Box, _ spec.Config) {
		conn, err := box.Dial(t.Context(), "tcp", hosts.Addr().String())
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial the host's %s = %v, want ECONNREFUSED", hosts.Addr(), err)
		}
		for _, addr := range []string{"1.1.1.1:80", "example.com:80", "169.254.169.254:80"} {
			if _, err := box.Dial(t.Context(), "tcp", addr); !errors.Is(err, channel.ErrOutside) {
				t.Errorf("dial %s = %v, want ErrOutside", addr, err)
			}
		}
		for _, addr := range []string{"localhost:0", "localhost:65536", "localhost:http", "localhost", "127.0.0.1:-1"} {
			if _, err := box.Dial(t.Context(), "tcp", addr); err == nil {
				t.Errorf("dial %s was done", addr)
			}
		}
		ports, err := box.Ports(t.Context())
		must(t, err)
		for _, p := range ports {
			if fmt.Sprint(p.Port) == strings.TrimPrefix(hosts.Addr().String(), "127.0.0.1:") {
				t.Errorf("the host's port is told as the box's: %+v", p)
			}
		}
	})
}
