package spritestest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Middleman is a proxy between a client and a host. It passes on all requests except those that a test tampers with, and
// records them.
type Middleman struct {
	URL string // for the client

	host    *url.URL
	forward *httputil.ReverseProxy
	server  *httptest.Server
	behind  *httptest.Server
	ended   chan struct{} // closed when hung requests are let go
	sockets sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	faults []Fault
	seen   []*http.Request // without their bodies
	open   []net.Conn
}

// Fault is the treatment of one request. The first fault whose On matches is used, Times times (0 = once, negative =
// always). One of the other members is set.
type Fault struct {
	On    func(*http.Request) bool
	Times int
	// Instead answers in the host's place, which never sees the request.
	Instead func(w http.ResponseWriter, r *http.Request)
	// After answers when the host has carried out the request; whole is the host's answer.
	After func(w http.ResponseWriter, whole *http.Response, body []byte)
	// Down and Up change the messages of a socket: from the host, to the host. Down is first asked about the answer to
	// the handshake, which it cannot change.
	Down, Up Tampering
}

// Tampering changes the messages of a socket: it sends the replacement of f, and reports whether to go on. False cuts the
// connection on both sides.
type Tampering func(f Frame, send func(Frame)) bool

// Frame is one message of a socket; neither side fragments.
type Frame struct {
	Op   byte // OpText, OpBinary, OpClose …
	Data []byte
}

// Kinds of frames. OpHandshake stands for the answer to the handshake.
const (
	OpText      = 1
	OpBinary    = 2
	OpClose     = 8
	OpHandshake = 255
)

// Stdout returns the part of the command's output in a frame.
func (f Frame) Stdout() string {
	if f.Op == OpBinary && len(f.Data) > 0 && f.Data[0] == 1 {
		return string(f.Data[1:])
	}
	return ""
}

// Exit reports whether a frame tells the exit, in either form.
func (f Frame) Exit() bool {
	return f.Op == OpBinary && len(f.Data) > 0 && f.Data[0] == 3 || f.Op == OpText && strings.Contains(string(f.Data), `"exit"`)
}

// NewMiddleman serves host through a middleman until the test ends. The host's sockets must have ended by then.
func NewMiddleman(t testing.TB, host http.Handler) *Middleman {
	t.Helper()
	m := &Middleman{behind: httptest.NewServer(host), ended: make(chan struct{})}
	m.host, _ = url.Parse(m.behind.URL) // httptest made it
	m.forward = &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(m.host) },
		FlushInterval: -1,
	}
	m.server = httptest.NewServer(http.HandlerFunc(m.serveRequest))
	m.URL = m.server.URL
	t.Cleanup(m.close)
	return m
}

func (m *Middleman) close() {
	close(m.ended)
	m.mu.Lock()
	for _, c := range m.open {
		c.Close()
	}
	m.mu.Unlock()
	m.server.CloseClientConnections()
	m.server.Close()
	m.sockets.Wait()
	m.behind.CloseClientConnections()
	m.behind.Close()
}

// Do adds a fault.
func (m *Middleman) Do(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

// Behave drops the faults that are left.
func (m *Middleman) Behave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = nil
}

// Count is how many requests have come that match.
func (m *Middleman) Count(match func(*http.Request) bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, r := range m.seen {
		if match(r) {
			n++
		}
	}
	return n
}

// Exec matches the handshakes of new commands.
func Exec(r *http.Request) bool { return Upgrade(r) && strings.HasSuffix(r.URL.Path, "/exec") }

// Upgrade matches handshakes.
func Upgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// On matches requests by method and the end of their path.
func On(method, end string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && !Upgrade(r) && strings.HasSuffix(r.URL.Path, end)
	}
}

// Answer is an Instead that answers with a status, a type and a text.
func Answer(status int, kind, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// Cut is an Instead that ends the connection without a word.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// CutAfter is an After that passes the first n bytes of the body on and ends the connection; with a negative n not even
// the head.
func CutAfter(n int) func(http.ResponseWriter, *http.Response, []byte) {
	return func(w http.ResponseWriter, whole *http.Response, body []byte) {
		if n >= 0 {
			w.Header().Set("Content-Type", whole.Header.Get("Content-Type"))
			w.WriteHeader(whole.StatusCode)
			_, _ = w.Write(body[:min(n, len(body))])
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// Replace is an After that answers something else than the host did.
func Replace(status int, kind, text string) func(http.ResponseWriter, *http.Response, []byte) {
	return func(w http.ResponseWriter, _ *http.Response, _ []byte) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// Hang is an Instead that answers nothing until the client has left.
func (m *Middleman) Hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-m.ended:
	}
}

// CutAt is a Down that ends the connection right before word in the output, and before the exit in any case.
func CutAt(word string) Tampering {
	return func(f Frame, send func(Frame)) bool {
		if f.Exit() {
			return false
		}
		if before, _, found := strings.Cut(f.Stdout(), word); found && word != "" {
			send(Frame{Op: OpBinary, Data: append([]byte{1}, before...)})
			return false
		}
		send(f)
		return true
	}
}

func (m *Middleman) serveRequest(w http.ResponseWriter, r *http.Request) {
	fault := m.chooseFault(r)
	switch {
	case fault.Instead != nil:
		fault.Instead(w, r)
	case Upgrade(r):
		m.relaySocket(w, r, fault)
	case fault.After != nil:
		m.serveAfter(w, r, fault)
	default:
		m.forward.ServeHTTP(w, r)
	}
}

// chooseFault records the request and finds its treatment.
func (m *Middleman) chooseFault(r *http.Request) Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, &http.Request{Method: r.Method, URL: r.URL, Header: r.Header})
	for i, f := range m.faults {
		if !f.On(r) {
			continue
		}
		if f.Times >= 0 {
			if m.faults[i].Times--; m.faults[i].Times <= 0 {
				m.faults = append(m.faults[:i:i], m.faults[i+1:]...)
			}
		}
		return f
	}
	return Fault{}
}

func (m *Middleman) serveAfter(w http.ResponseWriter, r *http.Request, fault Fault) {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", m.host.Scheme, m.host.Host
	res, err := m.behind.Client().Do(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fault.After(w, res, body)
}

// relaySocket relays frames both ways, changed.
func (m *Middleman) relaySocket(w http.ResponseWriter, r *http.Request, fault Fault) {
	host, err := net.Dial("tcp", m.host.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer host.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	m.mu.Lock()
	m.open = append(m.open, client, host)
	m.mu.Unlock()
	if err := r.Write(host); err != nil {
		return
	}
	m.sockets.Go(func() {
		// A cut goes both ways, a half-closed connection does not.
		if relayFrames(host, buffered, true, fault.Up) != nil {
			client.Close()
		}
		host.Close()
	})
	in := bufio.NewReader(host)
	head, upgraded, err := readHead(in)
	if err != nil {
		return
	}
	if fault.Down != nil && !fault.Down(Frame{Op: OpHandshake, Data: head}, func(Frame) {}) {
		return
	}
	if _, err := client.Write(head); err != nil {
		return
	}
	if !upgraded {
		_, _ = io.Copy(client, in)
		return
	}
	_ = relayFrames(client, in, false, fault.Down)
}

// readHead reads an answer up to its body.
func readHead(r *bufio.Reader) (head []byte, upgraded bool, err error) {
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, false, err
		}
		head = append(head, line...)
	}
	return head, bytes.HasPrefix(head, []byte("HTTP/1.1 101")), nil
}

var errTampered = errors.New("cut by the middleman")

// relayFrames passes frames on, or bytes when there is nothing to change.
func relayFrames(to io.Writer, from io.Reader, masked bool, change Tampering) error {
	if change == nil {
		_, err := io.Copy(to, from)
		return err
	}
	for {
		f, err := readFrame(from)
		if err != nil {
			return nil
		}
		var failed error
		if !change(f, func(f Frame) { failed = errors.Join(failed, writeFrame(to, f, masked)) }) {
			return errTampered
		}
		if failed != nil {
			return failed
		}
	}
}

func readFrame(r io.Reader) (Frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	size := uint64(head[1] & 0x7f)
	var wide [8]byte
	switch size {
	case 126:
		if _, err := io.ReadFull(r, wide[6:]); err != nil {
			return Frame{}, err
		}
		size = binary.BigEndian.Uint64(wide[:])
	case 127:
		if _, err := io.ReadFull(r, wide[:]); err != nil {
			return Frame{}, err
		}
		size = binary.BigEndian.Uint64(wide[:])
	}
	if size > 1<<26 {
		return Frame{}, fmt.Errorf("a frame of %d bytes", size)
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return Frame{}, err
		}
	}
	f := Frame{Op: head[0] & 0x0f, Data: make([]byte, size)}
	_, err := io.ReadFull(r, f.Data)
	for i := range f.Data {
		f.Data[i] ^= mask[i%4]
	}
	return f, err
}

// writeFrame writes a whole message; masked ones, as clients must send, have a mask of zeros.
func writeFrame(w io.Writer, f Frame, masked bool) error {
	head := []byte{0x80 | f.Op, 127}
	switch n := len(f.Data); {
	case n < 126:
		head[1] = byte(n)
	case n < 1<<16:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	if masked {
		head[1] |= 0x80
		head = append(head, 0, 0, 0, 0)
	}
	_, err := w.Write(append(head, f.Data...))
	return err
}
