package session_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// middleman stands between client and host. He passes everything on unless he is told to tamper with the next exec
// socket, or to have the host refuse requests.
type middleman struct {
	listener net.Listener
	host     string
	tamper   atomic.Pointer[tampering]
	refuse   atomic.Pointer[func(*http.Request) int]
	reads    atomic.Int32 // of files
	conns    sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn // guarded by mu
}

// tampering changes the frames from host to client: it writes to out what is to be sent, and says whether to go on.
type tampering func(frame frame, out func(frame)) bool

// frame is one WebSocket message of the host, which does not fragment.
type frame struct {
	op   byte
	data []byte
}

// stdout reports what a frame carries of the command's output.
func (f frame) stdout() string {
	if f.op == 2 && len(f.data) > 0 && f.data[0] == 1 {
		return string(f.data[1:])
	}
	return ""
}

// exit reports whether a frame tells the exit, in either form.
func (f frame) exit() bool {
	return f.op == 2 && len(f.data) > 0 && f.data[0] == 3 || f.op == 1 && strings.Contains(string(f.data), `"exit"`)
}

// cutAt ends the connection before the first frame that says so, and before the exit in any case.
func cutAt(word string) tampering {
	return func(f frame, out func(frame)) bool {
		if f.exit() || strings.Contains(f.stdout(), word) && word != "" {
			return false
		}
		out(f)
		return true
	}
}

func newMiddleman(t *testing.T, host string) *middleman {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middleman{listener: l, host: host}
	m.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.conns.Go(func() { m.serve(c) })
		}
	})
	return m
}

func (m *middleman) addr() string { return m.listener.Addr().String() }

func (m *middleman) close() {
	m.listener.Close()
	m.mu.Lock()
	for _, c := range m.open {
		c.Close()
	}
	m.mu.Unlock()
	m.conns.Wait()
}

// refusal is the status by which the host answers a request, 0 for its own.
func (m *middleman) refusal(r *http.Request) int {
	if strings.HasSuffix(r.URL.Path, "/fs/read") {
		m.reads.Add(1)
	}
	if f := m.refuse.Load(); f != nil {
		return (*f)(r)
	}
	return 0
}

func (m *middleman) serve(client net.Conn) {
	defer client.Close()
	host, err := net.Dial("tcp", m.host)
	if err != nil {
		return
	}
	defer host.Close()
	m.mu.Lock()
	m.open = append(m.open, client, host)
	m.mu.Unlock()
	m.conns.Go(func() {
		_, _ = io.Copy(host, client)
		_ = host.(*net.TCPConn).CloseWrite()
	})
	in := bufio.NewReader(host)
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		head, _ := in.Peek(in.Buffered())
		if bytes.HasPrefix(head, []byte("HTTP/1.1 101")) {
			if t := m.tamper.Swap(nil); t != nil {
				_ = relay(client, in, *t)
				return
			}
			_, _ = io.Copy(client, in)
			return
		}
		// Anything may follow on a kept connection: what there is goes on at once.
		n, err := io.CopyN(client, in, int64(in.Buffered()))
		if n == 0 || err != nil {
			return
		}
	}
}

// relay passes the handshake and then frames, changed.
func relay(client io.Writer, host *bufio.Reader, change tampering) error {
	for {
		line, err := host.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := io.WriteString(client, line); err != nil {
			return err
		}
		if line == "\r\n" {
			break
		}
	}
	for {
		f, err := readFrame(host)
		if err != nil {
			return err
		}
		var failed error
		on := change(f, func(f frame) { failed = errors.Join(failed, writeFrame(client, f)) })
		if !on || failed != nil {
			return failed
		}
	}
}

func readFrame(r io.Reader) (frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	size := uint64(head[1] & 0x7f)
	var wide [8]byte
	switch size {
	case 126:
		if _, err := io.ReadFull(r, wide[6:]); err != nil {
			return frame{}, err
		}
		size = binary.BigEndian.Uint64(wide[:])
	case 127:
		if _, err := io.ReadFull(r, wide[:]); err != nil {
			return frame{}, err
		}
		size = binary.BigEndian.Uint64(wide[:])
	}
	f := frame{op: head[0] & 0x0f, data: make([]byte, size)}
	_, err := io.ReadFull(r, f.data)
	return f, err
}

func writeFrame(w io.Writer, f frame) error {
	head := []byte{0x80 | f.op, 127}
	switch n := len(f.data); {
	case n < 126:
		head[1] = byte(n)
	case n < 1<<16:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	_, err := w.Write(append(head, f.data...))
	return err
}
