package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(&setup.Env{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The tools that a client sees are those of the options. One that decides is never there by default.
func TestToolsOfOptions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o         Options
		has, lack string
		tasks     bool
	}{
		"all":         {Options{}, "sprite_exec", "run_decide", true},
		"deciding":    {Options{Decide: true}, "run_decide", "", true},
		"by patterns": {Options{Tools: []string{"sprite_*", "file_read"}}, "file_read", "flow_run", false},
		"one":         {Options{Tools: []string{"run_show"}, Decide: true}, "run_show", "run_decide", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tt.o)
			client, server := sdk.NewInMemoryTransports()
			if _, err := s.server.Connect(t.Context(), server, nil); err != nil {
				t.Fatal(err)
			}
			session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), client, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			offered := map[string]*sdk.Tool{}
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				offered[tool.Name] = tool
				if tool.Description == "" || !strings.HasSuffix(tool.Description, ".") {
					t.Errorf("%s is described as %q", tool.Name, tool.Description)
				}
			}
			if offered[tt.has] == nil || offered[tt.lack] != nil {
				t.Errorf("%v offers %d tools; want %q and not %q", tt.o, len(offered), tt.has, tt.lack)
			}
			if _, tasks := session.InitializeResult().Capabilities.Extensions[extension]; tasks != tt.tasks {
				t.Errorf("the server offers tasks: %v, want %v", tasks, tt.tasks)
			}
		})
	}
	for _, pattern := range []string{"run_decide", "nothing_*", "["} {
		if _, err := New(&setup.Env{}, Options{Tools: []string{pattern}}); err == nil {
			t.Errorf("the pattern %q names no tool and was accepted", pattern)
		}
	}
}

var (
	push   = lattice.Wait{ID: "w1", Kind: lattice.WaitAction, Node: "push", Prompt: "PUSH_BRANCH"}
	ask    = lattice.Wait{ID: "w2", Kind: lattice.WaitHuman, Node: "ask", Prompt: "How many?", Expected: map[string]string{"count": "integer", "why": "string"}, Optional: []string{"why"}}
	listed = lattice.Wait{ID: "w3", Kind: lattice.WaitHuman, Node: "ask", Prompt: "Which?", Expected: map[string]string{"all": "array<string>"}}
	timed  = lattice.Wait{ID: "w4", Kind: lattice.WaitSkill, Node: "agent", Prompt: "limit", ResumeAt: "2030-01-01T00:00:00Z"}
)

// A task has the state of its run. It asks for input only where a person must decide.
func TestTaskOfRun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		view   api.RunView
		decide bool
		page   string
		want   []string // parts of the JSON
		lack   string
	}{
		"working":    {api.RunView{Status: lattice.Running, Node: "clone", Doing: "git.clone"}, false, "", []string{`"status":"working"`, `"statusMessage":"clone git.clone"`, `"ttlMs":null`, `"resultType":"complete"`}, "inputRequests"},
		"succeeded":  {api.RunView{Status: lattice.Succeeded, Outputs: json.RawMessage(`{"n":1}`)}, false, "", []string{`"status":"completed"`, `"structuredContent":{`, `"outputs":{"n":1}`}, "isError"},
		"failed":     {api.RunView{Status: lattice.Failed, Error: &api.RunError{Message: "no"}}, false, "", []string{`"status":"completed"`, `"isError":true`, `"message":"no"`}, "inputRequests"},
		"canceled":   {api.RunView{Status: lattice.Canceled}, false, "", []string{`"status":"cancelled"`}, `"result":`},
		"not driven": {api.RunView{Status: lattice.Running, Problem: fault.Busy("x", "it was stopped").WithHint("lattice resume")}, false, "", []string{`"status":"working"`, "it was stopped"}, "inputRequests"},
		"odd text":   {api.RunView{Status: lattice.Running, Problem: fault.Busy("x", "it was\x1b[2J stopped")}, false, "", []string{`"status":"working"`, "stopped"}, `\u001b`},
		"timed":      {api.RunView{Status: lattice.Waiting, Waits: []lattice.Wait{timed}}, true, "", []string{`"status":"working"`}, "inputRequests"},
		"told":       {api.RunView{Status: lattice.Waiting, RunID: "run_1", Waits: []lattice.Wait{push}}, false, "", []string{`"status":"input_required"`, `"w1":{"method":"elicitation/create"`, `"properties":{}`, "lattice approve run_1"}, `"decision"`},
		"opened":     {api.RunView{Status: lattice.Waiting, RunID: "run_1", Waits: []lattice.Wait{push}}, false, "http://h", []string{`"mode":"url"`, `"url":"http://h/runs/run_1"`}, "requestedSchema"},
		"approved":   {api.RunView{Status: lattice.Waiting, Waits: []lattice.Wait{push}}, true, "", []string{`"enum":["approve","reject"]`, `"required":["decision"]`}, `"url"`},
		"answered":   {api.RunView{Status: lattice.Waiting, Waits: []lattice.Wait{ask}}, true, "", []string{`"count":{"type":"integer"}`, `"required":["count"]`}, `"decision"`},
		"no form":    {api.RunView{Status: lattice.Waiting, Waits: []lattice.Wait{listed}}, true, "", []string{`"w3"`, `"properties":{}`}, `"all"`},
		"two waits":  {api.RunView{Status: lattice.Waiting, Waits: []lattice.Wait{push, ask}}, true, "", []string{`"w1"`, `"w2"`}, `"w3"`},
	} {
		s := &Server{env: &setup.Env{}, o: Options{Decide: tt.decide}}
		tt.view.CreatedAt, tt.view.UpdatedAt = at, at
		text, err := json.Marshal(s.newTask("run_1", tt.view, tt.page))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range append(tt.want, `"taskId":"run_1"`, `"createdAt":"2026-07-28T00:00:00Z"`) {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: %s lacks %s", name, text, part)
			}
		}
		if strings.Contains(string(text), tt.lack) {
			t.Errorf("%s: %s has %s", name, text, tt.lack)
		}
	}
}

// Only an accepted request of the user is a decision.
func TestReadResponse(t *testing.T) {
	t.Parallel()
	accept := func(content map[string]any) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: content}
	}
	for name, tt := range map[string]struct {
		wait     lattice.Wait
		response sdk.InputResponse
		decision string // "" for none
	}{
		"approved":       {push, accept(map[string]any{"decision": "approve"}), "approve"},
		"rejected":       {push, accept(map[string]any{"decision": "reject", "comments": "no"}), "reject"},
		"without a word": {push, accept(nil), ""},
		"answered":       {ask, accept(map[string]any{"count": 3.0}), "answer"},
		"declined":       {push, &sdk.ElicitResult{Action: "decline", Content: map[string]any{"decision": "approve"}}, ""},
		"canceled":       {ask, &sdk.ElicitResult{Action: "cancel"}, ""},
		"absent":         {ask, nil, ""},
	} {
		in, ok := readResponse(tt.wait, tt.response)
		if ok != (tt.decision != "") || ok && (in.Decision != tt.decision || in.Wait != tt.wait.ID) {
			t.Errorf("%s: %+v, %v; want %q", name, in, ok, tt.decision)
		}
	}
}

// A part of a file ends between characters, and the parts are the whole.
func TestReadParts(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]string{
		"empty": "", "small": "a\n", "at the limit": strings.Repeat("x", maxFile), "characters": strings.Repeat("€", maxFile), "shifted": "x" + strings.Repeat("𝄞", maxFile/2),
	} {
		var got strings.Builder
		for offset, more := int64(0), true; more; {
			out, err := readParts(offset, func(offset int64) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(whole[offset:])), nil })
			if err != nil || out.Base64 != "" || len(out.Text) > maxFile {
				t.Fatalf("%s: %d bytes, base64 %.20q, %v", name, len(out.Text), out.Base64, err)
			}
			got.WriteString(out.Text)
			offset, more = out.Next, out.Next > 0
		}
		if got.String() != whole {
			t.Errorf("%s: the parts have %d bytes, the whole %d", name, got.Len(), len(whole))
		}
	}
	out, err := readParts(0, func(int64) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte{0xff, 0xfe})), nil })
	if err != nil || out.Base64 != "//4=" {
		t.Errorf("bytes are returned as %+v, %v", out, err)
	}
	if _, err := readParts(-1, nil); err == nil {
		t.Error("a negative offset was accepted")
	}
}

// Of a long output the end is kept.
func TestTail(t *testing.T) {
	t.Parallel()
	var out tail
	for range 10 {
		if _, err := out.Write(bytes.Repeat([]byte("x"), maxOutput/2)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := out.Write([]byte("end\xff")); err != nil {
		t.Fatal(err)
	}
	if text := out.text(); !strings.HasSuffix(text, "end�") || int(out.dropped)+maxOutput != 5*maxOutput+4 || len(out.kept) != maxOutput {
		t.Errorf("%d bytes were kept and %d dropped; the text ends in %q", len(out.kept), out.dropped, text[len(text)-6:])
	}
}

// A list in a result has at most 200 items, and the result says how many are missing.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, Options{})
	for n, want := range map[int]string{0: `{"items":[]}`, 2: `{"items":[0,0]}`, 200: "0]}", 1000: `0],"left_out":800}`} {
		text := s.newResult(make([]int, n), nil).Content[0].(*sdk.TextContent).Text
		if !strings.HasSuffix(text, want) || strings.Count(text, "0,")+1 > 200 {
			t.Errorf("a list of %d is %s", n, text)
		}
	}
	if text := s.newResult(json.RawMessage(`{"a":"`+strings.Repeat("x", 300)+`"}`), nil).Content[0].(*sdk.TextContent).Text; !strings.HasSuffix(text, `x"}`) {
		t.Errorf("JSON is %s", text)
	}
}
