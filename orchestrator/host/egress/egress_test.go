package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compile(t *testing.T, rules ...Rule) *Policy {
	t.Helper()
	p, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestVerdicts(t *testing.T) {
	p := compile(t,
		Rule{Include: "defaults"}, Rule{"*.example.com", Allow, ""}, Rule{"*.b.example.com", Deny, ""}, Rule{"c.b.example.com", Allow, ""},
		Rule{"twice.org", Allow, ""}, Rule{"twice.org", Deny, ""}, Rule{"Bücher.example", Allow, ""}, Rule{"*.npmjs.org", Deny, ""},
		Rule{"1.2.0.0/16", Allow, ""}, Rule{"1.2.3.0/24", Deny, ""}, Rule{"*", Deny, ""})
	for name, want := range map[string]bool{
		"a.example.com": true, "A.Example.COM.": true, "x.y.example.com": true, "example.com": false, "badexample.com": false,
		"a.b.example.com": false, "b.example.com": true, "c.b.example.com": true, "d.c.b.example.com": false, "twice.org": false,
		"bücher.example": true, "xn--bcher-kva.example": true, "github.com": true, "evil.github.com": false,
		"registry.npmjs.org": false, // what a sprite's own rules say goes first
		"":                   false, ".": false, "a..example.com": false, "-a.example.com": false, "a b.example.com": false,
		strings.Repeat("a", 64) + ".example.com": false, "1.2.4.5": false,
	} {
		if got := p.Name(name); got.Allowed != want {
			t.Errorf("Name(%q) = %+v, want %v", name, got, want)
		}
	}
	for addr, want := range map[string]bool{"1.2.4.5": true, "1.2.3.4": false, "::ffff:1.2.4.5": true, "9.9.9.9": false} {
		if got := p.Addr(netip.MustParseAddr(addr)); got.Allowed != want {
			t.Errorf("Addr(%s) = %+v, want %v", addr, got, want)
		}
	}
	if star := compile(t, Rule{"*", Allow, ""}); !star.Name("any.where").Allowed || star.Addr(netip.MustParseAddr("9.9.9.9")).Allowed {
		t.Error("* allows all names and no addresses")
	}
}

func TestDefaultsAreNames(t *testing.T) {
	list := defaultDomains()
	if len(list) < 50 {
		t.Fatalf("defaults hold %d names", len(list))
	}
	seen := map[string]bool{}
	for _, d := range list {
		if n, err := ruleName(d); err != nil || n != d || seen[d] {
			t.Errorf("%s: %q, %v, twice %v", d, n, err, seen[d])
		}
		seen[d] = true
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	for _, d := range []string{"", "http://x.com", "x.com:443", "x.com/path", "*x.com", "*.*.com", "a.*", "2130706433", "0x7f.1", "1.2.3", "10.0.0.0/8", "127.0.0.1", "[::1]", "fe80::1%eth0", "::ffff:10.0.0.0/104", "1.2.3.4/99", "a..b", "ex ample.com", "*."} {
		if _, err := Compile([]Rule{{Domain: d, Action: Allow}}); err == nil {
			t.Errorf("%q is taken for a domain", d)
		}
	}
}

// TestParseRefusesDuplicates checks that a document with two equal members is refused; encoding/json would take the last.
func TestParseRefusesDuplicates(t *testing.T) {
	for _, document := range []string{
		`{"rules":[{"domain":"*","action":"deny"}],"rules":[]}`,
		`{"rules":[],"\u0072ules":[{"domain":"*","action":"allow"}]}`,
		`{"rules":[{"domain":"example.com","action":"deny","action":"allow"}]}`,
		`{"rules":[{"domain":"a.example","domain":"b.example","action":"allow"}]}`,
	} {
		if rules, err := Parse([]byte(document)); err == nil {
			t.Errorf("Parse(%s) = %v, want an error", document, rules)
		}
	}
}

// A name is judged alike in all its spellings, and a rule about a name never says anything about its siblings.
func TestSpellings(t *testing.T) {
	label := rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		name := label.Draw(t, "a") + "." + label.Draw(t, "b") + "." + label.Draw(t, "c")
		p, err := Compile([]Rule{{Domain: name, Action: Allow}})
		if err != nil {
			t.Fatal(err)
		}
		if !p.Name(strings.ToUpper(name)+".").Allowed || p.Name("x"+name).Allowed || p.Name("x."+name).Allowed {
			t.Fatalf("%s is judged wrongly", name)
		}
	})
}

func TestAddressesThatNoSpriteReaches(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.31.255.255", "192.168.1.1", "100.64.1.1", "169.254.169.254", "224.0.0.1", "255.255.255.255", "198.18.0.1", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::", "fc00::1", "fd00:ec2::254", "fe80::1", "ff02::1", "2001:db8::1"} {
		if !isBlocked(netip.MustParseAddr(a)) {
			t.Errorf("%s may be dialled", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"} {
		if isBlocked(netip.MustParseAddr(a)) {
			t.Errorf("%s may not be dialled", a)
		}
	}
}

func TestTableNeverRebindsWhatIsUsed(t *testing.T) {
	now := time.Unix(0, 0)
	table := newTable(3, func() time.Time { return now })
	a, _ := table.assignAddr("a")
	table.assignAddr("b")
	table.assignAddr("c")
	if _, ok := table.assignAddr("d"); ok {
		t.Error("a fresh answer was taken away")
	}
	now = now.Add(2 * answerTTL)
	name, release, ok := table.useName(a)
	if !ok || name != "a" {
		t.Fatalf("use = %q, %v", name, ok)
	}
	for i := range 50 {
		now = now.Add(2 * answerTTL)
		if got, ok := table.assignAddr(fmt.Sprintf("n%d", i)); !ok || got == a {
			t.Fatalf("assign %d = %v, %v", i, got, ok)
		}
	}
	if name, again, ok := table.useName(a); !ok || name != "a" {
		t.Errorf("the used address is %q's, %v", name, ok)
	} else {
		again()
	}
	release()
	now = now.Add(2 * answerTTL)
	table.assignAddr("e")
	if _, _, ok := table.useName(a); ok {
		t.Error("the unused address of the least recent name is kept")
	}
}

func query(name string, kind dnsmessage.Type) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func gateway(rules ...Rule) *Gateway {
	p, err := Compile(rules)
	if err != nil {
		panic(err)
	}
	return New(Config{Denials: NewDenials(time.Now, nil), Now: time.Now, Upstream: Upstream{}}, p)
}

func TestAnswers(t *testing.T) {
	g := gateway(Rule{"good.example", Allow, ""})
	for _, c := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers int
	}{
		{"good.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"GOOD.Example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"good.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"good.example.", typeHTTPS, dnsmessage.RCodeSuccess, 0},
		{"good.example.", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
		{"good.example.", dnsmessage.TypeALL, dnsmessage.RCodeRefused, 0},
		{"secret.bad.example.", dnsmessage.TypeA, dnsmessage.RCodeRefused, 0},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeRefused, 0},
		{"localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
	} {
		var m dnsmessage.Message
		if err := m.Unpack(answerQuery(query(c.name, c.kind), g)); err != nil {
			t.Fatal(err)
		}
		if m.RCode != c.code || len(m.Answers) != c.answers || m.ID != 7 || !m.Response {
			t.Errorf("%s %s: %s with %d answers, want %s with %d", c.name, c.kind, m.RCode, len(m.Answers), c.code, c.answers)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(query("good.example.", dnsmessage.TypeA))
	f.Add([]byte{})
	f.Add(make([]byte, maxQuestion+1))
	f.Add(append(query("good.example.", dnsmessage.TypeA)[:12], 0xc0, 0x0c, 0, 1, 0, 1))
	g := gateway(Rule{"good.example", Allow, ""})
	f.Fuzz(func(t *testing.T, packet []byte) {
		reply := answerQuery(packet, g)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response || len(reply) > 600 {
			t.Errorf("reply of %d bytes: %v", len(reply), err)
		}
	})
}

// proxied serves a gateway's proxy whose names all lead to a server that answers and then ends.
func proxyOf(t testing.TB, g *Gateway, secret string, serve func(net.Conn)) string {
	t.Helper()
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.cfg.Upstream = Upstream{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr() != netip.MustParseAddr("93.184.216.34") {
				return nil, fmt.Errorf("dialled %s", to)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", far.Addr().String())
		},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := far.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); g.ServeProxy(ctx, near, secret) }()
	t.Cleanup(func() { cancel(); <-done; far.Close(); <-served })
	return near.Addr().String()
}

func TestProxy(t *testing.T) {
	g := gateway(Rule{"good.example", Allow, ""})
	address := proxyOf(t, g, "s3cret", func(c net.Conn) {
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		}
	})
	const login = "Proxy-Authorization: Basic c3ByaXRlOnMzY3JldA==\r\n"
	for name, c := range map[string]struct{ send, want string }{
		"a URL":              {"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n" + login + "\r\n", "HTTP/1.1 200 OK"},
		"a denied URL":       {"GET http://bad.example/ HTTP/1.1\r\nHost: good.example\r\n" + login + "\r\n", "HTTP/1.1 403 Forbidden"},
		"a tunnel":           {"CONNECT good.example:80 HTTP/1.1\r\n" + login + "\r\n", "HTTP/1.1 200 Connection established"},
		"a denied tunnel":    {"CONNECT bad.example:80 HTTP/1.1\r\n" + login + "\r\n", "HTTP/1.1 403 Forbidden"},
		"an address":         {"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + login + "\r\n", "HTTP/1.1 403 Forbidden"},
		"no password":        {"CONNECT good.example:80 HTTP/1.1\r\n\r\n", "HTTP/1.1 407"},
		"no proxy's request": {"GET / HTTP/1.1\r\nHost: x\r\n" + login + "\r\n", "HTTP/1.1 400"},
		"socks":              {"\x05\x01\x02\x01\x06sprite\x06s3cret\x05\x01\x00\x03\x0cgood.example\x00\x50", "\x05\x02\x01\x00\x05\x00"},
		"socks, denied":      {"\x05\x01\x02\x01\x06sprite\x06s3cret\x05\x01\x00\x03\x0bbad.example\x00\x50", "\x05\x02\x01\x00\x05\x02"},
		"socks, no password": {"\x05\x01\x00", "\x05\xff"},
		"nonsense":           {"\x00\x01\x02\r\n\r\n", ""},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, c.send)
		conn.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(conn)
		conn.Close()
		if !strings.HasPrefix(string(got), c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestProxyBoundsHeads checks that the line and the headers of a request are bounded, and that its content is not.
func TestProxyBoundsHeads(t *testing.T) {
	t.Parallel()
	g := gateway(Rule{"good.example", Allow, ""})
	address := proxyOf(t, g, "", func(c net.Conn) {
		defer c.Close()
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d bytes", n)
		}
	})
	const first, size = "POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\n", 2 * maxRequest
	field := "X-A: " + strings.Repeat("a", 1017) + "\r\n"
	for name, tt := range map[string]struct{ send, want string }{
		"many fields":  {first + strings.Repeat(field, size/len(field)) + "\r\n", ""},
		"a long field": {first + "X-A: " + strings.Repeat("a", size) + "\r\n\r\n", ""},
		"a long line":  {"GET http://good.example/" + strings.Repeat("a", size) + " HTTP/1.1\r\n\r\n", ""},
		"long content": {first + fmt.Sprintf("Content-Length: %d\r\n\r\n", size) + strings.Repeat("a", size), fmt.Sprintf("%d bytes", size)},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, tt.send)
		got, _ := io.ReadAll(conn)
		conn.Close()
		if tt.want == "" && len(got) > 0 || !strings.HasSuffix(string(got), tt.want) {
			t.Errorf("%s: %.200q, want %q", name, got, tt.want)
		}
	}
}

// Both ends can end their direction and go on with the other.
func TestHalfClose(t *testing.T) {
	g := gateway(Rule{"good.example", Allow, ""})
	address := proxyOf(t, g, "", func(c net.Conn) {
		defer c.Close()
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(all))
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "CONNECT good.example:80 HTTP/1.1\r\n\r\n")
	r := bufio.NewReader(conn)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	conn.Write(make([]byte, 1<<20))
	conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "1048576 bytes" {
		t.Errorf("got %q, %v", got, err)
	}
	if s := g.Stats(); s.Connections != 1 || s.Sent != 1<<20 {
		t.Errorf("stats = %+v", s)
	}
}

func TestDenialsAreCountedAndBounded(t *testing.T) {
	logged := 0
	now := time.Unix(0, 0)
	d := NewDenials(func() time.Time { return now }, func(Denial) { logged++ })
	for i := range 1000 {
		d.addDenial(Denial{Kind: "dns", Name: fmt.Sprint(i % 300), Code: NotAllowed})
	}
	if n := len(d.List()); n != maxDenials || logged != logBurst {
		t.Errorf("%d kept, %d logged", n, logged)
	}
	d.addDenial(Denial{Kind: "dns", Name: d.List()[7].Name, Code: NotAllowed})
	if got := d.List()[0]; got.Count < 2 {
		t.Errorf("the last one = %+v", got)
	}
}

func BenchmarkRelay(b *testing.B) {
	g := gateway(Rule{"good.example", Allow, ""})
	address := proxyOf(b, g, "", func(c net.Conn) {
		defer c.Close()
		io.Copy(io.Discard, c)
	})
	chunk := make([]byte, 1<<20)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "CONNECT good.example:80 HTTP/1.1\r\n\r\n")
	bufio.NewReaderSize(conn, 64).ReadString('\n')
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := conn.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
