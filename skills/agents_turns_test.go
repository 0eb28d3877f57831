package skills

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// keeper takes checkpoints of a sprite in the place of its host: copies of the workspace.
type keeper struct {
	dir, to string
	slow    time.Duration // that the first one takes
	mu      sync.Mutex
	taken   *sync.Cond
	n       int  // guarded by mu
	late    bool // guarded by mu: no checkpoint is awaited any more, so that a test fails rather than hangs
}

// keep serves checkpoints of s at its socket.
func keep(t *testing.T, s *sprite) *keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{dir: s.dir, to: dir}
	k.taken = sync.NewCond(&k.mu)
	timer := time.AfterFunc(time.Minute, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.late = true
		k.taken.Broadcast()
	})
	t.Cleanup(func() { timer.Stop() })
	server := &http.Server{Handler: k}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) }) // until it is closed
	t.Cleanup(func() { server.Close(); served.Wait(); os.RemoveAll(dir) })
	s.env.Socket = filepath.Join(dir, "s")
	return k
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n == 0 {
		time.Sleep(k.slow)
	}
	to := fmt.Sprintf("%s/v%d", k.to, k.n+1)
	out, err := exec.Command("cp", "-a", k.dir, to).CombinedOutput()
	for tries := 0; err != nil && tries < 20; tries++ { // a temporary file of ours went away
		_ = os.RemoveAll(to)
		out, err = exec.Command("cp", "-a", k.dir, to).CombinedOutput()
	}
	if err != nil {
		http.Error(w, string(out), http.StatusInternalServerError)
		return
	}
	k.n++
	fmt.Fprintf(w, `{"type":"complete","checkpoint_id":"v%d"}`+"\n", k.n)
	k.taken.Broadcast()
}

// await returns when n checkpoints were taken.
func (k *keeper) await(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.n < n && !k.late {
		k.taken.Wait()
	}
}

// restore makes the files those of the checkpoint again.
func (k *keeper) restore(t *testing.T, id string) {
	t.Helper()
	for _, argv := range [][]string{{"find", k.dir, "-mindepth", "1", "-delete"}, {"cp", "-a", filepath.Join(k.to, id) + "/.", k.dir}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
}

// turnsOf returns what a call said about the turns that it kept.
func turnsOf(o outcome) (all []protocol.AgentTurn) {
	for _, e := range o.events {
		payload, _ := e.Open()
		if info, ok := payload.(protocol.Info); ok && info.Kind == protocol.KindAgentTurn {
			var turn protocol.AgentTurn
			_ = json.Unmarshal(info.Metadata, &turn)
			all = append(all, turn)
		}
	}
	return all
}

// Each turn of a vendor's program is kept. A new call on the files of a turn goes on from there: what was done later is gone, and
// the model is not told of it.
func TestARealAgentGoesBackToATurn(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		k := keep(t, a.sprite)
		a.says(
			agenttest.Step{Text: "I begin", Calls: []agenttest.Call{a.shell("echo one >>work")}},
			agenttest.Step{Text: "I go on", Calls: []agenttest.Call{a.shell("echo two >>work; echo x >beside")}, Await: func() { k.await(1) }},
			agenttest.Step{Text: "it is done", Await: func() { k.await(2) }},
		)
		input := map[string]any{"mcp": map[string]any{"spritekit": false}}
		a.env.CallID = "call-first"
		o := a.run(input)
		if turns := turnsOf(o); o.exit != 0 || len(turns) != 2 || turns[0].CheckpointID != "v1" || !strings.Contains(turns[0].Tool, "echo one") || a.read("work") != "one\ntwo\n" {
			t.Fatalf("exit %d with turns %+v, %s\n%s", o.exit, turns, o.stdout, a.transcripts())
		}

		k.restore(t, "v1")
		a.model.Play(agenttest.Script{Since: "You were taken back", Steps: []agenttest.Step{{Text: "it ends otherwise"}}})
		a.env.CallID = "call-again"
		data := a.done(input)
		last, _ := a.model.Last()
		if !strings.Contains(last.Prompt, "do it") || !strings.Contains(last.Prompt, "You were taken back") || len(last.Results) != 1 || strings.Contains(string(last.Body), "echo two") {
			t.Errorf("the model was told %q, with results %q", last.Prompt, last.Results)
		}
		if data["final_text"] != "it ends otherwise" || data["turns"].(float64) < 2 || a.read("work") != "one\n" {
			t.Errorf("agent.run = %v; work holds %q", data, a.read("work"))
		}
		if _, err := os.Stat(filepath.Join(a.dir, "beside")); err == nil {
			t.Error("a file of the second turn is there")
		}
		a.says(agenttest.Step{Text: "it begins"})
		a.env.CallID = "call-other"
		a.done(input)
		if last, _ := a.model.Last(); strings.Contains(last.Prompt, "taken back") {
			t.Errorf("another call goes on as well: %q", last.Prompt)
		}
	})
}

// An agent of the protocol goes back to a turn as well: its session is loaded again on the files of the turn.
func TestAnAgentOfTheProtocolGoesBackToATurn(t *testing.T) {
	s := newSprite(t)
	k := keep(t, s)
	s.write("agent.sh", acpHello+`read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
`+acpPrompt+`case $m in *'taken back'*) `+acpEnd+`exit ;; esac
`+acpTool("one", "in_progress")+`echo one >>work
`+acpTool("one", "completed")+`until [ "$(grep -c agent_turn .lattice/outbox.jsonl)" = 1 ]; do sleep 0.01; done
`+acpTool("two", "in_progress")+`echo two >>work
`+acpEnd)
	const input = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false}}`
	s.env.CallID = "call-first"
	if turns := turnsOf(s.call("agent.run", input)); len(turns) != 1 || turns[0].Tool != "execute one" || s.read("work") != "one\ntwo\n" {
		t.Fatalf("turns %+v; work holds %q", turns, s.read("work"))
	}
	k.restore(t, "v1")
	s.env.CallID = "call-again"
	if data := s.must("agent.run", input); data["status"] != "done" || s.read("work") != "one\n" || !strings.Contains(s.read("opened"), "session/load") {
		t.Errorf("agent.run = %v; work holds %q, opened with %s", data, s.read("work"), s.read("opened"))
	}
}

// When it takes long to keep turns, the call waits for a moment and is resumed at once, which begins a new layer of files; the
// agent goes on in its session.
func TestSlowTurnsBeginANewLayer(t *testing.T) {
	s := newSprite(t)
	k := keep(t, s)
	k.slow = 2100 * time.Millisecond // more than a restart costs
	s.write("agent.sh", acpHello+`read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
`+acpPrompt+`case $m in *'You were interrupted'*) `+acpEnd+`exit ;; esac
`+acpTool("one", "in_progress")+acpTool("one", "completed")+`exec sleep 600
`)
	const input = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false}}`
	s.env.CallID = "call-slow"
	o := s.call("agent.run", input)
	if o.exit != protocol.ExitWaiting || o.result.Waiting.ResumeAt == "" || len(turnsOf(o)) != 1 {
		t.Fatalf("exit %d, %s", o.exit, o.stdout)
	}
	if at, err := time.Parse(time.RFC3339, o.result.Waiting.ResumeAt); err != nil || at.After(time.Now()) {
		t.Errorf("it waits until %v, %v", at, err)
	}
	k.restore(t, o.result.Waiting.CheckpointID)
	s.write(protocol.ResumeFile, `{"work_item_id":"w1","checkpoint_id":"`+o.result.Waiting.CheckpointID+`","inputs":{},"context":{"call_id":"call-slow"}}`)
	if data := s.must("agent.run", input); data["status"] != "done" || data["turns"] != 1.0 || !strings.Contains(s.read("opened"), "session/load") {
		t.Errorf("agent.run = %v; opened with %s", data, s.read("opened"))
	}
}
