package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// nodeOp is an operation of the history of TestNodes: decide or read.
type nodeOp struct{ verb, run, value string }

// decisionModel is the question of a run as one process alone would see it: the first answer counts. The outcome of a request without
// a reply is unknown: it may have counted at any time since.
var decisionModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRun := map[string][]porcupine.Operation{}
		for _, o := range history {
			run := o.Input.(nodeOp).run
			byRun[run] = append(byRun[run], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byRun {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, op, seen := state.(string), input.(nodeOp), output.(string)
		switch {
		case op.verb == "read":
			return seen == now, now
		case seen == "ok":
			return now == "" || now == op.value, op.value
		case seen == "late":
			return now != "" && now != op.value, now
		case now == "":
			return true, op.value
		}
		return true, now
	},
}

const (
	askBetween = `{"execir_version": "1.0", "tools": ["exec.run"], "entry_node": "a", "edges": [{"from": "a", "to": "ask"}, {"from": "ask", "to": "b"}],
 "output": {"count": "$vars.count", "seen": "$vars.b"},
 "nodes": [{"id": "a", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "echo -n A >>/tmp/effects; sleep 1"}},
  {"id": "ask", "op": "HUMAN", "prompt": "How many?", "expected_inputs": {"count": "integer"}, "outputs": {"count": "$vars.count"}},
  {"id": "b", "op": "TOOL_CALL", "tool": "exec.run", "outputs": {"result": "$vars.b"}, "args": {"command": "echo -n B >>/tmp/effects; sleep 1; echo \"<$(cat /tmp/effects)>\""}}]}`
	bridge = "10.213.7.1"
)

// cluster is three nodes in network namespaces on one database, which they reach over a bridge, as they do the host of the sprites.
type cluster struct {
	t       *testing.T
	env     []string
	server  *postgrestest.Server
	token   string
	mu      sync.Mutex
	nodes   [3]*exec.Cmd // guarded by mu
	begun   time.Time
	history []porcupine.Operation // guarded by mu
}

// Three nodes: the leader is killed, cut off from the network, and loses the database, while clients start and answer runs through
// any node. Each effect happens once, no run is lost, another node leads soon, and the history of answers is linearizable.
func TestNodes(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	const runs = 2 // for each fault
	c := newCluster(t)
	for fault, inject := range map[string]func(leader int) (heal func()){
		"killed": func(n int) func() {
			c.kill(n, syscall.SIGKILL)
			return func() { c.start(n) }
		},
		"cut off": func(n int) func() {
			c.ip("link", "set", fmt.Sprint("latv", n), "down")
			return func() { c.ip("link", "set", fmt.Sprint("latv", n), "up") }
		},
		"without database": func(int) func() {
			if err := c.server.Stop(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Second)
			if err := c.server.Start(); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
	} {
		leader := c.leader()
		var ids []string
		for n := range runs {
			ids = append(ids, c.startRun(fmt.Sprintf("%s%d", strings.ReplaceAll(fault, " ", ""), n)))
		}
		time.Sleep(300 * time.Millisecond)
		at := time.Now()
		heal := inject(leader)
		var group sync.WaitGroup
		for n, id := range ids {
			for client := range 3 {
				group.Go(func() { c.decide(id, (client+n)%3, strconv.Itoa(client)) })
			}
		}
		next := c.leader()
		t.Logf("%s: node %d led, node %d after %.1f s", fault, leader, next, time.Since(at).Seconds())
		if took := time.Since(at); took > 25*time.Second {
			t.Errorf("%s: no node led for %v", fault, took)
		}
		group.Wait()
		for _, id := range ids {
			c.awaitEnd(id)
		}
		heal()
	}
	if result := porcupine.CheckOperationsTimeout(decisionModel, c.history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of answers is not linearizable: %s", result)
	}
	t.Logf("%d runs, %d operations", 3*runs, len(c.history))
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, server: postgrestest.Shared(t), begun: time.Now()}
	out, err := exec.Command("ip", "netns", "add", "lat0").CombinedOutput()
	if err != nil {
		t.Skipf("network namespaces cannot be made here: %s", out)
	}
	c.ip("netns", "del", "lat0")
	t.Cleanup(func() { exec.Command("ip", "link", "del", "latbr").Run() })
	c.ip("link", "add", "latbr", "type", "bridge")
	c.ip("addr", "add", bridge+"/24", "dev", "latbr")
	c.ip("link", "set", "latbr", "up")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sprites, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: "T", AllowHosts: []string{bridge}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sprites.Close() })
	l, err := net.Listen("tcp", bridge+":0")
	if err != nil {
		t.Fatal(err)
	}
	api := &http.Server{Handler: sprites.Handler()}
	go api.Serve(l)
	t.Cleanup(func() { api.Close() })
	address, err := url.Parse(postgrestest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Del("host")
	q.Set("sslmode", "disable")
	address.Host, address.RawQuery = c.forwardDatabase(), q.Encode()
	c.env = []string{"LATTICE_STORE=" + address.String(), "SPRITES_API_URL=http://" + l.Addr().String(), "SPRITES_TOKEN=T"}
	for n := range c.nodes {
		name, link := fmt.Sprint("latn", n), fmt.Sprint("latv", n)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
		c.ip("netns", "add", name)
		c.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
		c.ip("link", "set", link, "master", "latbr", "up")
		c.ip("-n", name, "addr", "add", c.address(n)+"/24", "dev", "eth0")
		c.ip("-n", name, "link", "set", "eth0", "up")
		c.ip("-n", name, "link", "set", "lo", "up")
		c.start(n)
		t.Cleanup(func() { c.kill(n, syscall.SIGKILL) })
	}
	cmd := c.command(c.leader(), nil, "token", "create", "ann", "--role", "admin")
	token, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c.token = strings.TrimSpace(string(token))
	return c
}

// forwardDatabase returns an address on the bridge at which the server of the database is.
func (c *cluster) forwardDatabase() string {
	l, err := net.Listen("tcp", bridge+":0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("unix", filepath.Join(c.server.Dir, ".s.PGSQL.5432"))
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					defer to.Close()
					io.Copy(to, from)
				}()
				io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

func (c *cluster) ip(args ...string) {
	c.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		c.t.Fatalf("ip %v: %s", args, out)
	}
}

func (c *cluster) address(n int) string { return fmt.Sprint("10.213.7.", 11+n) }

// command returns a lattice of a node, in its namespace if before says so.
func (c *cluster) command(n int, before []string, args ...string) *exec.Cmd {
	home := filepath.Join(buildDir, fmt.Sprint("node", n))
	cmd := latticeIn(c.t, home, args...)
	cmd.Env = append(cmd.Env, c.env...)
	if before != nil {
		inside := exec.Command(before[0], append(append(before[1:], cmd.Path), args...)...)
		inside.Env = cmd.Env
		return inside
	}
	return cmd
}

// start starts a node, as a supervisor does.
func (c *cluster) start(n int) {
	cmd := c.command(n, []string{"ip", "netns", "exec", fmt.Sprint("latn", n)}, "serve", "--standby", "--http", c.address(n)+":8080", "--http-anywhere")
	log, err := os.OpenFile(filepath.Join(buildDir, fmt.Sprint("node", n, ".log")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.nodes[n] = cmd
	c.mu.Unlock()
}

func (c *cluster) kill(n int, signal syscall.Signal) {
	c.mu.Lock()
	cmd := c.nodes[n]
	c.nodes[n] = nil
	c.mu.Unlock()
	if cmd != nil {
		cmd.Process.Signal(signal)
		cmd.Wait()
	}
}

// leader returns the node that leads.
func (c *cluster) leader() int {
	client := http.Client{Timeout: time.Second}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for n := range c.nodes {
			resp, err := client.Get("http://" + c.address(n) + ":8080/readyz")
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return n
			}
		}
	}
	for n := range c.nodes {
		log, _ := os.ReadFile(filepath.Join(buildDir, fmt.Sprint("node", n, ".log")))
		c.t.Logf("node %d: %s", n, log)
	}
	c.t.Error("no node leads")
	return 0
}

// request asks a node. status is 0 without a reply.
func (c *cluster) request(n int, method, path string, body any) (status int, reply string) {
	var payload io.Reader
	if body != nil {
		raw, _ := json.Marshal(body)
		payload = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, "http://"+c.address(n)+":8080/api/v1"+path, payload)
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

// startRun starts a run, with the same key at one node after the other until one has it.
func (c *cluster) startRun(name string) string {
	key := (name + "aaaaaaaaaaaaaaaa")[:16]
	key = strings.Map(func(r rune) rune {
		if r == '0' || r == '1' || r >= '8' && r <= '9' {
			return 'x' + (r-'0')%3
		}
		return r
	}, key)
	for n := range 60 {
		status, reply := c.request(n%3, "POST", "/runs", map[string]any{"flow": json.RawMessage(askBetween), "key": key, "detach": true})
		if status/100 == 2 {
			return "run_" + key
		}
		if status/100 == 4 {
			c.t.Fatalf("start: %d %s", status, reply)
		}
		time.Sleep(500 * time.Millisecond)
	}
	c.t.Fatalf("run %s was not started", name)
	return ""
}

func (c *cluster) record(op nodeOp, seen string, call, end time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: len(c.history), Input: op, Call: int64(call), Output: seen, Return: int64(end)})
}

// decide answers the question of a run until it hears that its answer counts or came too late.
func (c *cluster) decide(run string, n int, value string) {
	op, unknown := nodeOp{"decide", run, value}, false
	for deadline := time.Now().Add(45 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		call := time.Since(c.begun)
		status, reply := c.request(n, "POST", "/runs/"+run+"/decide", map[string]any{"decision": "answer", "inputs": map[string]string{"count": value}, "detach": true})
		end := time.Since(c.begun)
		switch {
		case status/100 == 2:
			c.record(op, "ok", call, end)
			return
		case strings.Contains(reply, `"already_decided"`):
			c.record(op, "late", call, end)
			return
		case status == 0 || status >= 500:
			if !unknown { // the same answer again changes nothing
				c.record(op, "unknown", call, time.Hour)
			}
			unknown, n = true, (n+1)%3
		}
	}
	c.t.Errorf("run %s was not answered", run)
}

// awaitEnd waits until a run has succeeded, and checks that each of its effects happened once.
func (c *cluster) awaitEnd(run string) {
	reply := ""
	for n := range 150 {
		call := time.Since(c.begun)
		status, got := c.request(n%3, "GET", "/runs/"+run, nil)
		var view struct {
			Status  string
			Outputs struct{ Count int }
		}
		if status == http.StatusOK && json.Unmarshal([]byte(got), &view) == nil && view.Status == "succeeded" {
			c.record(nodeOp{"read", run, ""}, strconv.Itoa(view.Outputs.Count), call, time.Since(c.begun))
			if !strings.Contains(got, `<AB>`) && !strings.Contains(got, `\u003cAB\u003e`) {
				c.t.Errorf("run %s: effects are not once each: %s", run, got)
			}
			return
		}
		reply = got
		time.Sleep(200 * time.Millisecond)
	}
	c.t.Errorf("run %s did not succeed: %s", run, reply)
}
