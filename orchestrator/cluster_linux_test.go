package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// recovery is how long the nodes may take for anything after a fault. A lease lasts ten seconds, and a machine that runs other tests is slow.
const recovery = 2 * time.Minute

// bridge is the address of this process on the network of nodes in namespaces.
const bridge = "10.213.7.1"

// cluster is three nodes on one database. They reach the database and a host of sprites through gates.
type cluster struct {
	t          *testing.T
	dir        string
	namespaces bool   // each node has a network of its own
	program    string // lattice; "" for that of this process
	env        []string
	server     *postgrestest.Server
	database   *gate
	sprites    *gate
	token      string
	addresses  [3]string

	mu    sync.Mutex
	nodes [3]*node // guarded by mu; nil for one that was killed
}

// node is a process of a node.
type node struct {
	process *os.Process
	ended   chan struct{} // closed when it has ended
}

// newCluster returns three nodes that are not started, with settings that say nothing.
func newCluster(t *testing.T, namespaces bool) *cluster {
	t.Helper()
	if !postgrestest.Installed() {
		t.Skip("no PostgreSQL server in /usr/lib/postgresql")
	}
	dir, err := os.MkdirTemp("", "lattice-nodes-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir, namespaces: namespaces}
	on := "127.0.0.1"
	if namespaces {
		on = bridge
		c.makeNetwork()
	}
	c.server, err = postgrestest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.server.Remove(); err != nil {
			t.Error(err)
		}
	})
	database, err := c.server.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.database = newGate(t, on, "unix", filepath.Join(c.server.Dir, ".s.PGSQL.5432"))
	c.configure("")
	c.env = []string{"LATTICE_CONFIG=" + filepath.Join(dir, "config.toml"), "LATTICE_STORE=" + overTCP(t, database, c.database.address), "SPRITES_API_URL=http://" + c.startSprites(on), "SPRITES_TOKEN=T"}
	for n := range c.nodes {
		c.addresses[n] = fmt.Sprintf("10.213.7.%d:8080", 11+n)
		if !namespaces {
			c.addresses[n] = freeAddress(t)
		}
		t.Cleanup(func() { c.kill(n, syscall.SIGKILL) })
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs()
		}
	})
	return c
}

// configure writes the settings of all nodes.
func (c *cluster) configure(settings string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "config.toml"), []byte(settings), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// startSprites starts a host of sprites, and returns its address.
func (c *cluster) startSprites(on string) string {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	sprites, err := host.Open(core.Config{Dir: c.t.TempDir(), Self: self, Token: "T", AllowHosts: []string{bridge}, Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := sprites.Close(); err != nil {
			c.t.Error(err)
		}
	})
	behind := httptest.NewServer(sprites.Handler())
	c.t.Cleanup(func() { behind.CloseClientConnections(); behind.Close() })
	c.sprites = newGate(c.t, on, "tcp", behind.Listener.Addr().String())
	return c.sprites.address
}

// overTCP returns the URL of a database at another address.
func overTCP(t *testing.T, database, address string) string {
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = address, q.Encode()
	return u.String()
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// makeNetwork makes a bridge and the namespaces of the nodes.
func (c *cluster) makeNetwork() {
	remove := func() { // what an earlier process left, too
		for n := range c.nodes {
			_ = exec.Command("ip", "netns", "del", fmt.Sprint("latn", n)).Run()
		}
		_ = exec.Command("ip", "link", "del", "latbr").Run()
	}
	remove()
	c.t.Cleanup(remove)
	if out, err := exec.Command("ip", "netns", "add", "latn0").CombinedOutput(); err != nil {
		c.t.Skipf("network namespaces cannot be made here: %s", out)
	}
	c.ip("netns", "del", "latn0")
	c.ip("link", "add", "latbr", "type", "bridge")
	c.ip("addr", "add", bridge+"/24", "dev", "latbr")
	c.ip("link", "set", "latbr", "up")
	for n := range c.nodes {
		name, link := fmt.Sprint("latn", n), fmt.Sprint("latv", n)
		c.ip("netns", "add", name)
		c.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
		c.ip("link", "set", link, "master", "latbr", "up")
		c.ip("-n", name, "addr", "add", fmt.Sprintf("10.213.7.%d/24", 11+n), "dev", "eth0")
		c.ip("-n", name, "link", "set", "eth0", "up")
		c.ip("-n", name, "link", "set", "lo", "up")
	}
}

func (c *cluster) ip(args ...string) {
	c.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		c.t.Fatalf("ip %v: %s", args, out)
	}
}

// cutOff ends the network of a node, or makes it again.
func (c *cluster) cutOff(n int, cut bool) {
	state := "up"
	if cut {
		state = "down"
	}
	c.ip("link", "set", fmt.Sprint("latv", n), state)
}

// command returns a lattice of a node, which runs in its network.
func (c *cluster) command(n int, args ...string) *exec.Cmd {
	cmd := latticeIn(c.t, filepath.Join(c.dir, fmt.Sprint("node", n)), args...)
	cmd.Env = append(cmd.Env, c.env...)
	if c.program != "" {
		cmd.Path = c.program
	}
	if c.namespaces {
		inside := exec.Command("ip", append([]string{"netns", "exec", fmt.Sprint("latn", n), cmd.Path}, args...)...)
		inside.Env = cmd.Env
		return inside
	}
	return cmd
}

// start starts a node.
func (c *cluster) start(n int) {
	c.t.Helper()
	args := []string{"serve", "--standby", "--http", c.addresses[n]}
	if c.namespaces {
		args = append(args, "--http-anywhere")
	}
	cmd := c.command(n, args...)
	log, err := os.OpenFile(c.logOf(n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	started := &node{cmd.Process, make(chan struct{})}
	go func() { // ends with the process
		defer close(started.ended)
		_ = cmd.Wait() // its exit code tells of a signal
	}()
	c.mu.Lock()
	c.nodes[n] = started
	c.mu.Unlock()
}

// supervise starts nodes again that have ended by themselves, as a leader does whose work did not end in time.
func (c *cluster) supervise() {
	c.t.Helper()
	for n := range c.nodes {
		c.mu.Lock()
		running := c.nodes[n]
		c.mu.Unlock()
		if running == nil {
			continue
		}
		select {
		case <-running.ended:
			c.start(n)
		default:
		}
	}
}

// startAll starts all nodes, waits until one leads and the others stand by, and makes a token.
func (c *cluster) startAll() {
	c.t.Helper()
	for n := range c.nodes {
		c.start(n)
	}
	token, err := c.command(c.awaitLeader(), "token", "create", "ann", "--role", "admin").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	c.token = strings.TrimSpace(string(token))
	c.awaitAll()
}

func (c *cluster) logOf(n int) string { return filepath.Join(c.dir, fmt.Sprint("node", n, ".log")) }

func (c *cluster) showLogs() {
	for n := range c.nodes {
		log, _ := os.ReadFile(c.logOf(n)) // it may not have been started
		c.t.Logf("the end of the log of node %d: %s", n, log[max(0, len(log)-8000):])
	}
}

// kill ends a node, if it runs, and waits for its end.
func (c *cluster) kill(n int, signal syscall.Signal) {
	c.mu.Lock()
	running := c.nodes[n]
	c.nodes[n] = nil
	c.mu.Unlock()
	if running != nil {
		_ = running.process.Signal(signal) // it may have ended
		<-running.ended
	}
}

// reached waits until a condition holds, and reports whether it does.
func (c *cluster) reached(holds func() bool) bool {
	for deadline := time.Now().Add(recovery); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) || c.t.Context().Err() != nil {
			return false
		}
	}
	return true
}

// await is reached for the goroutine of a test, which ends if the condition does not hold.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	if !c.reached(holds) {
		c.t.Fatalf("%s: not within %v", what, recovery)
	}
}

// ipOf returns the IP address of a node.
func (c *cluster) ipOf(n int) string {
	ip, _, _ := net.SplitHostPort(c.addresses[n])
	return ip
}

// status returns the status with which a node answers a request without a token; 0 for none.
func (c *cluster) status(n int, path string) int {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + c.addresses[n] + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// leader returns the node that leads, other than some; -1 for none.
func (c *cluster) leader(but ...int) int {
	for n := range c.nodes {
		if !slices.Contains(but, n) && c.status(n, "/readyz") == http.StatusOK {
			return n
		}
	}
	return -1
}

// awaitLeader waits until a node leads, other than some, and returns it.
func (c *cluster) awaitLeader(but ...int) (n int) {
	c.t.Helper()
	c.await("a node leads", func() bool {
		c.supervise()
		n = c.leader(but...)
		return n >= 0
	})
	return n
}

// awaitAll waits until all nodes answer, of which one leads.
func (c *cluster) awaitAll() {
	c.t.Helper()
	c.await("one node leads and the others stand by", func() bool {
		c.supervise()
		leaders, healthy := 0, 0
		for n := range c.nodes {
			if c.status(n, "/healthz") == http.StatusOK {
				healthy++
			}
			if c.status(n, "/readyz") == http.StatusOK {
				leaders++
			}
		}
		return leaders == 1 && healthy == len(c.nodes)
	})
}

// request asks a node. status is 0 without a reply.
func (c *cluster) request(n int, method, path string, body any) (status int, reply string) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			c.t.Error(err)
			return 0, ""
		}
		payload = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, "http://"+c.addresses[n]+"/api/v1"+path, payload)
	if err != nil {
		c.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	client := http.Client{Timeout: 4 * time.Second}
	resp, err := client.Do(r)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(raw)
}

// endAll ends the nodes in order, and checks the store that they leave.
func (c *cluster) endAll() {
	c.t.Helper()
	for n := range c.nodes {
		c.kill(n, syscall.SIGINT)
	}
	if out, err := c.command(0, "store", "check").CombinedOutput(); err != nil {
		c.t.Errorf("store check: %v: %s", err, out)
	}
}

// gate passes connections on to a server. Shut for a client it holds all bytes back, as a network does that is interrupted; they
// arrive when it is opened.
type gate struct {
	address string

	mu    sync.Mutex
	moved *sync.Cond      // when one of the fields below changes
	shut  map[string]bool // guarded by mu: for clients with this IP address, "" for all
	held  int             // guarded by mu: how many times bytes were held back
}

func newGate(t *testing.T, on, network, server string) *gate {
	l, err := net.Listen("tcp", on+":0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: l.Addr().String(), shut: map[string]bool{}}
	g.moved = sync.NewCond(&g.mu)
	t.Cleanup(func() { l.Close(); g.open() })
	go func() { // ends with the listener
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(from, network, server)
		}
	}()
	return g
}

func (g *gate) pass(from net.Conn, network, server string) {
	defer from.Close()
	client, _, _ := net.SplitHostPort(from.RemoteAddr().String())
	to, err := net.Dial(network, server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		g.copy(from, to, client)
		from.Close()
	}()
	g.copy(to, from, client)
}

func (g *gate) copy(to io.Writer, from io.Reader, client string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		g.mu.Lock()
		if g.shut[client] || g.shut[""] {
			g.held++
			g.moved.Broadcast()
		}
		for g.shut[client] || g.shut[""] {
			g.moved.Wait()
		}
		g.mu.Unlock()
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}

// shutFor shuts the gate for a client, "" for all.
func (g *gate) shutFor(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut[client], g.held = true, 0
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.shut)
	g.moved.Broadcast()
}

// holds reports whether bytes were held back since the gate was shut.
func (g *gate) holds() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held > 0
}
