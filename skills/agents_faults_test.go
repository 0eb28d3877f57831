package skills

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestARealAgentsSessionGoesOn(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		a.says(agenttest.Step{Text: "one"}, agenttest.Step{Text: "two"}, agenttest.Step{Text: "three"})
		first := a.done(map[string]any{"prompt": "remember the kingfisher"})
		id := first["session_id"].(string)
		second := a.done(map[string]any{"prompt": "and now?", "session": map[string]any{"mode": "resume", "id": id}})
		last, _ := a.model.Last()
		if second["final_text"] != "two" || second["session_id"] != id || !strings.Contains(last.Prompt, "kingfisher") {
			t.Errorf("resumed, the agent says %v in session %v", second["final_text"], second["session_id"])
		}
		// Codex counts tokens, and Claude Code money, from the beginning of the session; the result does not.
		for _, data := range []map[string]any{first, second} {
			usage, cost := data["usage"].(map[string]any), data["cost"].(map[string]any)
			if usage["input"] != 1000.0 || usage["output"] != 50.0 {
				t.Errorf("usage %v, want that of one answer", usage)
			}
			if usd := cost["usd"].(float64); agent == "claude" && (usd <= 0 || usd > first["cost"].(map[string]any)["usd"].(float64)*1.01) {
				t.Errorf("cost %v, want that of one answer", cost)
			}
		}
		if _, err := exec.Command("grep", "-rlsa", canary, a.dir).Output(); err == nil {
			t.Error("the key is kept in the workspace")
		}
		fork := a.done(map[string]any{"prompt": "or?", "session": map[string]any{"mode": "fork", "id": id}})
		if fork["session_id"] == id || fork["final_text"] != "three" {
			t.Errorf("forked, the agent says %v in session %v", fork["final_text"], fork["session_id"])
		}
		a.fails("agent.run", quote(map[string]any{"agent": agent, "session": map[string]any{"mode": "resume", "id": "nope"}}), 3, "not_found")
	})
}

func TestARealAgentAnswersBySchema(t *testing.T) {
	schema := map[string]any{
		"type": "object", "required": []string{"status"}, "additionalProperties": false,
		"properties": map[string]any{"status": map[string]any{"type": "string", "enum": []string{"done", "stuck"}}},
	}
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		answer := func(status string) agenttest.Step {
			if agent == "claude" {
				return agenttest.Step{Calls: []agenttest.Call{{Name: "StructuredOutput", Input: map[string]string{"status": status}}}}
			}
			return agenttest.Step{Text: quote(map[string]string{"status": status})}
		}
		a.says(answer("done"))
		data := a.done(map[string]any{"output_schema": schema})
		if got := quote(data["structured_output"]); got != `{"status":"done"}` {
			t.Errorf("structured_output %s", got)
		}
		a.says(agenttest.Step{Text: "I would rather not"})
		o := a.run(map[string]any{"output_schema": schema})
		if o.exit != 1 || agent == "codex" && o.result.Error.Code != "structured_output_invalid" {
			t.Errorf("without an answer = exit %d, %s", o.exit, o.stdout)
		}
	})
}

func TestARealAgentsLimitsAreKept(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		tests := map[string]struct {
			input map[string]any
			exit  int
			stop  string
		}{
			"turns":   {map[string]any{"limits": map[string]any{"max_turns": 2}}, protocol.ExitLimit, "max_turns"},
			"silence": {map[string]any{"limits": map[string]any{"idle_s": 1.5}}, protocol.ExitTimeout, "idle"},
			"wall":    {map[string]any{"limits": map[string]any{"wall_s": 2}}, protocol.ExitTimeout, "timeout"},
		}
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				a := newRealAgent(t, agent, agenttest.Script{})
				// A tool that outlives its agent unless somebody looks for it.
				loop := agenttest.Step{Text: "again", Calls: []agenttest.Call{a.shell("true")}}
				if name != "turns" {
					loop.Calls[0] = a.shell("setsid sh -c 'echo $$ > pid; exec sleep 600'; sleep 600")
				}
				a.says(loop, loop, loop, loop, agenttest.Step{Text: "enough"})
				o := a.run(test.input)
				var details map[string]any
				if o.result.Error == nil || json.Unmarshal(o.result.Error.Details, &details) != nil || o.exit != test.exit || details["stop_reason"] != test.stop || details["status"] != "limit" {
					t.Fatalf("exit %d, %s", o.exit, o.stdout)
				}
				// How far it came in its time is for the machine to say; two turns it always makes.
				if (name == "turns" || details["session_id"] != nil) && agent == "claude" && details["resumable"] != true {
					t.Errorf("the session cannot be resumed: %v", details)
				}
				a.allDead()
			})
		}
	})
}

// allDead fails when a process that the agent's tools started is there.
func (a *realAgent) allDead() {
	a.t.Helper()
	pid, err := os.ReadFile(filepath.Join(a.dir, "pid"))
	if err != nil {
		return // it did not come to that
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		a.t.Errorf("process %s of the agent is still there", pid)
	}
}

func TestARealAgentIsCancelled(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		a.says(agenttest.Step{Text: "I begin", Calls: []agenttest.Call{a.shell("echo $$ > pid; sleep 600")}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a.tee = doing{text: `"event":"tool_call"`, do: cancel}
		whole := map[string]any{"prompt": "do it"}
		for key, value := range a.more {
			whole[key] = value
		}
		began := time.Now()
		o := a.callCtx(ctx, "agent.run", quote(whole))
		if o.exit != protocol.ExitCancelled || time.Since(began) > 30*time.Second {
			t.Errorf("exit %d after %v, %s", o.exit, time.Since(began), o.stdout)
		}
		a.allDead()
	})
}

// doing does something once a text was written to it; doing it again must change nothing.
type doing struct {
	text string
	do   func()
}

func (w doing) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.do()
	}
	return len(p), nil
}

func TestARealAgentsModelFails(t *testing.T) {
	tests := map[string]struct {
		status    int
		code      string
		retryable bool
	}{
		"no key":   {401, "agent_auth", false},
		"too many": {429, "agent_rate_limited", true},
		"broken":   {500, "agent_model_unavailable", true},
	}
	eachAgent(t, func(t *testing.T, agent string) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				a := newRealAgent(t, agent, agenttest.Script{})
				a.says(agenttest.Step{Status: test.status})
				o := a.run(map[string]any{"usage_limit": "fail"})
				if o.exit != 1 || o.result.Error.Code != test.code || o.result.Error.Retryable != test.retryable {
					t.Errorf("exit %d, %s\n%s", o.exit, o.stdout, a.transcripts())
				}
			})
		}
	})
}
