package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

var soakFaults = flag.Int("soak-faults", 1, "rounds of each test of faults: processes killed, frames lost, disks that are slow or fail, clocks that jump, sprites that take all")

// drive resumes and approves the run of a job, as a person would, until the result is pushed or the run has ended. It returns the status
// of the run.
func (j *job) drive(t *testing.T, flags ...string) string {
	t.Helper()
	next := append(j.start(t), flags...)
	if j.status(t).ID != "" {
		next = []string{"resume"}
	}
	for range 20 {
		cmd := exec.Command(j.bin, next...)
		cmd.Dir, cmd.Env = j.dir, append(j.env, "KILL_COUNTER="+j.counter(), "KILL_AT=0")
		out, _ := cmd.CombinedOutput() // the status says it all
		status := j.status(t).Status
		switch status {
		case "succeeded", "failed", "canceled":
			return status
		case "waiting":
			next = []string{"approve"}
		case "":
			next = append(j.start(t), flags...)
		default:
			next = []string{"resume"}
			t.Logf("exit %d, the run is %s: %s", cmd.ProcessState.ExitCode(), status, bytes.TrimSpace(out))
		}
	}
	t.Errorf("the run does not end: %+v", j.status(t))
	return ""
}

// start writes the input of the main job, unless it is there, and returns the command that starts it.
func (j *job) start(t *testing.T) []string {
	t.Helper()
	path := j.dir + "/input.json"
	if _, err := os.Stat(path); err != nil {
		input := `{"agent_command":["sh","-c","cat >/dev/null; printf 'fixed\\n' >state"],"test_command":"sh check.sh","prompt":"fix it"}`
		if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"run", "fix-and-propose", "--repo", j.dir + "/origin.git", "--input-file", path}
}

// status returns the only run of the job, without an id if there is none. It asks again while no process leads.
func (j *job) status(t *testing.T) (run listed) {
	t.Helper()
	var out []byte
	var err error
	for range 50 {
		cmd := exec.Command(j.bin, "runs", "--json")
		cmd.Dir, cmd.Env = j.dir, j.env
		if out, err = cmd.Output(); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	var runs []listed
	if err := json.Unmarshal(out, &runs); err != nil {
		t.Fatalf("runs: %v: %s", err, out)
	}
	if len(runs) > 0 {
		run = runs[0]
	}
	return run
}

// remoteHost gives the job a host of sprites elsewhere, behind a middleman.
func (j *job) remoteHost(t *testing.T) *Middleman {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: "T", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	man := NewMiddleman(t, h.Handler())
	j.env = append(j.env, "SPRITES_API_URL="+man.URL, "SPRITES_TOKEN=T")
	return man
}

// TestFramesAreLost delivers some messages of a call twice, and drops some before the connection ends. Lattice reads the missing events
// from the outbox, and the run ends as it does without faults.
func TestFramesAreLost(t *testing.T) {
	t.Parallel()
	for n := range *soakFaults {
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 3))
		j := newJob(t)
		man := j.remoteHost(t)
		var mu sync.Mutex // guards the numbers and random
		dropped, twice, calls := 0, 0, 0
		skill := func(r *http.Request) bool { return Exec(r) && strings.HasPrefix(r.URL.Query().Get("path"), "/skills/") }
		man.Do(Fault{On: skill, Times: -1, Down: func(f Frame, send func(Frame)) bool {
			mu.Lock()
			defer mu.Unlock()
			switch n := random.IntN(6); {
			case f.Op == OpHandshake:
				calls++
			case n == 0 && dropped < 4: // a call that is lost five times fails
				dropped++
				return false // no connection loses a message and goes on
			case n < 3:
				twice++
				send(f)
				send(f)
			default:
				send(f)
			}
			return true
		}})
		if status := j.drive(t); status != "succeeded" {
			t.Errorf("the run is %s", status)
		}
		man.Behave()
		t.Logf("round %d, seed %d: %d frames were dropped and %d came twice, in %d calls", n, seed, dropped, twice, calls)
		j.check(t)
		if t.Failed() {
			return
		}
		j.remove()
	}
}

// victim is a kind of process, found by its command line below a parent.
type victim struct {
	name  string
	match func(command string) bool
}

func (v victim) find(parent int) (pids []int) {
	for _, pid := range descendants(parent) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone
		if v.match(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestKillEachKind kills processes with -9 while a job works: the server that leads, the client that follows it, the host of remote sprites,
// a skill and an agent. Other tests kill the other kinds. The run continues or fails with a reason, and the origin has a whole commit.
func TestKillEachKind(t *testing.T) {
	for _, kind := range []string{"serve", "client", "host", "skill", "agent"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for n := range *soakFaults {
				j := newJob(t)
				outcome := j.killKind(t, kind, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(n))))
				t.Logf("round %d: %s", n, outcome)
				if t.Failed() {
					return
				}
				j.remove()
			}
		})
	}
}

// killKind runs a job and kills a process of a kind once.
func (j *job) killKind(t *testing.T, kind string, random *rand.Rand) string {
	t.Helper()
	begin := func(args ...string) *exec.Cmd {
		cmd := exec.Command(j.bin, args...)
		cmd.Dir, cmd.Env = j.dir, append(j.env, "KILL_COUNTER="+j.counter(), "KILL_AT=0")
		log, err := os.OpenFile(j.dir+"/begun.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	}
	writes := 1 + random.IntN(12) // after which the victim dies
	killAfter := func(cmd *exec.Cmd) chan struct{} {
		done := make(chan struct{})
		go func() { // ends with the kill, or with the test
			defer close(done)
			for j.writes() < writes && t.Context().Err() == nil {
				time.Sleep(2 * time.Millisecond)
			}
			_ = cmd.Process.Kill()
		}()
		return done
	}
	struck := fmt.Sprintf("after %d writes", writes)
	switch kind {
	case "serve":
		serve := begin("serve")
		defer end(serve)
		j.status(t)
		defer func(done chan struct{}) { <-done }(killAfter(serve))
	case "client":
		serve := begin("serve")
		defer end(serve)
		j.status(t)
		client := begin(j.start(t)...)
		<-killAfter(client)
		_ = client.Wait()
	case "host":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		args := []string{"sprite", "serve", "--dir", filepath.Join(j.dir, "host"), "--token", "T", "--listen", address}
		up := func() *exec.Cmd {
			cmd := begin(args...)
			for range 200 {
				if c, err := net.Dial("tcp", address); err == nil {
					c.Close()
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			return cmd
		}
		first := up()
		j.env = append(j.env, "SPRITES_API_URL=http://"+address, "SPRITES_TOKEN=T")
		again := make(chan *exec.Cmd)
		done := killAfter(first)
		go func() {
			<-done
			_ = first.Wait()
			again <- up()
		}()
		defer func() { end(<-again) }()
	default:
		v := map[string]victim{
			"skill": {"skill", func(c string) bool { return strings.HasPrefix(c, "/skills/") }},
			"agent": {"agent", func(c string) bool { return strings.HasPrefix(c, "sh -c cat >/dev/null") }},
		}[kind]
		if kind == "agent" { // it works for a while
			input := `{"agent_command":["sh","-c","cat >/dev/null; sleep 0.3; printf 'fixed\\n' >state"],"test_command":"sh check.sh"}`
			if err := os.WriteFile(j.dir+"/input.json", []byte(input), 0o600); err != nil {
				t.Fatal(err)
			}
			writes = 1
		}
		struck = fmt.Sprintf("process %d of its kind", writes)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for seen := map[int]bool{}; ; time.Sleep(time.Millisecond) {
				select {
				case <-stop:
					struck = "none was met"
					return
				default:
				}
				for _, pid := range v.find(os.Getpid()) {
					if !strings.Contains(environOf(pid), j.dir) && !inTree(pid, j.dir) {
						continue
					}
					seen[pid] = true
					if len(seen) == writes {
						if p, err := os.FindProcess(pid); err == nil {
							_ = p.Kill()
						}
						return
					}
				}
			}
		}()
		defer func() { close(stop); <-done }()
	}
	status := j.drive(t)
	switch {
	case status == "succeeded":
		j.check(t)
	case status == "failed" && (kind == "skill" || kind == "agent"): // the sprite did it, and says so
		run := j.status(t)
		_, record := j.lattice(t, 0, "", "audit", "ls", run.ID, "--json") // git.push may die after lattice pushed for it
		pushes := strings.Count(record, `"kind":"action.performed"`)
		if pushes > 1 {
			t.Errorf("the audit log has %d performed actions, want at most 1:\n%s", pushes, record)
		}
		j.judge(t, run.ID, "", "-pushes", "pushes", "-want-pushes", strconv.Itoa(pushes))
	default:
		t.Errorf("the run is %s", status)
	}
	return struck + ", " + status
}

// inTree reports whether a process is below a lattice of the job.
func inTree(pid int, dir string) bool {
	for pid > 1 {
		if strings.Contains(environOf(pid), "LATTICE_HOME="+dir) {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if _, err := fmt.Sscan(fields[1], &pid); err != nil {
			return false
		}
	}
	return false
}

func environOf(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may be gone
	return string(data)
}

// TestSpritesTakeAll has an agent that takes processes and memory without end, and leaves that behind when it says that it is done. Its
// sprite gets no more than its limits, the leader goes on, and the run ends as it would have ended.
func TestSpritesTakeAll(t *testing.T) {
	t.Parallel()
	size := "3G"
	if os.Getuid() != 0 { // whose sprites may have no control group that bounds memory
		size = "400M"
	}
	for name, attack := range map[string]string{
		"fork bomb":     `bomb() { bomb | bomb & }; bomb`,
		"out of memory": `(head -c ` + size + ` /dev/zero | tail) & (head -c ` + size + ` /dev/zero | tail); true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range *soakFaults {
				j := newJob(t)
				input, err := json.Marshal(map[string]any{"test_command": "sh check.sh",
					"agent_command": []string{"sh", "-c", "cat >/dev/null; printf 'fixed\\n' >state; { " + attack + "; } >/dev/null 2>&1; exit 0"}})
				if err == nil {
					err = os.WriteFile(j.dir+"/input.json", input, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				if status := j.drive(t, "--pids", "120", "--memory", "300M"); status != "succeeded" {
					t.Errorf("the run is %s", status)
				}
				j.check(t)
				leftovers(t, filepath.Join(j.dir, "home"), "")
				if t.Failed() {
					return
				}
				j.remove()
			}
		})
	}
}

// TestDisksThatAreSlowOrFail keeps the state on a disk whose flushes are slow, and on a disk whose flushes fail after some time. A slow disk
// only costs time. While a disk fails, lattice reports no success; once it is repaired, the run continues from the records before.
func TestDisksThatAreSlowOrFail(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	for range *soakFaults {
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
		for _, kind := range []string{"slow", "failing"} {
			j := newJob(t)
			block := newBlockFile(t, newImage(t, j.dir))
			d := mountImage(t, block.path, filepath.Join(j.dir, "home"))
			flushes, broken, met := 0, 40+random.IntN(160), 0
			block.mu.Lock()
			block.flush = func() bool { // with the lock held
				flushes++
				if kind == "slow" {
					time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
					return true
				}
				if flushes >= broken {
					met++
				}
				return flushes < broken
			}
			block.mu.Unlock()
			if kind == "failing" {
				cmd := exec.Command(j.bin, j.start(t)...)
				cmd.Dir, cmd.Env = j.dir, j.env
				out, err := cmd.CombinedOutput()
				block.mu.Lock()
				t.Logf("%d flushes failed after %d; the command ended with %v", met, broken, err)
				if block.flush = nil; met > 0 && err == nil {
					t.Errorf("the command succeeded on a disk that failed:\n%s", out)
				}
				block.mu.Unlock()
				d.unmount(t)
				d = mountImage(t, block.path, d.dir)
			}
			if status := j.drive(t); status != "succeeded" {
				t.Errorf("%s: the run is %s", kind, status)
			}
			t.Logf("%s: %d flushes", kind, flushes)
			j.check(t)
			d.unmount(t)
			if t.Failed() {
				return
			}
			j.remove()
		}
	}
}
