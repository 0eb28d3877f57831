package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The same with runs that a Temporal server schedules: the worker, which is part of the leader, is killed and cut off from it, and the server
// and the database are killed.
func TestNodesWithTemporal(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	binary := os.Getenv("LATTICE_TEMPORAL")
	if binary == "" {
		t.Skip("no Temporal server: LATTICE_TEMPORAL is not set")
	}
	program, err := filepath.Abs("../bin/temporal/lattice")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Skip("no lattice with Temporal: make temporal builds it")
	}
	c := &nodesTest{cluster: newCluster(t, true), begun: time.Now()}
	c.program = program
	server := temporalServer{t: t, program: binary, address: freeAddress(t), file: filepath.Join(c.dir, "temporal.db")}
	server.start()
	t.Cleanup(server.kill)
	gate := newGate(t, bridge, "tcp", server.address)
	c.configure(fmt.Sprintf("[engine]\ntemporal = %q\nblobs = %q\n", gate.address, filepath.Join(c.dir, "blobs")))
	c.startAll()
	workerCutOff := nodeFault{"the leader does not reach Temporal", false, func(c *nodesTest, leader, _ int) (meanwhile, mend func()) {
		gate.shutFor(c.ipOf(leader))
		return func() {
			c.await("Temporal takes the commands back from the worker", func() bool {
				return !slices.ContainsFunc(c.under, func(run string) bool { return !server.lost(run) })
			})
			gate.open()
		}, func() {}
	}}
	serverKilled := nodeFault{"Temporal is killed", false, func(*nodesTest, int, int) (meanwhile, mend func()) {
		server.kill()
		return server.start, func() {}
	}}
	c.strikeEach(leaderKilled, workerCutOff, serverKilled, databaseCrashes)
}

// temporalServer is a Temporal server for development.
type temporalServer struct {
	t             *testing.T
	program, file string
	address       string
	running       *exec.Cmd
}

// start returns when the server takes connections.
func (s *temporalServer) start() {
	_, port, _ := net.SplitHostPort(s.address)
	s.running = exec.Command(s.program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--db-filename", s.file, "--log-level", "never")
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(recovery); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

func (s *temporalServer) kill() {
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
}

// lost reports whether a command of a run was given up by a worker, or the run has none: nothing is performed for it.
func (s *temporalServer) lost(run string) bool {
	out, err := exec.Command(s.program, "workflow", "describe", "--address", s.address, "--workflow-id", run, "--output", "json").Output()
	if err != nil {
		return false
	}
	var workflow struct {
		PendingActivities []struct{ Attempt int }
	}
	if err := json.Unmarshal(out, &workflow); err != nil {
		s.t.Fatalf("temporal workflow describe: %v: %s", err, out)
	}
	for _, a := range workflow.PendingActivities {
		if a.Attempt < 2 {
			return false
		}
	}
	return true
}
