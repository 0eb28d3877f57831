package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// flow is a run of two effects outside of the nodes: a line each in a file of the sprite. %d is the number of the run.
const flow = `{"execir_version": "1.0", "tools": ["exec.run"], "entry_node": "a", "edges": [{"from": "a", "to": "b"}],
 "nodes": [{"id": "a", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "echo %[1]d a >>~/effects; sleep 0.3"}},
  {"id": "b", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "echo %[1]d b >>~/effects; sleep 0.3"}}]}`

const (
	atOnce  = 6                // runs that are under way, in a sprite each
	mayTake = 90 * time.Second // a run, a takeover among others
	mayEnd  = 25 * time.Second // a process that was told to end
)

var now = time.Now

// cluster is the processes of the demonstration.
type cluster struct {
	program, dir string
	database     *postgrestest.Server
	temporal     string // program of a Temporal server, "" for none
	env          []string
	addresses    [3]string
	token        string

	mu    sync.Mutex
	all   []*exec.Cmd  // guarded by mu: every process that was started, the newest last
	nodes [3]*exec.Cmd // guarded by mu
}

// open starts the processes, and waits until a node leads.
func (c *cluster) open(ctx context.Context) error {
	database, err := c.database.Create(ctx)
	if err != nil {
		return err
	}
	settings := ""
	if c.temporal != "" {
		address, err := c.startTemporal(ctx)
		if err != nil {
			return err
		}
		settings = fmt.Sprintf("[engine]\ntemporal = %q\nblobs = %q\n", address, filepath.Join(c.dir, "blobs"))
	}
	config := filepath.Join(c.dir, "config.toml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return err
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LATTICE_") && !strings.HasPrefix(v, "SPRITES_") && !strings.HasPrefix(v, "PG") {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, "LATTICE_CONFIG="+config)
	if err := c.startHost(ctx); err != nil {
		return err
	}
	for at := range atOnce {
		if out, err := c.newCommand(ctx, "client", "sprite", "create", spriteName(at)).CombinedOutput(); err != nil {
			return fmt.Errorf("create a sprite: %w\n%s", err, out)
		}
	}
	c.env = append(c.env, "LATTICE_STORE="+database)
	for n := range c.nodes {
		c.addresses[n], err = freeAddress()
		if err != nil {
			return err
		}
		if err := c.startNode(n); err != nil {
			return err
		}
	}
	leader := c.awaitLeader(ctx)
	if leader < 0 {
		return errors.New("no node leads")
	}
	token, err := c.newCommand(ctx, nodeName(leader), "token", "create", "scale", "--role", "admin").Output()
	c.token = strings.TrimSpace(string(token))
	return err
}

func nodeName(n int) string   { return fmt.Sprint("node", n) }
func spriteName(n int) string { return fmt.Sprint("scale", n) }

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// newCommand returns a lattice with a state directory of its own.
func (c *cluster) newCommand(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir, cmd.Env = c.dir, append(c.env[:len(c.env):len(c.env)], "LATTICE_HOME="+filepath.Join(c.dir, name))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches this process alone, which ends the others in order
	return cmd
}

// startProcess starts a process that close ends. Its messages go into a file.
func (c *cluster) startProcess(cmd *exec.Cmd, name string) error {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, cmd)
	return nil
}

// startTemporal starts a Temporal server, and returns its address when it takes connections.
func (c *cluster) startTemporal(ctx context.Context) (string, error) {
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(c.temporal, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--db-filename", filepath.Join(c.dir, "temporal.db"), "--log-level", "never")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.startProcess(cmd, "temporal"); err != nil {
		return "", fmt.Errorf("start a Temporal server: %w", err)
	}
	for deadline := now().Add(mayTake); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		switch {
		case err == nil:
			return address, conn.Close()
		case ctx.Err() != nil || now().After(deadline):
			return "", fmt.Errorf("the Temporal server does not answer: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// startHost starts the host of the sprites, which outlives any node.
func (c *cluster) startHost(ctx context.Context) error {
	cmd := c.newCommand(context.Background(), "host", "sprite", "serve", "--dir", filepath.Join(c.dir, "sprites"))
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout = in
	err = errors.Join(c.startProcess(cmd, "host"), in.Close())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { out.Close() })()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "host.log"))
		return fmt.Errorf("start a host of sprites: %w\n%s", err, log)
	}
	var ready struct{ URL, Token string }
	if err := json.Unmarshal(line, &ready); err != nil {
		return err
	}
	c.env = append(c.env, "SPRITES_API_URL="+ready.URL, "SPRITES_TOKEN="+ready.Token)
	return nil
}

func (c *cluster) startNode(n int) error {
	cmd := c.newCommand(context.Background(), nodeName(n), "serve", "--standby", "--http", c.addresses[n])
	if err := c.startProcess(cmd, nodeName(n)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[n] = cmd
	return nil
}

// close ends all processes, the newest first.
func (c *cluster) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.all) - 1; i >= 0; i-- {
		cmd := c.all[i]
		if cmd.ProcessState != nil {
			continue
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(mayEnd, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its exit code tells of the signal
		late.Stop()
	}
	return nil
}

// awaitLeader returns the node that leads, as soon as there is one; -1 if there is none for long.
func (c *cluster) awaitLeader(ctx context.Context) int {
	client := http.Client{Timeout: time.Second}
	for deadline := now().Add(mayTake); now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		for n, address := range c.addresses {
			resp, err := client.Get("http://" + address + "/readyz")
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return n
			}
		}
	}
	return -1
}

// killLeader kills the leader as kill -9 does, and returns how long it took until another node led. The killed node starts again.
func (c *cluster) killLeader(ctx context.Context) (time.Duration, error) {
	killed := c.awaitLeader(ctx)
	if killed < 0 {
		return 0, errors.New("no node leads")
	}
	c.mu.Lock()
	cmd := c.nodes[killed]
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.mu.Unlock()
	at := now()
	next := c.awaitLeader(ctx)
	if next < 0 {
		return 0, errors.Join(ctx.Err(), errors.New("no node leads after the leader was killed"))
	}
	took := now().Sub(at)
	fmt.Printf("kill -9 of node %d, the leader; node %d led %.1f s later\n", killed, next, took.Seconds())
	return took, c.startNode(killed)
}

// workOff starts the runs, waits until each has ended, and kills the leader when half of them have. It returns how long no node led.
func (c *cluster) workOff(ctx context.Context, runs int) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	numbers, done := make(chan int), make(chan error)
	var group sync.WaitGroup
	for at := range atOnce {
		group.Go(func() {
			for n := range numbers {
				done <- c.runOne(ctx, n, spriteName(at))
			}
		})
	}
	group.Go(func() {
		defer close(numbers)
		for n := range runs {
			numbers <- n
		}
	})
	var kill sync.WaitGroup
	var failed, killFailed error
	for n := range runs { // every run answers, those after a failure at once
		if e := <-done; e != nil && failed == nil {
			failed = e
			cancel()
		}
		if n+1 == (runs+1)/2 && failed == nil {
			fmt.Printf("%d of %d runs done\n", n+1, runs)
			kill.Go(func() { took, killFailed = c.killLeader(ctx) })
		}
	}
	group.Wait()
	kill.Wait()
	return took, errors.Join(failed, killFailed)
}

// runOne starts a run in a sprite and waits until it has succeeded. It asks one node after the other, whichever leads: the key makes starting it
// twice the same as once.
func (c *cluster) runOne(ctx context.Context, n int, sprite string) error {
	key := strings.ToLower(rand.Text()[:16])
	request := map[string]any{"flow": json.RawMessage(fmt.Sprintf(flow, n)), "key": key, "sprite": sprite, "detach": true}
	ctx, cancel := context.WithTimeout(ctx, mayTake)
	defer cancel()
	started, reply := false, ""
	for at := n; ctx.Err() == nil; at++ {
		method, path, body := http.MethodGet, "/runs/run_"+key, any(nil)
		if !started {
			method, path, body = http.MethodPost, "/runs", request
		}
		status, got := c.sendRequest(ctx, at%3, method, path, body)
		var run struct{ Status string }
		switch {
		case status/100 == 4 && status != http.StatusTooManyRequests && !bytes.Contains(got, []byte(`"sprite_busy"`)):
			return fmt.Errorf("run %d: %d %s", n, status, got)
		case status/100 == 2 && !started:
			started = true
			continue
		case status/100 == 2 && json.Unmarshal(got, &run) == nil && run.Status == "succeeded":
			return nil
		case run.Status == "failed" || run.Status == "canceled":
			return fmt.Errorf("run %d: %s", n, got)
		}
		reply = string(got)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("run %d: %w; last answer: %s", n, ctx.Err(), reply)
}

// sendRequest sends a request to a node. status is 0 without a reply.
func (c *cluster) sendRequest(ctx context.Context, n int, method, path string, body any) (status int, reply []byte) {
	var payload io.Reader
	if body != nil {
		raw, _ := json.Marshal(body) // maps of strings can be encoded
		payload = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.addresses[n]+"/api/v1"+path, payload)
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	reply, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, reply
}

// countEffects reads the effects in the sprites, and returns how many effects there are. Each is to be there once.
func (c *cluster) countEffects(ctx context.Context, runs int) (int, error) {
	lines := ""
	for at := range atOnce {
		out, err := c.newCommand(ctx, "client", "sprite", "exec", spriteName(at), "--", "sh", "-c", "touch ~/effects; cat ~/effects").Output()
		if err != nil {
			return 0, fmt.Errorf("read the effects: %w", err)
		}
		lines += string(out)
	}
	return judgeEffects(lines, runs)
}

// judgeEffects compares the lines of effects with those that so many runs are to leave.
func judgeEffects(lines string, runs int) (effects int, err error) {
	times := map[string]int{}
	for line := range strings.Lines(lines) {
		times[strings.TrimSpace(line)]++
		effects++
	}
	for n := range runs {
		for _, step := range []string{"a", "b"} {
			effect := fmt.Sprint(n, " ", step)
			if times[effect] != 1 {
				err = errors.Join(err, fmt.Errorf("run %d: effect %s happened %d times", n, step, times[effect]))
			}
		}
	}
	if err == nil && effects != 2*runs {
		err = fmt.Errorf("%d effects instead of %d", effects, 2*runs)
	}
	return effects, err
}
