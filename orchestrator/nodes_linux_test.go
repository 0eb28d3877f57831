package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
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

// askBetween is a run with two effects in its sprite, and a question between them.
const askBetween = `{"execir_version": "1.0", "tools": ["exec.run"], "entry_node": "a", "edges": [{"from": "a", "to": "ask"}, {"from": "ask", "to": "b"}],
 "output": {"count": "$vars.count", "seen": "$vars.b"},
 "nodes": [{"id": "a", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "echo -n A >>/tmp/effects; sleep 1"}},
  {"id": "ask", "op": "HUMAN", "prompt": "How many?", "expected_inputs": {"count": "integer"}, "outputs": {"count": "$vars.count"}},
  {"id": "b", "op": "TOOL_CALL", "tool": "exec.run", "outputs": {"result": "$vars.b"}, "args": {"command": "echo -n B >>/tmp/effects; sleep 1; echo \"<$(cat /tmp/effects)>\""}}]}`

// nodesTest is a cluster with the history of its answers.
type nodesTest struct {
	*cluster
	begun time.Time
	under []string // runs that are under way

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
}

// nodeFault is a fault of a cluster. strike begins it, and returns what ends it: meanwhile is called while clients use the nodes, nil for nothing,
// and mend when the runs have ended.
type nodeFault struct {
	name    string
	deposes bool // another node leads then
	strike  func(c *nodesTest, leader, standby int) (meanwhile, mend func())
}

var (
	leaderKilled = nodeFault{"the leader is killed", true, func(c *nodesTest, leader, _ int) (meanwhile, mend func()) {
		c.kill(leader, syscall.SIGKILL)
		return nil, func() { c.start(leader) }
	}}
	standbyKilled = nodeFault{"a standby is killed", false, func(c *nodesTest, _, standby int) (meanwhile, mend func()) {
		c.kill(standby, syscall.SIGKILL)
		return nil, func() { c.start(standby) }
	}}
	leaderCutOff = nodeFault{"the leader is cut off", true, func(c *nodesTest, leader, _ int) (meanwhile, mend func()) {
		c.cutOff(leader, true)
		return nil, func() { c.cutOff(leader, false) }
	}}
	standbyCutOff = nodeFault{"a standby is cut off", false, func(c *nodesTest, _, standby int) (meanwhile, mend func()) {
		c.cutOff(standby, true)
		return nil, func() { c.cutOff(standby, false) }
	}}
	databaseOutOfReach = nodeFault{"the leader does not reach the database", true, func(c *nodesTest, leader, _ int) (meanwhile, mend func()) {
		c.database.shutFor(c.ipOf(leader))
		return nil, c.database.open
	}}
	spritesOutOfReach = nodeFault{"the leader does not reach the sprites", false, func(c *nodesTest, leader, _ int) (meanwhile, mend func()) {
		c.sprites.shutFor(c.ipOf(leader))
		return func() {
			c.await("a message to or from a sprite is held back", c.sprites.holds)
			c.sprites.open()
		}, func() {}
	}}
	databaseCrashes = nodeFault{"the database crashes", false, func(c *nodesTest, _, _ int) (meanwhile, mend func()) {
		if err := c.server.Stop(); err != nil {
			c.t.Fatal(err)
		}
		return func() {
			c.await("no node leads", func() bool { return c.leader() < 0 })
			if err := c.server.Start(); err != nil {
				c.t.Fatal(err)
			}
		}, func() {}
	}}
)

// Three nodes, of which each is killed and cut off, from the others, the database and the sprites, and a database that crashes, while clients
// start and answer runs through any node. Each effect happens once, no run is lost, a node leads again when the lease has ended, and
// the history of answers and readings is linearizable.
func TestNodes(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	t.Parallel()
	c := &nodesTest{cluster: newCluster(t, true), begun: time.Now()}
	c.startAll()
	c.strikeEach(leaderKilled, standbyKilled, leaderCutOff, standbyCutOff, databaseOutOfReach, spritesOutOfReach, databaseCrashes)
}

// strikeEach strikes with each fault while runs are under way, and checks what became of them.
func (c *nodesTest) strikeEach(faults ...nodeFault) {
	t := c.t
	var runs []string
	for round := range *soakFaults {
		for at, fault := range faults {
			leader := c.awaitLeader()
			standby := (leader + 1 + (round+at)%2) % 3
			both := []string{c.startRun(), c.startRun()}
			runs, c.under = append(runs, both...), both
			c.await("a run asks", func() bool { status, _ := c.read(both[0], leader); return status == "waiting" })
			begun := time.Now()
			meanwhile, mend := fault.strike(c, leader, standby)
			var group sync.WaitGroup
			for n, id := range both {
				for client := range 3 {
					group.Go(func() { c.decide(id, (client+n)%3, strconv.Itoa(client)) })
				}
				group.Go(func() { c.awaitEnd(id) })
			}
			if meanwhile != nil {
				meanwhile()
			}
			next := -1
			if fault.deposes {
				next = c.awaitLeader(leader)
			} else {
				next = c.awaitLeader()
			}
			t.Logf("%s: node %d led, node %d leads after %.1f s", fault.name, leader, next, time.Since(begun).Seconds())
			group.Wait()
			mend()
			c.awaitAll()
			if t.Failed() {
				return
			}
		}
	}
	if result := porcupine.CheckOperationsTimeout(decisionModel, c.history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of answers is not linearizable: %s", result)
	}
	t.Logf("%d runs, %d operations in the history", len(runs), len(c.history))
	_, reply := c.request(c.awaitLeader(), "GET", "/runs", nil)
	for _, run := range runs {
		if !strings.Contains(reply, run) {
			t.Errorf("%s is not listed", run)
		}
	}
	c.endAll()
}

// startRun starts a run, with the same key at one node after the other until one has it.
func (c *nodesTest) startRun() (run string) {
	c.t.Helper()
	key, n := strings.ToLower(rand.Text()[:16]), 0
	c.await("a run is started", func() bool {
		status, reply := c.request(n%3, "POST", "/runs", map[string]any{"flow": json.RawMessage(askBetween), "key": key, "detach": true})
		if n++; status/100 == 4 {
			c.t.Fatalf("start: %d %s", status, reply)
		}
		return status/100 == 2
	})
	return "run_" + key
}

func (c *nodesTest) record(op nodeOp, seen string, call, end time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: len(c.history), Input: op, Call: int64(call), Output: seen, Return: int64(end)})
}

// decide answers the question of a run until it hears that its answer counts or came too late.
func (c *nodesTest) decide(run string, n int, value string) {
	op, unknown := nodeOp{"decide", run, value}, false
	answered := c.reached(func() bool {
		call := time.Since(c.begun)
		status, reply := c.request(n, "POST", "/runs/"+run+"/decide", map[string]any{"decision": "answer", "inputs": map[string]string{"count": value}, "detach": true})
		end := time.Since(c.begun)
		switch {
		case status/100 == 2:
			c.record(op, "ok", call, end)
			return true
		case strings.Contains(reply, `"already_decided"`):
			c.record(op, "late", call, end)
			return true
		case status == 0 || status >= 500:
			if !unknown { // the same answer again changes nothing
				c.record(op, "unknown", call, time.Hour)
			}
			unknown, n = true, (n+1)%3
		}
		return false
	})
	if !answered {
		c.t.Errorf("%s was not answered", run)
	}
}

// read reads a run through a node, and returns its status and the answer of the node.
func (c *nodesTest) read(run string, n int) (status, reply string) {
	call := time.Since(c.begun)
	code, reply := c.request(n, "GET", "/runs/"+run, nil)
	end := time.Since(c.begun)
	var view struct {
		Status  string
		Outputs struct{ Count int }
	}
	if code != http.StatusOK || json.Unmarshal([]byte(reply), &view) != nil {
		return "", reply
	}
	switch view.Status {
	case "waiting":
		c.record(nodeOp{"read", run, ""}, "", call, end)
	case "succeeded":
		c.record(nodeOp{"read", run, ""}, strconv.Itoa(view.Outputs.Count), call, end)
	}
	return view.Status, reply
}

// awaitEnd reads a run through one node after the other until it has succeeded, and checks that each of its effects happened once.
func (c *nodesTest) awaitEnd(run string) {
	status, reply, n := "", "", 0
	ended := c.reached(func() bool {
		status, reply = c.read(run, n%3)
		n++
		return status == "succeeded" || status == "failed" || status == "canceled"
	})
	if !ended || status != "succeeded" || !strings.Contains(reply, `<AB>`) && !strings.Contains(reply, `\u003cAB\u003e`) {
		c.t.Errorf("%s did not succeed with each effect once: %s", run, reply)
	}
}
