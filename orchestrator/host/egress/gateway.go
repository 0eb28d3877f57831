package egress

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// dnsPatience is how long a DNS connection may take for one question.
const dnsPatience = 5 * time.Second

// Config of a Gateway.
type Config struct {
	Upstream  Upstream
	HostPorts []uint16      // ports of the host's loopback interface that HostName leads to
	Models    http.Handler  // answers requests to ModelName; nil when there are none
	Idle      time.Duration // a connection on which nothing moves for so long is ended; 0 means 15 minutes
	Denials   *Denials      // gets the denials
	Room      *Room         // shared by the gateways of a host; nil is room for one sprite
	Now       func() time.Time
}

// Gateway applies a policy to the connections of one sprite. Its methods may be called from several goroutines.
type Gateway struct {
	cfg    Config
	policy atomic.Pointer[Policy]
	names  *table
	stats  counters

	mu    sync.Mutex // guards conns
	conns map[*link]struct{}
}

// link is one connection. It is in conns before its target is judged, so that a change of policy misses none.
type link struct {
	target target
	cut    context.CancelCauseFunc
}

// target is the name that a program wants to reach, or with name "" an address.
type target struct {
	name string
	addr netip.Addr
	port uint16
}

// New makes a gateway that applies p until SetPolicy gives it another.
func New(cfg Config, p *Policy) *Gateway {
	cfg.Idle = cmp.Or(cfg.Idle, 15*time.Minute)
	if cfg.Room == nil {
		cfg.Room = NewRoom(8 * perConn * maxConns)
	}
	g := &Gateway{cfg: cfg, names: newTable(maxNames, cfg.Now), conns: map[*link]struct{}{}}
	g.policy.Store(p)
	return g
}

// SetPolicy applies p from now on, and cuts the connections that it does not allow. It returns how many.
func (g *Gateway) SetPolicy(p *Policy) (cut int) {
	g.policy.Store(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.conns {
		if err := g.judgeTarget(l.target); err != nil {
			l.cut(errChanged)
			cut++
		}
	}
	return cut
}

var errChanged = errors.New("the policy no longer allows this connection")

// judgeTarget says why t may not be reached, as far as that can be told before its name is looked up.
func (g *Gateway) judgeTarget(t target) error {
	p := g.policy.Load()
	switch {
	case t.name == HostName:
		if v := p.Name(t.name); v.Rule == HostName && !v.Allowed {
			return &refusal{DeniedByRule, "rule " + v.Rule + " denies it"}
		}
		if !slices.Contains(g.cfg.HostPorts, t.port) {
			return &refusal{HostPort, fmt.Sprintf("port %d of the host is not listed; its operator can do so (host_ports, --host-port)", t.port)}
		}
		return nil
	case t.name == ModelName && g.cfg.Models != nil:
		if v := p.Name(t.name); v.Rule == ModelName && !v.Allowed {
			return &refusal{DeniedByRule, "rule " + v.Rule + " denies it"}
		}
		if t.port != modelPort {
			return &refusal{NotAllowed, fmt.Sprintf("models are at %s, port %d", ModelURL, modelPort)}
		}
		return nil
	case t.name != "":
		return refusalFor(p.Name(t.name), NotAllowed, "no rule allows it")
	case isBlocked(t.addr):
		return &refusal{PrivateAddress, fmt.Sprintf("%s is private, or no address of another machine", t.addr)}
	default:
		return refusalFor(p.Addr(t.addr), RawAddress, "no rule allows this address; connections are allowed by name")
	}
}

func refusalFor(v Verdict, code Code, reason string) error {
	switch {
	case v.Allowed:
		return nil
	case v.Rule != "":
		return &refusal{DeniedByRule, "rule " + v.Rule + " denies it"}
	default:
		return &refusal{code, reason}
	}
}

// Serve answers the DNS questions that come to dns, and carries the connections that come to tcp, until ctx ends. It
// closes both. Connections to port 53 are taken for DNS.
func (g *Gateway) Serve(ctx context.Context, tcp *net.TCPListener, dns *net.UDPConn) {
	stop := context.AfterFunc(ctx, func() { dns.Close() })
	defer stop()
	var asked sync.WaitGroup
	asked.Go(func() { g.serveDNS(dns) })
	g.acceptConns(ctx, tcp, g.serveRedirected)
	dns.Close()
	asked.Wait()
}

// acceptConns hands connections to handle until ctx ends, and waits for all of them.
func (g *Gateway) acceptConns(ctx context.Context, l net.Listener, handle func(context.Context, *net.TCPConn)) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	var open sync.WaitGroup
	defer open.Wait()
	room := g.cfg.Room
	slots := make(chan struct{}, room.each)
	tooMany := func(conn *net.TCPConn, whose string, n int) {
		g.reportDenial("connect", target{}, &refusal{TooMany, fmt.Sprintf("%s %d connections at most at once", whose, n)})
		resetConn(conn)
	}
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil { // out of descriptors, or a connection that was gone already
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		tcp := conn.(*net.TCPConn)
		select {
		case slots <- struct{}{}:
		default:
			tooMany(tcp, "a sprite has", cap(slots))
			continue
		}
		select {
		case room.all <- struct{}{}:
		default:
			<-slots
			tooMany(tcp, "all sprites of this host have", cap(room.all))
			continue
		}
		open.Go(func() {
			defer func() { <-slots; <-room.all }()
			handle(ctx, tcp)
		})
	}
}

// serveRedirected carries a connection whose target the kernel knows.
func (g *Gateway) serveRedirected(ctx context.Context, conn *net.TCPConn) {
	dst, err := originalDst(conn)
	if err != nil {
		resetConn(conn) // a program in the box connected to the listener itself
		return
	}
	if dst.Port() == 53 {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		g.serveDNSConn(conn)
		return
	}
	t := target{addr: dst.Addr(), port: dst.Port()}
	if name, release, ok := g.names.useName(t.addr); ok {
		defer release()
		t = target{name: name, port: t.port}
	} else if synthetic.Contains(t.addr) {
		g.reportDenial("connect", t, &refusal{RawAddress, "this address stands for no name any more; ask for the name again"})
		resetConn(conn)
		return
	}
	g.carryConn(ctx, t, conn, func(error) error { return nil })
}

// carryConn judges t, connects to it and relays until both ends are through. greet tells the program how connecting went,
// where the program expects that.
func (g *Gateway) carryConn(ctx context.Context, t target, conn net.Conn, greet func(error) error) {
	defer conn.Close()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	l := &link{cut: cut}
	defer g.removeLink(l)
	err := g.addLink(l, t)
	var far net.Conn
	if err == nil {
		far, err = g.dialTarget(ctx, t)
	}
	if no, ok := errors.AsType[*refusal](err); ok {
		g.reportDenial("connect", t, no)
	}
	if err != nil {
		if greet(err) == nil {
			resetConn(conn)
		}
		return
	}
	defer far.Close()
	if err := greet(nil); err != nil {
		return
	}
	g.stats.connections.Add(1)
	g.relayBoth(ctx, conn, far)
	if errors.Is(context.Cause(ctx), errChanged) {
		g.reportDenial("connect", t, &refusal{PolicyChanged, "the connection was cut, because the policy no longer allows it"})
	}
}

// addLink makes l known and judges its target; SetPolicy relies on the order.
func (g *Gateway) addLink(l *link, t target) error {
	g.mu.Lock()
	l.target = t
	g.conns[l] = struct{}{}
	g.mu.Unlock()
	return g.judgeTarget(t)
}

func (g *Gateway) removeLink(l *link) {
	g.mu.Lock()
	delete(g.conns, l)
	g.mu.Unlock()
}

func (g *Gateway) reportDenial(kind string, t target, why *refusal) {
	g.cfg.Denials.addDenial(Denial{Kind: kind, Name: t.name, Address: t.addr, Port: t.port, Code: why.code, Reason: why.reason})
}

// serveDNS answers questions until the socket is closed. An answer takes no waiting, so one at a time is enough.
func (g *Gateway) serveDNS(dns *net.UDPConn) {
	buf := make([]byte, maxQuestion+1)
	for {
		n, from, err := dns.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // left behind by a program that has ended
		}
		if reply := answerQuery(buf[:n], g); reply != nil {
			_, _ = dns.WriteToUDPAddrPort(reply, from) // who asked asks again
		}
	}
}

// serveDNSConn answers the questions of one connection, each with two bytes of length before it.
func (g *Gateway) serveDNSConn(conn net.Conn) {
	buf := make([]byte, maxQuestion)
	for {
		if conn.SetDeadline(time.Now().Add(dnsPatience)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(buf))
		if size > len(buf) {
			return
		}
		if _, err := io.ReadFull(conn, buf[:size]); err != nil {
			return
		}
		reply := answerQuery(buf[:size], g)
		if reply == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// allowed implements resolver.
func (g *Gateway) allowed(name string) bool {
	t := target{name: name}
	var err error
	if name == HostName && len(g.cfg.HostPorts) > 0 || name == ModelName && g.cfg.Models != nil {
		if v := g.policy.Load().Name(name); v.Rule == name && !v.Allowed {
			err = refusalFor(v, NotAllowed, "")
		}
	} else {
		err = g.judgeTarget(t)
	}
	if no, ok := errors.AsType[*refusal](err); ok {
		g.reportDenial("dns", t, no)
	}
	return err == nil
}

// assign implements resolver.
func (g *Gateway) assign(name string) (netip.Addr, bool) { return g.names.assignAddr(name) }

// odd implements resolver.
func (g *Gateway) odd(name, kind string) {
	g.reportDenial("dns", target{name: name}, &refusal{RecordType, kind + " records are not given out"})
}

// resetConn ends a connection so that the program sees an error, not an end.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed anyway
	}
	conn.Close()
}
