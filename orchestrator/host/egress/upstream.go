package egress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	dialTimeout = 15 * time.Second
	// nextTry is how long one address may stay silent before the next is tried concurrently.
	nextTry = 250 * time.Millisecond
)

// Upstream is the host's own way out. Direct is the one that everybody has.
type Upstream struct {
	// Lookup finds the addresses of a name.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address that was judged.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Local lists the addresses of this machine, which no sprite reaches.
	Local func() []netip.Addr
	// Own reports whether this process listens on a TCP port of this machine: gateways, proxies and the API are its own, and no
	// sprite reaches them, no matter which ports the operator lists. Nil knows of none.
	Own func(port uint16) bool
	// Proxy names the HTTP proxy that leads to a name or address, nil for none. It may be nil. A proxy that looked a name up
	// itself could find an address that the policy forbids, so it is asked for an address that was judged, never for a name.
	Proxy func(host string, port uint16) *url.URL
}

// Direct uses the network of this process.
func Direct() Upstream {
	var d net.Dialer
	return Upstream{
		Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // complete: no search list
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		},
		Local: localAddrs,
		Own:   isListening,
	}
}

func localAddrs() (own []netip.Addr) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // private addresses are blocked anyway
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, addr.Unmap())
			}
		}
	}
	return own
}

// refusal is an attempt that the policy denies.
type refusal struct {
	code   Code
	reason string
}

func (r *refusal) Error() string { return r.reason }

// dialTarget connects to a name, or to an address when name is "".
func (g *Gateway) dialTarget(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	up := g.cfg.Upstream
	if t.name == HostName {
		if g.isOwnPort(t.port) {
			return nil, &refusal{OwnPort, fmt.Sprintf("port %d of the host is one of lattice's own, which no sprite reaches", t.port)}
		}
		return raceConnections(ctx, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, t.port, up.Dial)
	}
	if t.name == ModelName && g.cfg.Models != nil {
		return answerHTTP(g.cfg.Models), nil
	}
	host := t.name
	addrs, err := []netip.Addr{t.addr}, error(nil)
	if t.name == "" {
		host = t.addr.String()
	} else {
		addrs, err = up.Lookup(ctx, t.name)
	}
	var proxy *url.URL
	if up.Proxy != nil {
		proxy = up.Proxy(host, t.port)
	}
	if proxy != nil && g.leadsHere(proxy) {
		return nil, &refusal{OwnPort, "the proxy that the host's environment names is this lattice itself"}
	}
	if proxy != nil && (err != nil || len(addrs) == 0) {
		return nil, &refusal{NoPublicAddress, fmt.Sprintf("the host finds no address of %s (%v); through its proxy, too, sprites reach only public addresses that the host looked up", t.name, cmp.Or(err, errors.New("the name has none")))}
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", t.name, err)
	}
	public, refused := g.filterPublic(addrs)
	if len(public) == 0 && refused != nil {
		return nil, refused
	}
	dial := up.Dial
	if proxy != nil {
		dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) { return throughProxy(ctx, proxy, to) }
	}
	return raceConnections(ctx, interleaveFamilies(public), t.port, dial)
}

func (g *Gateway) isOwnPort(port uint16) bool {
	return g.cfg.Upstream.Own != nil && g.cfg.Upstream.Own(port)
}

// leadsHere reports whether a proxy is one of this process, which would send everything to itself.
func (g *Gateway) leadsHere(proxy *url.URL) bool {
	host := proxy.Hostname()
	if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return false
	}
	port, err := strconv.ParseUint(proxy.Port(), 10, 16)
	return err == nil && g.isOwnPort(uint16(port))
}

// filterPublic keeps the addresses that may be dialled, and says why the others may not.
func (g *Gateway) filterPublic(addrs []netip.Addr) (public []netip.Addr, why error) {
	policy := g.policy.Load()
	var own []netip.Addr
	if g.cfg.Upstream.Local != nil {
		own = g.cfg.Upstream.Local()
	}
	for _, a := range addrs {
		a = a.WithZone("").Unmap()
		rule := policy.findForbidding(a)
		switch {
		case isBlocked(a):
			why = &refusal{PrivateAddress, fmt.Sprintf("%s is private, or no address of another machine", a)}
		case slices.Contains(own, a):
			why = &refusal{PrivateAddress, fmt.Sprintf("%s is an address of the host itself", a)}
		case rule != "":
			why = &refusal{DeniedByRule, fmt.Sprintf("rule %s denies %s", rule, a)}
		default:
			public = append(public, a)
		}
	}
	return public, why
}

// interleaveFamilies puts IPv6 and IPv4 addresses by turns, in the order that they came in.
func interleaveFamilies(addrs []netip.Addr) (mixed []netip.Addr) {
	var four, six []netip.Addr
	for _, a := range addrs {
		if a.Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	for len(four) > 0 || len(six) > 0 {
		if len(four) > 0 {
			mixed, four = append(mixed, four[0]), four[1:]
		}
		if len(six) > 0 {
			mixed, six = append(mixed, six[0]), six[1:]
		}
	}
	return mixed
}

// raceConnections dials one address after the other, the next as soon as one fails or stays silent, and returns the first connection.
func raceConnections(ctx context.Context, addrs []netip.Addr, port uint16, dial func(context.Context, netip.AddrPort) (net.Conn, error)) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, errors.New("it has no addresses")
	}
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	running := 0
	begin := func(a netip.Addr) {
		running++
		go func() { // awaited by drain
			conn, err := dial(ctx, netip.AddrPortFrom(a, port))
			results <- result{conn, err}
		}()
	}
	drain := func() {
		cancel()
		for ; running > 0; running-- {
			if r := <-results; r.conn != nil {
				r.conn.Close()
			}
		}
	}
	defer drain()
	var failed error
	begin(addrs[0])
	for rest := addrs[1:]; running > 0; {
		var late <-chan time.Time
		timer := time.NewTimer(nextTry)
		if len(rest) > 0 {
			late = timer.C
		}
		next := false
		select {
		case r := <-results:
			running--
			if r.err == nil {
				timer.Stop()
				return r.conn, nil
			}
			failed, next = errors.Join(failed, r.err), true
		case <-late:
			next = true
		}
		timer.Stop()
		if next && len(rest) > 0 && ctx.Err() == nil {
			begin(rest[0])
			rest = rest[1:]
		}
	}
	return nil, failed
}

// throughProxy has an HTTP proxy connect to an address that was judged.
func throughProxy(ctx context.Context, proxy *url.URL, to netip.AddrPort) (net.Conn, error) {
	address := proxy.Host
	if proxy.Port() == "" {
		address = net.JoinHostPort(proxy.Hostname(), map[string]string{"https": "443"}[proxy.Scheme])
		if proxy.Scheme == "http" {
			address = net.JoinHostPort(proxy.Hostname(), "80")
		}
	}
	var conn net.Conn
	var err error
	switch proxy.Scheme {
	case "http":
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
	case "https":
		conn, err = new(tls.Dialer).DialContext(ctx, "tcp", address)
	default:
		return nil, fmt.Errorf("the host's proxy %s: only http and https proxies can be used", proxy.Redacted())
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the host's proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	buffered, err := requestTunnel(conn, proxy.User, to.String())
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the host's proxy: %w", err)
	}
	if buffered.Buffered() > 0 {
		return &readAhead{conn, buffered}, nil
	}
	return conn, nil
}

// requestTunnel speaks CONNECT. Bytes that the proxy sent after its answer are in the reader.
func requestTunnel(conn net.Conn, user *url.Userinfo, target string) (*bufio.Reader, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	return r, nil
}

// readAhead is a connection of which something was read already.
type readAhead struct {
	net.Conn
	r *bufio.Reader
}

func (c *readAhead) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *readAhead) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
