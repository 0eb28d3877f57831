package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// world is the part of the network that these tests have: every public address leads to one local server, and names lead
// where the test says.
type world struct {
	t      *testing.T
	client *sprites.Client
	url    string
	mu     sync.Mutex
	names  map[string]string       // guarded by mu
	dialed []netip.AddrPort        // guarded by mu
	sites  map[string]http.Handler // by the Host that is asked for; set before anything is
}

// newWorld is one in which policies are enforced; where they cannot be, the test is skipped.
func newWorld(t *testing.T, preset egress.Preset, hostPorts ...uint16) *world {
	t.Helper()
	w := openWorld(t, func(*host.Host) {}, preset, hostPorts...)
	s, err := w.client.Get(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	if s.Network.Enforcement != "enforced" {
		t.Skipf("the network policy is not enforced here: %+v", s.Network)
	}
	return w
}

func openWorld(t *testing.T, prepare func(*host.Host), preset egress.Preset, hostPorts ...uint16) *world {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: what programs see of the network is not tried")
	}
	w := &world{t: t, names: map[string]string{"good.example": "93.184.216.34", "a.good.example": "93.184.216.35", "other.example": "93.184.216.36"}}
	far := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if site := w.sites[r.Host]; site != nil {
			site.ServeHTTP(out, r)
			return
		}
		if r.URL.Path == "/hang" {
			out.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(out, "hello %s", r.Host)
	}))
	t.Cleanup(far.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Log: zerolog.Nop(), Network: core.Network{
		Preset: preset, HostPorts: hostPorts,
		Upstream: egress.Upstream{
			Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if a, ok := w.names[name]; ok {
					return []netip.Addr{netip.MustParseAddr(a)}, nil
				}
				return nil, errors.New("no such name")
			},
			Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				w.mu.Lock()
				w.dialed = append(w.dialed, to)
				w.mu.Unlock()
				return new(net.Dialer).DialContext(ctx, "tcp", far.Listener.Addr().String())
			},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	prepare(h)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	w.url, w.client = server.URL, sprites.New(server.URL, "", nil)
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// python runs a program in the sprite and returns what it says.
func (w *world) python(program string) string {
	w.t.Helper()
	var out bytes.Buffer
	_, err := w.client.Exec(w.t.Context(), "box", sprites.Exec{Cmd: []string{"python3", "-c", program}, Stdout: &out, Stderr: &out})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func (w *world) get(url string) string {
	w.t.Helper()
	return w.python(`import urllib.request
try: print(urllib.request.urlopen("` + url + `", timeout=8).read().decode())
except OSError as e: print("refused:", e)`)
}

func (w *world) policy(status int, document string) {
	w.t.Helper()
	res, err := http.Post(w.url+"/v1/sprites/box/policy/network", "application/json", strings.NewReader(document))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != status {
		w.t.Errorf("POST policy %s = %d %s, want %d", document, res.StatusCode, text, status)
	}
}

// reached is where the gateway has connected to.
func (w *world) reached() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func (w *world) denials() (list []egress.Denial) {
	w.t.Helper()
	res, err := http.Get(w.url + "/v1/sprites/box/policy/network/denials")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct{ Denials []egress.Denial }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		w.t.Fatal(err)
	}
	return out.Denials
}

func TestNetworkPolicy(t *testing.T) {
	w := newWorld(t, egress.None)
	if got := w.get("http://good.example/"); !strings.HasPrefix(got, "refused:") {
		t.Errorf("without a rule: %q", got)
	}
	w.policy(204, `{"rules":[{"domain":"good.example","action":"allow"},{"domain":"198.41.0.0/24","action":"allow"},{"domain":"*.example","action":"deny"},{"domain":"inside.test","action":"allow"}]}`)
	for url, want := range map[string]string{
		"http://good.example/":       "hello good.example",
		"http://a.good.example/":     "refused:",
		"http://other.example/":      "refused:",
		"http://198.41.0.4/":         "hello 198.41.0.4",
		"http://93.184.216.34/":      "refused:", // the address of an allowed name, but nobody asked for the name
		"http://198.18.200.7/":       "refused:", // stands for no name
		"http://169.254.169.254/":    "refused:",
		"http://10.0.0.1/":           "refused:",
		"http://0.0.0.0:9/":          "refused:",
		"http://2130706433/":         "refused:",
		"http://[::ffff:10.0.0.1]/":  "refused:",
		"http://[2606:4700::1111]/":  "refused:",
		"http://nowhere.inside.test": "refused:",
	} {
		if got := w.get(url); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	codes := map[egress.Code]bool{}
	for _, d := range w.denials() {
		codes[d.Code] = true
	}
	for _, want := range []egress.Code{egress.NotAllowed, egress.DeniedByRule, egress.RawAddress, egress.PrivateAddress} {
		if !codes[want] {
			t.Errorf("no denial %s in %v", want, w.denials())
		}
	}
	if got := w.python(`print(open("/.sprite/policy/network.json").read())
try: open("/.sprite/policy/network.json", "w")
except OSError as e: print("refused")`); !strings.Contains(got, `"domain":"good.example"`) || !strings.HasSuffix(got, "refused") {
		t.Errorf("mirror: %q", got)
	}
}

func TestNamesThatLeadInside(t *testing.T) {
	w := newWorld(t, egress.Open)
	for _, inside := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "::1", "fd00:ec2::254", "::ffff:192.168.0.1", "0.0.0.0", "64:ff9b::a00:1", "198.18.0.5"} {
		w.mu.Lock()
		w.names["rebound.example"], w.dialed = inside, nil
		w.mu.Unlock()
		if got := w.get("http://rebound.example/"); !strings.HasPrefix(got, "refused:") {
			t.Errorf("%s: %q", inside, got)
		}
		if dialed := w.reached(); len(dialed) > 0 {
			t.Errorf("%s was dialled: %v", inside, dialed)
		}
	}
	if got := w.get("http://good.example/"); got != "hello good.example" {
		t.Errorf("a public name: %q", got)
	}
}

func TestHostPorts(t *testing.T) {
	w := newWorld(t, egress.None, 11434)
	if got := w.get("http://host.lattice.internal:11434/"); got != "hello host.lattice.internal:11434" {
		t.Errorf("a listed port: %q", got)
	}
	if dialed := w.reached(); len(dialed) == 0 || dialed[0] != netip.MustParseAddrPort("127.0.0.1:11434") {
		t.Errorf("dialled %v", dialed)
	}
	if got := w.get("http://host.lattice.internal:11435/"); !strings.HasPrefix(got, "refused:") {
		t.Errorf("a port that is not listed: %q", got)
	}
	if got := w.get(strings.Replace(w.url, "127.0.0.1", "host.lattice.internal", 1)); !strings.HasPrefix(got, "refused:") {
		t.Errorf("the host's own API: %q", got)
	}
}

func TestPolicyChangesCutConnections(t *testing.T) {
	w := newWorld(t, egress.Open)
	ended := make(chan string, 1)
	begun, ready := io.Pipe()
	go func() {
		var out bytes.Buffer
		_, err := w.client.Exec(t.Context(), "box", sprites.Exec{Cmd: []string{"python3", "-uc", `import socket
s = socket.create_connection(("good.example", 80)); s.send(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n"); s.recv(9); print("open")
try:
    while s.recv(999): pass
    print("ended")
except OSError as e: print("cut")`}, Stdout: io.MultiWriter(ready, &out), Stderr: &out})
		ended <- fmt.Sprint(strings.Join(strings.Fields(out.String()), " "), err)
	}()
	if _, err := io.ReadFull(begun, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, begun)
	w.policy(204, `{"rules":[{"domain":"other.example","action":"allow"}]}`)
	if got := <-ended; !strings.HasPrefix(got, "open cut") {
		t.Errorf("the open connection: %q", got)
	}
	ready.Close()
	if d := w.denials(); len(d) == 0 || d[0].Code != egress.PolicyChanged {
		t.Errorf("denials = %v", d)
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	w := newWorld(t, egress.Open)
	for _, bad := range []string{
		``, `[]`, `{}`, `{"rules":null}`, `{"rules":{}}`, `{"rules":[],"x":1}`, `{"rules":[{}]}`, `{"rules":[{"domain":"x.com"}]}`,
		`{"rules":[{"domain":"x.com","action":"maybe"}]}`, `{"rules":[{"domain":"x.com","action":"allow","port":1}]}`,
		`{"rules":[{"include":"defaults","domain":"x.com","action":"allow"}]}`, `{"rules":[{"include":"all"}]}`,
		`{"rules":[{"domain":"https://x.com","action":"allow"}]}`, `{"rules":[{"domain":"a*.com","action":"allow"}]}`,
		`{"rules":[{"domain":"10.0.0.0/8","action":"allow"}]}`, `{"rules":[]}{}`, `{"Rules":[]}`,
	} {
		w.policy(400, bad)
	}
	w.policy(204, `{"rules":[]}`)
	w.policy(204, `{"rules":[{"include":"defaults"},{"domain":"*","action":"deny"}]}`)
}
