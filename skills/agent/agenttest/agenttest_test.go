package agenttest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var script = Script{Side: "a title", Steps: []Step{
	{Text: "let me see", Calls: []Call{{Name: "read", Input: map[string]string{"path": "f"}}}},
	{Text: "all done"},
}}

func ask(t *testing.T, s *Server, path, body string) (status int, answer string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "cut: " + string(raw)
	}
	return resp.StatusCode, string(raw)
}

// Each dialect finds out from the request alone which step is next, and what the tools said.
func TestTheStepIsReadFromTheRequest(t *testing.T) {
	tests := map[string]struct{ path, side, first, second string }{
		"messages": {
			"/v1/messages?beta=true",
			`{"messages":[{"role":"user","content":"name it"}]}`,
			`{"tools":[{"name":"read"}],"messages":[{"role":"user","content":[{"type":"text","text":"go"}]}]}`,
			`{"tools":[{"name":"read"}],"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use"}]},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"found"}]}]}]}`,
		},
		"responses": {
			"/v1/responses",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"name it"}]}]}`,
			`{"tools":[{"type":"function","name":"read"}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}]}`,
			`{"tools":[{"type":"function","name":"read"}],"input":[{"role":"user","content":"go"},{"role":"assistant","content":"x"},{"type":"function_call"},{"type":"function_call_output","output":"found"}]}`,
		},
		"chat": {
			"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"name it"}]}`,
			`{"tools":[{"function":{"name":"read"}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"go"}]}`,
			`{"tools":[{"function":{"name":"read"}}],"messages":[{"role":"user","content":"go"},{"role":"assistant"},{"role":"tool","content":"found"}]}`,
		},
		"gemini": {
			"/v1beta/models/m:streamGenerateContent?alt=sse",
			`{"contents":[{"role":"user","parts":[{"text":"name it"}]}]}`,
			`{"tools":[{"functionDeclarations":[{"name":"read"}]}],"contents":[{"role":"user","parts":[{"text":"go"}]}]}`,
			`{"tools":[{"functionDeclarations":[{"name":"read"}]}],"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{}}]},{"role":"user","parts":[{"functionResponse":{"response":"found"}}]}]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := Serve(t, script)
			for _, turn := range []struct {
				body, want string
				step       int
			}{{test.first, "let me see", 0}, {test.side, "a title", -1}, {test.first, "let me see", 0}, {test.second, "all done", 1}} {
				if status, answer := ask(t, s, test.path, turn.body); status != 200 || !strings.Contains(answer, turn.want) {
					t.Errorf("step %d = %d, %s, want %q", turn.step, status, answer, turn.want)
				}
				asked := s.Requests()
				if got := asked[len(asked)-1]; got.Step != turn.step {
					t.Errorf("the request counts as step %d, want %d", got.Step, turn.step)
				}
			}
			last, ok := s.Last()
			if !ok || len(last.Results) != 1 || !strings.Contains(last.Results[0], "found") || !strings.Contains(last.Prompt, "go") || last.Tools[0] != "read" {
				t.Errorf("the last request is kept as %+v", last)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	const body = `{"tools":[{"name":"read"}],"messages":[{"role":"user","content":"go"}]}`
	s := Serve(t, Script{Steps: []Step{{Text: "at last", Status: 429, Fails: 2, RetryAfter: 1}}})
	for i, want := range []int{429, 429, 200} {
		if status, answer := ask(t, s, "/v1/messages", body); status != want {
			t.Errorf("request %d = %d, %s, want %d", i, status, answer, want)
		}
	}
	s = Serve(t, Script{Steps: []Step{{Text: "at last", Truncate: true, Fails: 1}}})
	if _, answer := ask(t, s, "/v1/messages", body); !strings.HasPrefix(answer, "cut: event: message_start") {
		t.Errorf("the answer is %q, want one that was cut", answer)
	}
	if _, answer := ask(t, s, "/v1/messages", body); !strings.HasSuffix(answer, "message_stop\"}\n\n") {
		t.Errorf("the answer is %q, want a whole one", answer)
	}
}
