package temporal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// askThenWork asks a person, and works until the file go is in the sprite.
const askThenWork = `{"execir_version": "1.0", "id": "ask", "entry_node": "ask", "output": "$vars.note", "edges": [{"from": "ask", "to": "work"}],
 "nodes": [
  {"id": "ask", "op": "HUMAN", "prompt": "Which note?", "expected_inputs": {"note": "string"}, "outputs": {"note": "$vars.note"}},
  {"id": "work", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "echo once >>~/effects; until [ -e ~/go ]; do sleep 0.1; done"}}]}`

// TestServerAndJournalAgree: the workflow of a run that goes on is begun again if a person terminates it, or if it belongs to another version of the
// interpreter; that of a run that ended while the leader could not say so is ended; that of a run that is not in the store fails at once, and
// is not tried forever. Heartbeats name the call that is under way.
func TestServerAndJournalAgree(t *testing.T) {
	s := startStage(t)
	s.write("ask.json", askThenWork)
	c := s.dial()
	defer c.Close()

	leader := s.serve()
	s.lattice("sprite", "create", "worker")
	run, ended := s.start("ask.json", "--sprite", "worker"), s.start("ask.json")
	for _, r := range []string{run, ended} {
		s.await(r, func(v view) bool { return v.Status == "waiting" })
	}
	first := s.awaitWorkflow(c, run, "its workflow goes on", described.runs)
	if err := c.TerminateWorkflow(t.Context(), run, "", "a test"); err != nil {
		t.Fatal(err)
	}
	second := s.awaitWorkflow(c, run, "another workflow goes on", func(d described) bool { return d.runs() && d.id() != first.id() })

	s.stopServer()
	s.lattice("cancel", ended) // no signal reaches the server
	s.kill(leader)
	s.startServer()
	c.Close()
	c = s.dial()
	defer c.Close()
	if d := s.awaitWorkflow(c, ended, "its workflow is there", func(described) bool { return true }); !d.runs() {
		t.Fatalf("the workflow of a run that ended without a server is %v", d.status())
	}
	if err := c.TerminateWorkflow(t.Context(), run, second.id(), "a test"); err != nil {
		t.Fatal(err)
	}
	foreign, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: run, TaskQueue: "lattice", Memo: map[string]any{memoOrigin: origin{Interpreter: Version - 1}}}, WorkflowName, Input{Interpreter: Version - 1, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "run_unknown", TaskQueue: "lattice"}, WorkflowName, Input{Interpreter: Version, Run: "run_unknown"})
	if err != nil {
		t.Fatal(err)
	}
	leader = s.serve()
	s.awaitWorkflow(c, ended, "the workflow has ended", func(d described) bool { return d.status() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED })
	s.awaitWorkflow(c, unknown.GetID(), "the workflow has ended", func(d described) bool { return !d.runs() })
	s.awaitWorkflow(c, run, "a workflow of this version goes on", func(d described) bool { return d.runs() && d.id() != foreign.GetRunID() })
	s.checkSearch(`LatticeStatus = "waiting" AND ExecutionStatus = "Running"`)

	s.lattice("answer", run, "note=hello", "--detach")
	var beat Progress
	s.awaitWorkflow(c, run, "a heartbeat names the call", func(d described) bool {
		return len(d.PendingActivities) == 1 && d.PendingActivities[0].HeartbeatDetails != nil &&
			converter.GetDefaultDataConverter().FromPayloads(d.PendingActivities[0].HeartbeatDetails, &beat) == nil && beat.CallID != ""
	})
	s.lattice("sprite", "exec", "worker", "--", "sh", "-c", "touch ~/go")
	s.await(run, func(v view) bool { return v.Status == "succeeded" })
	if beat.Command == "" || !strings.Contains(s.lattice("events", run, "--json"), beat.CallID) {
		t.Errorf("the heartbeat has %+v, and the events %s", beat, s.lattice("events", run, "--json"))
	}
	if effects := s.lattice("sprite", "exec", "worker", "--", "sh", "-c", "cat ~/effects"); strings.Count(effects, "once") != 1 {
		t.Errorf("the effects are %q", effects)
	}
	s.checkHistory(run, "")
	s.kill(leader)
}

// TestQueueOfAnotherStore: a leader does not use the queue of another store, until a person takes it from that store. A store that goes back to a
// backup has its workflows begun again from the journal.
func TestQueueOfAnotherStore(t *testing.T) {
	s := startStage(t)
	s.write("ask.json", askThenWork)
	c := s.dial()
	defer c.Close()
	leader := s.serve()
	run := s.start("ask.json")
	s.await(run, func(v view) bool { return v.Status == "waiting" })
	before := s.awaitWorkflow(c, run, "its workflow goes on", described.runs)
	s.kill(leader)
	old, err := os.ReadFile(filepath.Join(s.dir, "home", "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	s.kill(s.serve())

	other := s.command("serve", "--json")
	other.Env = append(other.Env, "LATTICE_HOME="+filepath.Join(s.dir, "other"))
	out, err := other.CombinedOutput()
	if other.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), `"engine_queue_taken"`) || !strings.Contains(string(out), "lattice.queue/lattice") {
		t.Errorf("a leader of another store ended with %v: %s", err, out)
	}

	if err := os.WriteFile(filepath.Join(s.dir, "home", "runs.db"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	leader = s.serve()
	s.awaitWorkflow(c, run, "another workflow goes on", func(d described) bool { return d.runs() && d.id() != before.id() })
	s.lattice("cancel", run)
	s.awaitWorkflow(c, run, "the workflow has ended", func(d described) bool { return !d.runs() })
	s.kill(leader)

	if err := c.TerminateWorkflow(t.Context(), "lattice.queue/lattice", "", "a test"); err != nil {
		t.Fatal(err)
	}
	s.home = "other"
	s.kill(s.serve())
}

// described is a workflow as the server describes it.
type described struct {
	*workflowservice.DescribeWorkflowExecutionResponse
}

func (d described) status() enumspb.WorkflowExecutionStatus { return d.WorkflowExecutionInfo.Status }
func (d described) runs() bool                              { return d.status() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }
func (d described) id() string                              { return d.WorkflowExecutionInfo.Execution.RunId }

// awaitWorkflow waits until the last workflow of a run is as wanted.
func (s *stage) awaitWorkflow(c client.Client, run, promise string, wanted func(described) bool) described {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		d, err := c.DescribeWorkflowExecution(s.t.Context(), run, "")
		if err == nil && wanted(described{d}) {
			return described{d}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not after a minute: %v, %v", promise, d, err)
		}
	}
}
