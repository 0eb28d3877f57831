package timeline

import (
	"encoding/json"
	"strings"
	"testing"
)

// What an agent has used is told while it works, and when it has ended.
func TestAgentUse(t *testing.T) {
	t.Parallel()
	got := strings.Join(agentSoFar(json.RawMessage(`{"event":"tool_call","so_far":{"turns":2,"tool_calls":3,"retries":1,"tokens":1200,"cost_usd":0.254}}`)), ", ")
	if want := "3 tool calls, 1 retry, 1200 tokens, $0.25"; got != want {
		t.Errorf("while it works: %q, want %q", got, want)
	}
	got = summarizeData(json.RawMessage(`{"status":"done","tool_calls":{"total":1},"retries":2,"usage":{"input":1000,"output":50},"cost":{"usd":0,"source":"unknown"}}`))
	if want := "done 1 tool call, 2 retries, 1050 tokens"; got != want {
		t.Errorf("when it has ended: %q, want %q", got, want)
	}
}
