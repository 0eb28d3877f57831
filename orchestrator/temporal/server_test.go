package temporal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spritekit/lattice/spritekit/fault"
)

var record = flag.Bool("record", false, "TestServer writes the histories of its workflows to testdata, for TestReplay")

// bin holds the binaries of make temporal.
const bin = "../../bin"

// TestUnreachable: a server that does not answer is named, with the remedy.
func TestUnreachable(t *testing.T) {
	_, err := Open(t.Context(), Options{Address: "127.0.0.1:1", Namespace: "default", Client: client.Options{Logger: quiet{}}})
	if failed, ok := errors.AsType[*fault.Error](err); !ok || failed.Code != "engine_unreachable" || failed.Hint == "" {
		t.Errorf("Open = %v", err)
	}
}

// TestServer: a person runs the main job with a real server. The leader and the server are killed with -9 while a step works, and
// again while the run waits. The run goes on, its journal is whole, the branch is pushed once, and the workflow has ended with a history that
// can be replayed.
func TestServer(t *testing.T) {
	s := startStage(t)
	s.git("init", "-q", "-b", "main", "seed")
	if err := os.CopyFS(filepath.Join(s.dir, "seed"), os.DirFS("../../manifests/demo/repo")); err != nil {
		t.Fatal(err)
	}
	s.git("-C", "seed", "add", "-A")
	s.git("-C", "seed", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "-m", "first")
	s.git("clone", "-q", "--bare", "seed", "origin.git")
	input, err := os.ReadFile("../../manifests/demo/input.json")
	if err != nil {
		t.Fatal(err)
	}
	s.write("input.json", strings.Replace(string(input), "set -eu", `set -eu\nsleep 3`, 1))

	leader := s.serve()
	run := s.start("fix-and-propose", "--repo", "origin.git", "--input-file", "input.json")
	s.await(run, func(view) bool { return strings.Contains(s.lattice("show", run), " edit ") }) // works for 3 s at least
	s.kill(leader)
	leader = s.serve()
	s.restartServer()
	s.await(run, func(v view) bool { return v.Status == "waiting" })
	s.kill(leader)
	s.restartServer()
	leader = s.serve()
	s.lattice("approve", run, "--yes")
	s.await(run, func(v view) bool { return v.Status == "succeeded" })

	if log := s.git("-C", "origin.git", "log", "--format=%s", "lattice/"+run); strings.Count(log, "slug: write no hyphen") != 1 {
		t.Errorf("the branch at the origin has %q", log)
	}
	if pushes := strings.Count(s.lattice("audit", "ls", run, "--json"), `"kind":"action.performed"`); pushes != 1 {
		t.Errorf("the audit log has %d pushes: %s", pushes, s.lattice("audit", "ls", run, "--json"))
	}
	s.lattice("replay", run)
	s.checkHistory(run, "main-job")
	s.checkSearch(fmt.Sprintf(`LatticeStatus = "succeeded" AND WorkflowId = %q`, run))
	s.kill(leader)
}

// TestServerSeesPeople: answers reach the workflow as signals, a workflow that is canceled at the server cancels its run, and a
// large value is a digest in the history and a blob, in a folder or a bucket. Blobs that no history names are removed.
func TestServerSeesPeople(t *testing.T) {
	t.Run("folder", func(t *testing.T) { seePeople(t, startStage(t), "answer") })
	t.Run("bucket", func(t *testing.T) {
		s := startStage(t)
		address := serveBucket(t)
		var err error
		if s.bucket, err = OpenBucket(t.Context(), address, credentials.NewStaticV4(accessKey, secretKey, "")); err != nil {
			t.Fatal(err)
		}
		s.env = []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}
		s.write("config.toml", fmt.Sprintf("[engine]\ntemporal = \"127.0.0.1:%s\"\nblobs = %q\n", s.port, address))
		guessed := s.command("serve", "--json")
		guessed.Env = append(guessed.Env, "AWS_SECRET_ACCESS_KEY=guessed")
		if out, err := guessed.CombinedOutput(); guessed.ProcessState.ExitCode() != 5 || !strings.Contains(string(out), `"engine_blobs_unreachable"`) {
			t.Errorf("a leader with another key ended with %v: %s", err, out)
		}
		seePeople(t, s, "")
	})
}

// seePeople keeps a history under a name, if there is one.
func seePeople(t *testing.T, s *stage, name string) {
	s.write("ask.json", `{"execir_version": "1.0", "id": "ask", "entry_node": "make", "output": "$vars.note", "edges": [{"from": "make", "to": "ask"}],
 "nodes": [
  {"id": "make", "op": "TOOL_CALL", "tool": "exec.run", "outputs": {"result": "$vars.made"}, "args": {"command": "$in.command", "max_output_bytes": 250000}},
  {"id": "ask", "op": "HUMAN", "prompt": "Which note?", "expected_inputs": {"note": "string"}, "outputs": {"note": "$vars.note"}}]}`)
	leader := s.serve()
	run := s.start("ask.json", "--input", "command=echo hello")
	s.await(run, func(v view) bool { return v.Status == "waiting" })
	s.lattice("answer", run, "note=hello")
	s.await(run, func(v view) bool { return v.Status == "succeeded" })
	s.checkHistory(run, name)

	other := s.start("ask.json", "--input", `command=head -c 200000 /dev/zero | tr '\0' a`)
	s.await(other, func(v view) bool { return v.Status == "waiting" })
	c := s.dial()
	defer c.Close()
	if err := c.CancelWorkflow(t.Context(), other, ""); err != nil {
		t.Fatal(err)
	}
	s.await(other, func(v view) bool { return v.Status == "canceled" })
	s.checkHistory(other, "")
	s.kill(leader)

	e := Engine{o: Options{Namespace: "default", Blobs: s.blobs()}, client: c}
	if removed, err := e.removeBlobs(t.Context(), time.Now()); err != nil || removed != 0 {
		t.Errorf("%d blobs of histories were removed, %v", removed, err)
	}
	if removed, err := s.blobs().RemoveBefore(t.Context(), time.Now().Add(time.Hour)); err != nil || removed == 0 {
		t.Errorf("%d blobs, %v", removed, err)
	}
}

// TestServerRecordsShapes: a history has a timer, a call that is tried again, and two branches.
func TestServerRecordsShapes(t *testing.T) {
	s := startStage(t)
	s.write("shapes.json", `{"execir_version": "1.0", "id": "shapes", "entry_node": "pause", "edges": [{"from": "pause", "to": "try"}, {"from": "try", "to": "both"}],
 "nodes": [
  {"id": "pause", "op": "WAIT", "seconds": 1},
  {"id": "try", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "test -e ~/tried || { touch ~/tried; exit 1; }"}, "retry": [{"on": ["ALL"], "max_attempts": 3}]},
  {"id": "both", "op": "PARALLEL", "branches": [
   {"name": "one", "body": {"entry_node": "x", "nodes": [{"id": "x", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "sleep 1"}}]}},
   {"name": "two", "body": {"entry_node": "y", "nodes": [{"id": "y", "op": "TOOL_CALL", "tool": "exec.run", "args": {"command": "sleep 1"}}]}}]}]}`)
	leader := s.serve()
	run := s.start("shapes.json")
	s.await(run, func(v view) bool { return v.Status == "succeeded" })
	s.checkHistory(run, "shapes")
	s.kill(leader)
}

// TestServerRecordsOverlap: a history has two activities at the same time, since two calls that only read need not wait for each other.
func TestServerRecordsOverlap(t *testing.T) {
	s := startStage(t)
	s.write("overlap.json", `{"execir_version": "1.0", "id": "overlap", "entry_node": "both", "edges": [],
 "nodes": [{"id": "both", "op": "PARALLEL", "concurrency": 2, "branches": [
   {"name": "one", "body": {"entry_node": "x", "nodes": [{"id": "x", "op": "TOOL_CALL", "tool": "fs.list", "args": {"path": "."}}]}},
   {"name": "two", "body": {"entry_node": "y", "nodes": [{"id": "y", "op": "TOOL_CALL", "tool": "fs.list", "args": {"path": "."}}]}}]}]}`)
	leader := s.serve()
	run := s.start("overlap.json")
	s.await(run, func(v view) bool { return v.Status == "succeeded" })
	s.checkHistory(run, "overlap")
	s.kill(leader)
}

// stage is a folder with a Temporal server and leaders that use it.
type stage struct {
	t      *testing.T
	dir    string
	home   string   // name of the state directory
	bucket *Bucket  // nil for a folder
	env    []string // of commands, in addition
	server *exec.Cmd
	port   string
}

func startStage(t *testing.T) *stage {
	server := os.Getenv("LATTICE_TEMPORAL")
	if server == "" {
		t.Skip("LATTICE_TEMPORAL does not name the binary of a Temporal server")
	}
	if _, err := os.Stat(bin + "/temporal/lattice"); err != nil {
		t.Skip("make temporal builds the binaries of this test")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir, err := os.MkdirTemp("", "lattice-temporal-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, port: port, home: "home"}
	s.write("config.toml", fmt.Sprintf("[engine]\ntemporal = \"127.0.0.1:%s\"\n", port))
	s.startServer()
	t.Cleanup(func() {
		_ = s.server.Process.Kill() // it may have ended
		_ = s.server.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "serve.log"))
			t.Logf("log of the leaders:\n%s", log)
		}
		os.RemoveAll(dir)
	})
	return s
}

// blobs returns where the leaders keep large payloads.
func (s *stage) blobs() Blobs {
	if s.bucket != nil {
		return s.bucket
	}
	return Folder(filepath.Join(s.dir, s.home, "blobs"))
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// startServer returns when the server answers.
func (s *stage) startServer() {
	s.t.Helper()
	s.server = exec.Command(os.Getenv("LATTICE_TEMPORAL"), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", s.port, "--db-filename", filepath.Join(s.dir, "temporal.db"), "--log-level", "never")
	if err := s.server.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := client.DialContext(s.t.Context(), client.Options{HostPort: "127.0.0.1:" + s.port, Logger: quiet{}})
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *stage) stopServer() {
	s.t.Helper()
	if err := s.server.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.server.Wait() // it was killed
}

func (s *stage) restartServer() {
	s.t.Helper()
	s.stopServer()
	s.startServer()
}

func (s *stage) dial() client.Client {
	s.t.Helper()
	c, err := client.Dial(client.Options{HostPort: "127.0.0.1:" + s.port, DataConverter: newConverter(s.blobs()), Logger: quiet{}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) command(args ...string) *exec.Cmd {
	path, err := filepath.Abs(bin + "/temporal/lattice")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LATTICE_HOME="+filepath.Join(s.dir, s.home), "LATTICE_CONFIG="+filepath.Join(s.dir, "config.toml"))
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// lattice returns what a command prints on stdout. It fails the test if the command fails, other than by waiting for a person.
func (s *stage) lattice(args ...string) string {
	s.t.Helper()
	var out, said bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 75 {
		s.t.Fatalf("lattice %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String()
}

func (s *stage) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serve starts a leader, and returns when it leads.
func (s *stage) serve() *exec.Cmd {
	s.t.Helper()
	cmd := s.command("serve")
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	leads := func() bool { // another command would lead itself
		log, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
		return err == nil && strings.Contains(string(log), fmt.Sprintf(`"pid":%d,"sandbox"`, cmd.Process.Pid))
	}
	for deadline := time.Now().Add(time.Minute); !leads(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("lattice serve does not answer")
		}
	}
	return cmd
}

func (s *stage) kill(leader *exec.Cmd) {
	s.t.Helper()
	if err := leader.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	_ = leader.Wait() // it was killed
}

// start starts a run, and returns its id.
func (s *stage) start(args ...string) string {
	s.t.Helper()
	out := s.lattice(append([]string{"run", "--detach", "--json"}, args...)...)
	var v view
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || v.RunID == "" {
		s.t.Fatalf("lattice run printed %s: %v", out, err)
	}
	return v.RunID
}

type view struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

// await waits until a run is as wanted.
func (s *stage) await(run string, wanted func(view) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var v view
		if err := json.Unmarshal([]byte(s.lattice("show", run, "--json")), &v); err != nil {
			s.t.Fatal(err)
		}
		if wanted(v) {
			return
		}
		if v.Status == "failed" || time.Now().After(deadline) {
			s.t.Fatalf("the run is %s\n%s", v.Status, s.lattice("show", run))
		}
	}
}

// checkHistory waits until the workflow of a run has ended, replays its history, and keeps it under a name if that is asked for.
func (s *stage) checkHistory(run, name string) {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := c.GetWorkflow(ctx, run, "").Get(ctx, nil); err != nil {
		s.t.Fatalf("the workflow of %s: %v", run, err)
	}
	var h history.History
	for events := c.GetWorkflowHistory(ctx, run, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	raw, err := protojson.Marshal(&h)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(raw) > 2*MaxPayload { // which the value of TestServerSeesPeople alone would exceed
		s.t.Errorf("the history has %d bytes", len(raw))
	}
	if err := replayer(s.t, s.blobs()).ReplayWorkflowHistory(nil, &h); err != nil {
		s.t.Errorf("replay the workflow of %s: %v", run, err)
	}
	if *record && name != "" {
		err := errors.Join(os.MkdirAll("testdata/histories", 0o755), os.WriteFile(filepath.Join("testdata/histories", name+".json"), raw, 0o644))
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// checkSearch waits until the server finds one workflow.
func (s *stage) checkSearch(query string) {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		found, err := c.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: query})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(found.Executions) == 1 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s finds %d workflows", query, len(found.Executions))
		}
	}
}

// quiet is a logger of the SDK that writes nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
