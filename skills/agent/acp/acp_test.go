package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/schema"
)

// client is a Host that records all calls.
type client struct {
	t       *testing.T
	sent    []string
	events  []string
	asked   []Request
	verdict Verdict
	closed  bool
}

func (c *client) ReadFile(path string, line, limit int) (string, error) {
	if path == "/w/none" {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return fmt.Sprintf("%s %d %d", path, line, limit), nil
}

func (c *client) WriteFile(path, content string) error {
	if path != "/w/a" {
		return errors.New("outside")
	}
	return nil
}

func (c *client) Judge(r Request) Verdict {
	c.asked = append(c.asked, r)
	return c.verdict
}

func (c *client) Event(e adapter.Event) {
	raw, err := json.Marshal(e.Fields)
	if err != nil {
		c.t.Error(err)
	}
	c.events = append(c.events, e.Kind+" "+string(raw))
}

func (c *client) Restarted(why string) { c.events = append(c.events, "restarted "+why) }
func (c *client) Close()               { c.closed = true }

func (c *client) Send(line []byte) {
	text, ok := strings.CutSuffix(string(line), "\n")
	if !ok || strings.Contains(text, "\n") {
		c.t.Errorf("the message %q is not one line", line)
	}
	c.sent = append(c.sent, text)
}

// methods maps the messages of the protocol to their definitions in its schema.
var methods = map[string][2]string{
	"initialize":                 {"InitializeRequest", "InitializeResponse"},
	"session/new":                {"NewSessionRequest", "NewSessionResponse"},
	"session/load":               {"LoadSessionRequest", ""},
	"session/resume":             {"ResumeSessionRequest", ""},
	"session/prompt":             {"PromptRequest", "PromptResponse"},
	"session/cancel":             {"CancelNotification", ""},
	"session/update":             {"SessionNotification", ""},
	"session/request_permission": {"RequestPermissionRequest", "RequestPermissionResponse"},
	"fs/read_text_file":          {"ReadTextFileRequest", "ReadTextFileResponse"},
	"fs/write_text_file":         {"WriteTextFileRequest", "WriteTextFileResponse"},
}

// checked holds the messages that checkSchema has compared: that takes milliseconds.
var checked = map[string]bool{}

// checkSchema compares messages of both sides with the published schema: requests by their method, and responses by the
// method of the request with the same id.
func checkSchema(t *testing.T, own, theirs []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	match := func(line, definition string, value json.RawMessage) {
		if checked[definition+line] {
			return
		}
		checked[definition+line] = true
		whole["$ref"] = "#/$defs/" + definition
		all, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		if noSchema, mismatch := schema.Match(all, value); noSchema+mismatch != "" {
			t.Errorf("%s does not match %s: %s%s", line, definition, noSchema, mismatch)
		}
	}
	for _, side := range [][2][]string{{own, theirs}, {theirs, own}} {
		asked := map[string]string{} // by the other side
		for _, line := range side[1] {
			var m received
			if json.Unmarshal([]byte(line), &m) == nil && m.Method != "" && isSet(m.ID) {
				asked[string(m.ID)] = m.Method
			}
		}
		for _, line := range side[0] {
			var m struct {
				received
				Version string          `json:"jsonrpc"`
				Error   json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
				t.Errorf("%s is not a message: %v", line, err)
			}
			switch definitions := methods[m.Method]; {
			case m.Method != "" && definitions[0] != "":
				match(line, definitions[0], m.Params)
			case m.Error != nil:
				match(line, "Error", m.Error)
			case methods[asked[string(m.ID)]][1] != "":
				match(line, methods[asked[string(m.ID)]][1], m.Result)
			}
		}
	}
}

const (
	hello   = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"x","version":"7"},"agentCapabilities":{"loadSession":true}}}`
	created = `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"m","options":[{"value":"m","name":"m"}]}]}}`
	end     = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	options = `"options":[{"optionId":"a","name":"Always","kind":"allow_always"},{"optionId":"o","name":"Once","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"}]`
)

// tells returns a notification about session s1.
func tells(update string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + update + `}}`
}

// asks returns a request of the agent, with the parameters after the session.
func asks(id int, method, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"sessionId":"s1",%s}}`, id, method, rest)
}

func talk(t *testing.T, c Config, verdict Verdict, lines ...string) *client {
	t.Helper()
	host := &client{t: t, verdict: verdict}
	d := NewDialogue(c, host)
	d.Begin()
	for _, line := range lines {
		d.Take([]byte(line))
	}
	return host
}

var config = Config{Version: "1", Cwd: "/w", Mode: New, Prompt: "do it", Servers: []Server{{"tools", "/x", []string{}, []Variable{{"A", "b"}}}}}

func TestDialogue(t *testing.T) {
	t.Parallel()
	const tool = `"toolCallId":"t1","title":"echo","kind":"execute"`
	theirs := []string{
		"a line of a log",
		hello,
		tells(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"too early"}}`),
		created,
		tells(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`),
		tells(`{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"I "}}`),
		tells(`{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"look"}}`),
		tells(`{"sessionUpdate":"plan","entries":[{"content":"look","priority":"high","status":"completed"}]}`),
		tells(`{"sessionUpdate":"tool_call",` + tool + `,"status":"pending"}`),
		asks(7, "session/request_permission", `"toolCall":{"toolCallId":"t1","rawInput":{"command":"echo"}},`+options),
		tells(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`),
		tells(`{"sessionUpdate":"tool_call","toolCallId":"t2","title":"write","kind":"edit","status":"in_progress"}`),
		asks(8, "fs/read_text_file", `"path":"/w/a","line":2,"limit":0`),
		asks(9, "fs/write_text_file", `"path":"/w/a","content":"x"`),
		tells(`{"sessionUpdate":"tool_call_update","toolCallId":"t2","status":"failed"}`),
		tells(`{"sessionUpdate":"usage_update","used":7,"size":100,"cost":{"amount":0.5,"currency":"USD"}}`),
		tells(`{"sessionUpdate":"usage_update","used":9,"size":100,"cost":{"amount":0.75,"currency":"USD"}}`),
		tells(`{"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":"done"}}`),
		tells(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`),
		end,
		tells(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"too late"}}`),
	}
	host := talk(t, config, Allow, theirs...)
	want := []string{
		`start {"model":"m","session":"s1","version":"7"}`,
		`turn null`,
		`text {"delta":true,"text":"I "}`,
		`text {"delta":true,"text":"look"}`,
		`plan {"entries":[{"content":"look","priority":"high","status":"completed"}]}`,
		`tool_call {"id":"t1","input":{"command":"echo"},"name":"execute"}`,
		`tool_result {"failed":false,"id":"t1"}`,
		`turn null`,
		`tool_call {"id":"t2","input":"write","name":"edit"}`,
		`tool_result {"failed":true,"id":"t2"}`,
		`usage {"cost":0.5}`,
		`usage {"cost":0.25}`,
		`turn null`,
		`text {"delta":true,"text":"done"}`,
		`end null`,
	}
	if diff := cmp.Diff(want, host.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantSent := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":false},"clientInfo":{"name":"spritekit","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"tools","command":"/x","args":[],"env":[{"name":"A","value":"b"}]}]}}`,
		`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"do it"}]}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"o"}}}`,
		`{"jsonrpc":"2.0","id":8,"result":{"content":"/w/a 2 0"}}`,
		`{"jsonrpc":"2.0","id":9,"result":{}}`,
	}
	if diff := cmp.Diff(wantSent, host.sent); diff != "" || !host.closed {
		t.Errorf("closed %v, sent (-want +got):\n%s", host.closed, diff)
	}
	checkSchema(t, host.sent, theirs[1:])
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ request, want string }{
		"unknown method":       {asks(9, "terminal/create", `"command":"sh"`), `"code":-32601`},
		"another session":      {`{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"sessionId":"s2","path":"/w/a"}}`, `"code":-32602`},
		"no parameters":        {`{"jsonrpc":"2.0","id":9,"method":"fs/write_text_file"}`, `"code":-32602`},
		"parameters of a list": {`{"jsonrpc":"2.0","id":9,"method":"fs/write_text_file","params":[1]}`, `"code":-32602`},
		"file not there":       {asks(9, "fs/read_text_file", `"path":"/w/none"`), `"code":-32002,"message":"Resource not found: /w/none"`},
		"file outside":         {asks(9, "fs/write_text_file", `"path":"/etc/passwd","content":"x"`), `"code":-32602,"message":"outside"`},
		"permission for what":  {asks(9, "session/request_permission", `"toolCall":{"title":"x"},`+options), `"code":-32602`},
		"no options":           {asks(9, "session/request_permission", `"toolCall":{"toolCallId":"t"},"options":[]`), `"code":-32602`},
		"denied":               {asks(9, "session/request_permission", `"toolCall":{"toolCallId":"t","rawInput":{"a":1}},`+options), `"optionId":"r"`},
		"nothing to deny with": {asks(9, "session/request_permission", `"toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","name":"n","kind":"allow_once"}]`), `"outcome":"cancelled"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := talk(t, config, Deny, hello, created, test.request)
			if got := host.sent[len(host.sent)-1]; !strings.Contains(got, `"id":9,`) || !strings.Contains(got, test.want) {
				t.Errorf("the answer is %s, want %s", got, test.want)
			}
			checkSchema(t, host.sent, nil)
			if host.closed {
				t.Error("the dialogue ended")
			}
		})
	}
	early := talk(t, config, Allow, hello, asks(9, "fs/read_text_file", `"path":"/w/a"`))
	if got := early.sent[len(early.sent)-1]; !strings.Contains(got, `"code":-32602`) {
		t.Errorf("before there is a session the answer is %s", got)
	}
}

// TestPendingCallsKeepTheirOrder checks that they are reported in the order in which the agent made them.
func TestPendingCallsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	lines := []string{hello, created}
	var want []string
	for _, id := range []string{"t7", "t1", "t9", "t3", "t5", "t2", "t8", "t4"} {
		lines = append(lines, tells(`{"sessionUpdate":"tool_call","toolCallId":"`+id+`","title":"x","status":"pending"}`))
		want = append(want, id)
	}
	host := talk(t, config, Allow, append(lines, `{"id":3,"result":{"stopReason":"end_turn"}}`)...)
	var got []string
	for _, e := range host.events {
		if _, id, ok := strings.Cut(e, `"id":"`); ok && strings.HasPrefix(e, adapter.KindToolCall+" ") {
			got = append(got, id[:2])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v: %q", got, want, host.events)
	}
}

// Each fault of an agent is an end with a reason, or has no effect.
func TestFaultsOfAgents(t *testing.T) {
	t.Parallel()
	resume := Config{Cwd: "/w", Mode: Resume, Session: "s1", Prompt: "go on"}
	fork := Config{Cwd: "/w", Mode: Fork, Session: "s1", Prompt: "go on"}
	restart := resume
	restart.Restart = "all of it"
	failed := func(reason string) string { return `"reason":"` + reason + `"` }
	tests := map[string]struct {
		config Config
		lines  []string
		want   string // in the last event
	}{
		"another version":             {config, []string{`{"id":1,"result":{"protocolVersion":2}}`}, failed(ReasonProtocol)},
		"a result of another type":    {config, []string{`{"id":1,"result":[]}`}, failed(ReasonProtocol)},
		"no result":                   {config, []string{`{"id":1}`}, failed(ReasonProtocol)},
		"a session without a name":    {config, []string{hello, `{"id":2,"result":{}}`}, failed(ReasonProtocol)},
		"a login is needed":           {config, []string{hello, `{"id":2,"error":{"code":-32000,"message":"Authentication required"}}`}, `"status":401`},
		"an error with details":       {config, []string{hello, created, `{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"429 slow down"}}}`}, "Internal error: 429 slow down"},
		"it cannot read us":           {config, []string{hello, `{"id":null,"error":{"code":-32700,"message":"Parse error"}}`}, failed(ReasonProtocol)},
		"an unknown stop reason":      {config, []string{hello, created, `{"id":3,"result":{"stopReason":"bored"}}`}, failed(ReasonProtocol)},
		"refusal":                     {config, []string{hello, created, `{"id":3,"result":{"stopReason":"refusal"}}`}, failed("refusal")},
		"cancelled by itself":         {config, []string{hello, created, `{"id":3,"result":{"stopReason":"cancelled"}}`}, failed("cancelled")},
		"an answer to nothing":        {config, []string{hello, created, `{"id":17,"result":{}}`}, "error {"},
		"an id of another type":       {config, []string{`{"id":"1","result":{"protocolVersion":1}}`}, "error {"},
		"an answer twice":             {config, []string{hello, hello}, "error {"},
		"no sessions":                 {resume, []string{`{"id":1,"result":{"protocolVersion":1}}`}, failed(ReasonNoSession)},
		"no forks":                    {fork, []string{hello}, failed(ReasonNoSession)},
		"a session that is gone":      {resume, []string{hello, `{"id":2,"error":{"code":-32002,"message":"gone"}}`}, failed(ReasonNoSession)},
		"a session that begins again": {restart, []string{hello, `{"id":2,"error":{"code":-32002,"message":"gone"}}`}, "restarted gone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := talk(t, test.config, Allow, test.lines...)
			last := ""
			if n := len(host.events); n > 0 {
				last = host.events[n-1]
			}
			if !strings.Contains(last, test.want) || host.closed != strings.HasPrefix(last, "end ") {
				t.Errorf("closed %v, events %q, want %s", host.closed, host.events, test.want)
			}
		})
	}
	for _, line := range []string{``, `{`, `[]`, `null`, `7`, `{}`, `{"id":9}`, `{"method":"session/update"}`, `{"method":"x/y","params":{}}`,
		`{"method":"session/update","params":{"sessionId":"s1","update":7}}`, `{"method":"session/update","params":{"sessionId":"s1"}}`,
		`{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`} {
		quiet := talk(t, config, Allow, hello, created)
		before := len(quiet.events) + len(quiet.sent)
		host := talk(t, config, Allow, hello, created, line)
		if host.closed || line != `{"id":9}` && len(host.events)+len(host.sent) != before {
			t.Errorf("the line %s has the effect %q %q", line, host.events, host.sent)
		}
	}
	host := &client{t: t}
	d := NewDialogue(config, host)
	d.Begin()
	d.Refuse("too long")
	d.Refuse("too long")
	if len(host.events) != 1 || !strings.Contains(host.events[0], "too long") || !host.closed {
		t.Errorf("a line that is refused gives %q", host.events)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	able := func(sessions string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{` + sessions + `}}}}`
	}
	tests := map[string]struct{ mode, hello, want, opened string }{
		"loaded":  {Resume, hello, "session/load", `{}`},
		"resumed": {Resume, able(`"resume":{}`), "session/resume", `{}`},
		"forked":  {Fork, able(`"fork":{}`), "session/fork", `{"sessionId":"s1"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := talk(t, Config{Cwd: "/w", Mode: test.mode, Session: "s1", Prompt: "go on"}, Allow, test.hello,
				tells(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"of the history"}}`),
				`{"jsonrpc":"2.0","id":2,"result":`+test.opened+`}`, end)
			if !strings.Contains(host.sent[1], `"`+test.want+`"`) || !strings.Contains(host.sent[1], `"sessionId":"s1"`) {
				t.Errorf("it was opened with %s", host.sent[1])
			}
			if diff := cmp.Diff([]string{`start {"model":"","session":"s1","version":"` + map[bool]string{true: "7"}[test.hello == hello] + `"}`, "end null"}, host.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			checkSchema(t, host.sent, nil)
		})
	}
}

// A person is asked when the turn has ended: the agent is told so, and no later request is allowed.
func TestAskingEndsTheTurn(t *testing.T) {
	t.Parallel()
	request := asks(7, "session/request_permission", `"toolCall":{"toolCallId":"t1","title":"rm","kind":"delete","rawInput":{"b":1,"a":[2]}},`+options)
	host := talk(t, config, Ask, hello, created, request, strings.Replace(request, `"id":7`, `"id":8`, 1), `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`)
	want := []string{
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`,
		`{"jsonrpc":"2.0","id":8,"result":{"outcome":{"outcome":"cancelled"}}}`,
	}
	if diff := cmp.Diff(want, host.sent[3:]); diff != "" || !host.closed || len(host.asked) != 1 {
		t.Errorf("closed %v, asked %v, sent (-want +got):\n%s", host.closed, host.asked, diff)
	}
	for _, e := range host.events {
		if strings.HasPrefix(e, "end ") {
			t.Errorf("the agent's %s counts as an end", e)
		}
	}
	checkSchema(t, host.sent, nil)
}

// The digest is that of all that the agent says about the call, and of nothing else.
func TestRequestDigest(t *testing.T) {
	t.Parallel()
	digest := func(call string) string {
		host := talk(t, config, Deny, hello, created, asks(7, "session/request_permission", `"toolCall":`+call+`,`+options))
		return host.asked[0].SHA256
	}
	one := digest(`{"toolCallId":"t1","title":"run","kind":"execute","rawInput":{"command":"ls","cwd":"/w"}}`)
	if one == "" || digest(`{"kind":"execute","title":"run","rawInput":{"cwd":"/w", "command":"ls"},"content":[],"toolCallId":"t2"}`) != one {
		t.Error("the same call has two digests")
	}
	for name, call := range map[string]string{
		"input":    `{"toolCallId":"t1","title":"run","kind":"execute","rawInput":{"command":"ls /","cwd":"/w"}}`,
		"title":    `{"toolCallId":"t1","title":"Run","kind":"execute","rawInput":{"command":"ls","cwd":"/w"}}`,
		"kind":     `{"toolCallId":"t1","title":"run","kind":"read","rawInput":{"command":"ls","cwd":"/w"}}`,
		"name":     `{"toolCallId":"t1","name":"bash","title":"run","kind":"execute","rawInput":{"command":"ls","cwd":"/w"}}`,
		"content":  `{"toolCallId":"t1","title":"run","kind":"execute","rawInput":{"command":"ls","cwd":"/w"},"content":[{"type":"diff","path":"/w/a","newText":"x"}]}`,
		"location": `{"toolCallId":"t1","title":"run","kind":"execute","rawInput":{"command":"ls","cwd":"/w"},"locations":[{"path":"/w/a"}]}`,
	} {
		if digest(call) == one {
			t.Errorf("another %s has the same digest", name)
		}
	}
	for _, empty := range []string{`"rawInput":{},"locations":[]`, `"rawInput":{ },"content":[ ],"locations":null`, `"rawInput":[\t]`, `"rawInput":""`} {
		if got := digest(`{"toolCallId":"t1","title":"rm -rf /","kind":"execute",` + strings.ReplaceAll(empty, `\t`, "\t") + `}`); got != "" {
			t.Errorf("a call without arguments, %s, has the digest %s", empty, got)
		}
	}
}

// TestToolsAreHeldInBoundedMemory checks that an agent cannot make us hold the arguments of all tools that it calls, whether they end or not.
func TestToolsAreHeldInBoundedMemory(t *testing.T) {
	large := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct{ id, status, input string }{
		"running":    {"t%d", "in_progress", large},
		"pending":    {"t%d", "pending", large},
		"ended":      {"t%d", "completed", large},
		"long names": {large + "%d", "in_progress", ""},
	} {
		var before, after runtime.MemStats
		d := NewDialogue(Config{Mode: New}, &client{t: t})
		d.session, d.open, d.asked = "s", true, "session/prompt"
		d.host = silent{d.host}
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 1000 {
			d.Take(fmt.Appendf(nil, `{"method":"session/update","params":{"sessionId":"s","update":{"toolCallId":"`+test.id+`","title":"a","status":%q,"rawInput":{"a":%q}}}}`, i, test.status, test.input))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 2*maxArguments {
			t.Errorf("%s: %d MiB are held", name, held>>20)
		}
		runtime.KeepAlive(d)
	}
}

// silent is a Host that drops events.
type silent struct{ Host }

func (silent) Event(adapter.Event) {}
