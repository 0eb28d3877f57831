package skills

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// An agent that asks a dead model again and again is stopped after a few times, and the failure may be retried; one that
// got an answer in between is not. A limit says its number and where to raise it.
func TestAnAgentWhoseModelIsDead(t *testing.T) {
	const adapter = `{"name":"stubborn","prompt":"stdin","output":"events","events":[
		{"when":{"type":"retry"},"is":"retry","take":{"message":"why"}},{"when":{"type":"turn"},"is":"turn"},{"when":{"type":"end"},"is":"end"}]}`
	const retry, turn, end = `echo '{"type":"retry","why":"refused"}'; `, `echo '{"type":"turn"}'; `, `echo '{"type":"end"}'`
	input := func(script string, more map[string]any) string {
		in := map[string]any{"adapter": json.RawMessage(adapter), "command": []string{"sh", "-c", script}, "prompt": "x"}
		for name, value := range more {
			in[name] = value
		}
		return quote(in)
	}
	s := newSprite(t)
	began := time.Now()
	f := s.fails("agent.run", input(strings.Repeat(retry, 4)+"exec sleep 300", nil), 1, "agent_model_unavailable")
	if !f.Retryable || !strings.Contains(f.Message, "4 times in a row") || time.Since(began) > time.Minute {
		t.Errorf("after %v: %+v", time.Since(began), f)
	}
	s.must("agent.run", input(strings.Repeat(strings.Repeat(retry, 3)+turn, 3)+end, nil))
	f = s.fails("agent.run", input(strings.Repeat(turn, 3)+"exec sleep 300", map[string]any{"limits": map[string]any{"max_turns": 2}}), 9, "agent_limit")
	if !strings.Contains(f.Message, "max_turns of 2") || !strings.Contains(f.Hint, "limits.max_turns") {
		t.Errorf("a limit: %+v", f)
	}
	f = s.fails("agent.run", input("exec sleep 300", map[string]any{"timeout_s": 0.2}), 124, "timeout")
	if !strings.Contains(f.Message, "0.2 s") || !strings.Contains(f.Hint, "timeout_s") {
		t.Errorf("a timeout: %+v", f)
	}
}
