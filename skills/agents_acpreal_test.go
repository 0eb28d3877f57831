package skills

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// newProtocolAgent returns a sprite with a vendor's program that speaks the Agent Client Protocol.
func newProtocolAgent(t *testing.T, agent string) *realAgent {
	if !strings.Contains(os.Getenv("LATTICE_AGENTS"), agent) {
		t.Skip("LATTICE_AGENTS does not name " + agent)
	}
	a := newRealAgent(t, agent, agenttest.Script{})
	a.more["agent"], a.more["timeout_s"], a.more["mcp"] = agent+"-acp", 600, map[string]any{"spritekit": false}
	return a
}

// asked returns the request for a permission with which a call waits.
func (a *realAgent) asked(o outcome) protocol.UseTool {
	a.t.Helper()
	for _, e := range o.events {
		var request struct {
			Action     string
			Parameters protocol.UseTool
		}
		if o.exit == protocol.ExitWaiting && e.Type == protocol.TypeActionRequest && json.Unmarshal(e.Payload, &request) == nil && request.Action == protocol.ActionUseTool {
			return request.Parameters
		}
	}
	a.t.Fatalf("agent.run = exit %d without a request, %s\n%s", o.exit, o.stdout, a.transcripts())
	return protocol.UseTool{}
}

// A person answers a request for permission when the agent's process is gone; a limit is waited out in the same session.
func TestARealAgentOfTheProtocolIsAllowedAndWaitsOutALimit(t *testing.T) {
	a := newProtocolAgent(t, "gemini")
	ask := map[string]any{"permissions": map[string]any{"mode": "ask"}}
	again := agenttest.Step{Text: "I use it", Calls: []agenttest.Call{a.shell("echo one >>work")}}
	a.model.Play(agenttest.Script{Side: "a title", Steps: []agenttest.Step{again}})
	a.env.CallID = "call-asks"
	request := a.asked(a.run(ask))
	if _, err := os.Stat(filepath.Join(a.dir, "work")); err == nil || !strings.Contains(request.Arguments, "echo one") {
		t.Fatalf("asked about %+v; the file: %v", request, err)
	}
	a.allDead()

	a.resume("call-asks", map[string]any{"ok": true, "action": "USE_TOOL", "result": map[string]any{"sha256": request.SHA256}})
	a.model.Play(agenttest.Script{Side: "a title", Since: "it is allowed", Steps: []agenttest.Step{again, {Status: 429, Resets: 7200}}})
	began := time.Now()
	if at := a.pauses(a.run(ask)); at.Before(began.Add(2*time.Hour-time.Second)) || at.After(time.Now().Add(2*time.Hour+2*time.Minute)) {
		t.Errorf("it waits until %v, want in two hours", at)
	}
	if a.read("work") != "one\n" {
		t.Errorf("after the approval the work is %q", a.read("work"))
	}
	a.allDead()

	a.resume("call-asks", map[string]any{})
	a.model.Play(agenttest.Script{Side: "a title", Since: "which has ended", Steps: []agenttest.Step{{Text: "it is done"}}})
	data := a.done(ask)
	last, _ := a.model.Last()
	if data["final_text"] != "it is done" || !strings.Contains(last.Prompt, "do it") || !strings.Contains(last.Prompt, "which has ended. Go on") {
		t.Errorf("agent.run = %v; the model was told %q", data, last.Prompt)
	}
	a.resumedTwice(ask, data, map[string]any{})
}

// A program that crashes in a turn goes on in its session, and a call that begins on the files of a turn goes on from there.
func TestARealAgentOfTheProtocolCrashesAndGoesBack(t *testing.T) {
	for _, agent := range []string{"gemini", "opencode"} {
		t.Run(agent, func(t *testing.T) {
			a := newProtocolAgent(t, agent)
			k := keep(t, a.sprite)
			a.model.Play(agenttest.Script{Side: "a title", Steps: []agenttest.Step{
				{Text: "I begin", Calls: []agenttest.Call{a.shell("echo one >>work")}},
				{Text: "I go on", Calls: []agenttest.Call{a.shell("test -e crashed && exit; touch crashed; echo two >>work; kill -9 $PPID; sleep 600")}, Await: func() { k.await(1) }},
				{Text: "it is done"},
			}})
			a.env.CallID = "call-first"
			o := a.run(nil)
			turns := turnsOf(o)
			if o.exit != 0 || len(turns) == 0 || turns[0].CheckpointID != "v1" || a.read("work") != "one\ntwo\n" {
				t.Fatalf("exit %d with turns %+v, %s\n%s", o.exit, turns, o.stdout, a.transcripts())
			}
			if last, _ := a.model.Last(); !strings.Contains(last.Prompt, "do it") || !strings.Contains(last.Prompt, "You were interrupted") || strings.Contains(o.stdout, "session_lost") {
				t.Errorf("the model was told %q", last.Prompt)
			}
			a.allDead()

			k.restore(t, "v1")
			a.model.Play(agenttest.Script{Side: "a title", Since: "You were taken back", Steps: []agenttest.Step{{Text: "it ends otherwise"}}})
			a.env.CallID = "call-again"
			data := a.done(nil)
			last, _ := a.model.Last()
			if !strings.Contains(last.Prompt, "do it") || len(last.Results) == 0 || strings.Contains(string(last.Body), "echo two") {
				t.Errorf("the model was told %q, with results %q", last.Prompt, last.Results)
			}
			if data["final_text"] != "it ends otherwise" || a.read("work") != "one\n" {
				t.Errorf("agent.run = %v; work holds %q", data, a.read("work"))
			}
		})
	}
}
