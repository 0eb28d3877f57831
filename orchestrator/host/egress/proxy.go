package egress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// proxyPatience is how long a program may take to send its request.
const proxyPatience = 30 * time.Second

// maxRequest bounds a request to the proxy, without its content, in bytes.
const maxRequest = http.DefaultMaxHeaderBytes

// ServeProxy applies the policy to the programs that use l as an HTTP proxy (CONNECT, and requests for http URLs) or as a
// SOCKS5 proxy, until ctx ends. It closes l. With a secret, programs must give it as the password of user "sprite".
func (g *Gateway) ServeProxy(ctx context.Context, l net.Listener, secret string) {
	g.acceptConns(ctx, l, func(ctx context.Context, conn *net.TCPConn) {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		head := &io.LimitedReader{R: conn, N: maxRequest}
		r := bufio.NewReader(head)
		_ = conn.SetDeadline(time.Now().Add(proxyPatience)) // a connection that is gone is noticed below
		first, err := r.Peek(1)
		if err != nil {
			stop()
			conn.Close()
			return
		}
		c := &proxied{Conn: conn, tcp: conn, head: head, r: r, secret: secret}
		if first[0] == 5 {
			err = g.serveSOCKS(ctx, c)
		} else {
			err = g.httpProxy(ctx, c)
		}
		stop()
		if err != nil {
			conn.Close()
		}
	})
}

// proxied is a connection to the proxy, read through r until the relay begins.
type proxied struct {
	net.Conn
	tcp    *net.TCPConn
	head   *io.LimitedReader // below r
	r      *bufio.Reader
	secret string
}

// restConn is the connection for the relay.
func (c *proxied) restConn() net.Conn {
	_ = c.tcp.SetDeadline(time.Time{})
	c.head.N = math.MaxInt64
	if c.r.Buffered() == 0 {
		return c.tcp
	}
	return &readAhead{c.tcp, c.r}
}

func (c *proxied) checkPassword(user, password string) bool {
	return c.secret == "" || user == "sprite" && subtle.ConstantTimeCompare([]byte(password), []byte(c.secret)) == 1
}

// parseTarget reads HOST:PORT.
func parseTarget(host, port string) (target, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return target{}, fmt.Errorf("%q is no port", port)
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return target{addr: a.WithZone("").Unmap(), port: uint16(n)}, nil
	}
	name, err := normalName(host)
	return target{name: name, port: uint16(n)}, err
}

func (g *Gateway) httpProxy(ctx context.Context, c *proxied) error {
	req, err := http.ReadRequest(c.r)
	if err != nil {
		return err
	}
	user, password, _ := parseBasic(req.Header.Get("Proxy-Authorization"))
	if !c.checkPassword(user, password) {
		_, err := io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"sprite\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return errors.Join(err, errors.New("no password"))
	}
	if req.Method == http.MethodConnect {
		host, port, err := net.SplitHostPort(req.Host)
		if err != nil {
			return c.sendStatus(http.StatusBadRequest, err)
		}
		t, err := parseTarget(host, port)
		if err != nil {
			return c.sendStatus(http.StatusBadRequest, err)
		}
		g.carryConn(ctx, t, c.restConn(), func(err error) error {
			if err != nil {
				return c.sendStatus(http.StatusForbidden, err)
			}
			_, err = io.WriteString(c.tcp, "HTTP/1.1 200 Connection established\r\n\r\n")
			return err
		})
		return nil
	}
	if req.URL.Scheme != "http" || req.URL.Host == "" {
		return c.sendStatus(http.StatusBadRequest, errors.New("this is a proxy: it takes CONNECT, and requests for http URLs"))
	}
	port := cmp.Or(req.URL.Port(), "80")
	t, err := parseTarget(req.URL.Hostname(), port)
	if err != nil {
		return c.sendStatus(http.StatusBadRequest, err)
	}
	return g.forwardRequest(ctx, t, c, req)
}

// forwardRequest sends one request on and brings the answer back.
func (g *Gateway) forwardRequest(ctx context.Context, t target, c *proxied, req *http.Request) error {
	c.head.N = math.MaxInt64
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() { // ends with near; awaited below
		defer close(done)
		g.carryConn(ctx, t, far, func(err error) error {
			if err != nil {
				_ = c.sendStatus(http.StatusForbidden, err)
			}
			return err
		})
	}()
	defer func() { near.Close(); <-done }()
	req.Close = true
	for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "Connection"} {
		req.Header.Del(h)
	}
	if err := req.Write(near); err != nil {
		return err
	}
	_ = c.tcp.SetDeadline(time.Time{})
	if _, err := io.Copy(c.tcp, near); err != nil {
		return err
	}
	return c.tcp.Close()
}

// sendStatus answers with a status and a sentence; the error that it returns ends the connection.
func (c *proxied) sendStatus(status int, why error) error {
	text := "blocked or not reachable: " + why.Error() + "\n"
	_, err := fmt.Fprintf(c.tcp, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(text), text)
	return errors.Join(err, why)
}

func parseBasic(header string) (user, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	plain, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(plain), ":")
}

// serveSOCKS speaks SOCKS5 (RFC 1928, RFC 1929): CONNECT only.
func (g *Gateway) serveSOCKS(ctx context.Context, c *proxied) error {
	if err := c.greetSocks(); err != nil {
		return err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return err
	}
	host, err := c.socksHost(head[3])
	if err != nil {
		return err
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(c.r, port); err != nil {
		return err
	}
	reply := func(code byte) error {
		_, err := c.tcp.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}
	const connectOnly, notSupported, notAllowed, unreachable = 1, 7, 2, 4
	t, err := parseTarget(host, strconv.Itoa(int(binary.BigEndian.Uint16(port))))
	if head[1] != connectOnly || err != nil {
		return errors.Join(reply(notSupported), err, errors.New("only CONNECT is offered"))
	}
	g.carryConn(ctx, t, c.restConn(), func(err error) error {
		var no *refusal
		switch {
		case err == nil:
			return reply(0)
		case errors.As(err, &no):
			return errors.Join(reply(notAllowed), err)
		default:
			return errors.Join(reply(unreachable), err)
		}
	})
	return nil
}

// greetSocks agrees on how the program shows who it is.
func (c *proxied) greetSocks() error {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return err
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c.r, methods); err != nil {
		return err
	}
	const none, password, unacceptable = 0, 2, 0xff
	want := byte(none)
	if c.secret != "" {
		want = password
	}
	if !strings.Contains(string(methods), string([]byte{want})) {
		_, err := c.tcp.Write([]byte{5, unacceptable})
		return errors.Join(err, errors.New("no common way to log in"))
	}
	if _, err := c.tcp.Write([]byte{5, want}); err != nil || want == none {
		return err
	}
	user, secret, err := c.socksLogin()
	if err != nil {
		return err
	}
	if !c.checkPassword(user, secret) {
		_, err := c.tcp.Write([]byte{1, 1})
		return errors.Join(err, errors.New("wrong password"))
	}
	_, err = c.tcp.Write([]byte{1, 0})
	return err
}

func (c *proxied) socksLogin() (user, secret string, err error) {
	if _, err := c.r.Discard(1); err != nil {
		return "", "", err
	}
	if user, err = c.readCounted(); err == nil {
		secret, err = c.readCounted()
	}
	return user, secret, err
}

// readCounted reads a text with one byte of length before it.
func (c *proxied) readCounted() (string, error) {
	n, err := c.r.ReadByte()
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(c.r, text)
	return string(text), err
}

func (c *proxied) socksHost(kind byte) (string, error) {
	size := map[byte]int{1: 4, 4: 16}[kind]
	if kind == 3 {
		return c.readCounted()
	}
	if size == 0 {
		return "", fmt.Errorf("unknown kind of address %d", kind)
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(c.r, raw); err != nil {
		return "", err
	}
	a, _ := netip.AddrFromSlice(raw)
	return a.String(), nil
}
