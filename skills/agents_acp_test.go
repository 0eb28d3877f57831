package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Parts of an agent in sh that speaks the Agent Client Protocol: each line reads a message and answers it.
const (
	acpHello   = `read -r m; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'` + "\n"
	acpSession = `read -r m; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'` + "\n"
	acpPrompt  = `read -r m; echo "$m" >>prompts` + "\n"
	acpEnd     = `echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'` + "\n"
)

// acpRequest asks the client for something, and writes the answer to a file.
func acpRequest(method, params string) string {
	return `echo '{"jsonrpc":"2.0","id":9,"method":"` + method + `","params":{"sessionId":"s1",` + params + `}}'; read -r m; printf "%s\n" "$m" >>answers` + "\n"
}

// acpSays is a part of the agent's answer.
func acpSays(text string) string {
	return `echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}'` + "\n"
}

// acpTool reports the state of a tool.
func acpTool(id, status string) string {
	return `echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"` + id + `","kind":"execute","status":"` + status + `"}}}'` + "\n"
}

func acpPermission(kind, input string) string {
	return acpRequest("session/request_permission", `"toolCall":{"toolCallId":"`+kind+`","title":"try","kind":"`+kind+`","rawInput":`+input+`},"options":[{"optionId":"yes","name":"y","kind":"allow_once"},{"optionId":"no","name":"n","kind":"reject_once"}]`)
}

func TestAnAgentOfTheProtocol(t *testing.T) {
	s := newSprite(t)
	if err := os.Symlink("/etc", filepath.Join(s.dir, "out")); err != nil {
		t.Fatal(err)
	}
	s.write("three", "one\ntwo\nthree\n")
	s.write("agent.sh", acpHello+acpSession+acpPrompt+
		acpRequest("fs/read_text_file", `"path":"'$PWD'/three","line":2,"limit":1`)+
		acpRequest("fs/write_text_file", `"path":"'$PWD'/made/new","content":"new"`)+
		acpRequest("fs/write_text_file", `"path":"'$PWD'/out/new","content":"x"`)+
		acpRequest("fs/write_text_file", `"path":"'$PWD'/.lattice/x","content":"x"`)+
		acpRequest("fs/read_text_file", `"path":"/etc/passwd"`)+
		acpRequest("fs/read_text_file", `"path":"three"`)+
		acpPermission("execute", `{"a":1}`)+acpPermission("edit", `{"a":1}`)+
		`echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"all done"}}}}'
`+acpEnd+`read -r m || echo closed >>answers; exit 7`)
	data := s.must("agent.run", `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"permissions":{"deny":["ed*"]},"mcp":{"spritekit":false}}`)
	answers := strings.ReplaceAll(s.read("answers"), s.dir, "DIR")
	want := `{"jsonrpc":"2.0","id":9,"result":{"content":"two\n"}}
{"jsonrpc":"2.0","id":9,"result":{}}
{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"unsafe path: mkdirat out: statat out: path escapes from parent (a symlink leads out of the workspace)"}}
{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"unsafe path: DIR/.lattice/x is one of the runtime's own files"}}
{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"unsafe path: /etc/passwd is outside the workspace DIR"}}
{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"unsafe path: \"three\" is not an absolute path"}}
{"jsonrpc":"2.0","id":9,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}
{"jsonrpc":"2.0","id":9,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}
closed
`
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("the answers (-want +got):\n%s", diff)
	}
	if s.read("made/new") != "new" || data["final_text"] != "all done" || data["status"] != "done" || data["session_id"] != "s1" || data["turns"] != 1.0 {
		t.Errorf("agent.run = %v", data)
	}
	if diff := cmp.Diff([]any{map[string]any{"tool": "edit", "title": "try"}}, data["permission_denials"]); diff != "" {
		t.Errorf("permission_denials (-want +got):\n%s", diff)
	}
	// The session is loaded again where the agent can.
	s.must("agent.run", `{"agent":"acp","command":["sh","agent.sh"],"prompt":"again","timeout_s":60,"mcp":{"spritekit":false},"session":{"mode":"resume","id":"s1"}}`)
	if got := s.read("prompts"); !strings.Contains(got, `"text":"do it"`) || !strings.Contains(got, `"text":"again"`) {
		t.Errorf("it was prompted with %s", got)
	}
}

func TestFaultsOfAgentsOfTheProtocol(t *testing.T) {
	tests := map[string]struct {
		script, more string
		exit         int
		code, says   string
	}{
		"never answers":      {`cat >/dev/null`, `,"idle_s":0.3`, 124, "timeout", ""},
		"is no such agent":   {`echo 'usage: agent'`, ``, 1, "agent_failed", "without saying how"},
		"dies at once":       {`exit 3`, ``, 1, "agent_failed", "code 3"},
		"dies in its turn":   {acpHello + acpSession + acpPrompt + `kill -KILL $$`, ``, 1, "agent_failed", "signal"},
		"closes its stdout":  {acpHello + acpSession + `exec >&-; sleep 600`, `,"idle_s":0.3`, 124, "timeout", ""},
		"wants a login":      {acpHello + `read -r m; echo '{"id":2,"error":{"code":-32000,"message":"log in"}}'; cat`, ``, 1, "agent_auth", "needs a person"},
		"a huge message":     {acpHello + acpSession + `head -c 9000000 /dev/zero | tr '\0' x; echo; cat`, ``, 1, "agent_failed", "more than 8388608 bytes"},
		"does not read":      {acpHello + acpSession + `for i in 1 2 3 4 5 6; do echo '{"id":5,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"'$PWD'/big"}}'; done; sleep 600`, ``, 1, "agent_failed", "does not read"},
		"stays when it ends": {acpHello + acpSession + acpPrompt + acpEnd + `exec sleep 600`, ``, 0, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			if name == "does not read" {
				s.write("big", strings.Repeat("x", 8<<20))
			}
			s.write("agent.sh", test.script)
			s.write("opt/spritekit", "#!/bin/sh\nexit 1\n")
			s.write("opt/agents/odd.json", `{"name":"odd","description":"d","programs":["sh"],"argv":["agent.sh"],"output":"acp","linger_s":0.2}`)
			s.env.Child = append(s.env.Child, "PATH="+filepath.Join(s.dir, "opt")+string(filepath.ListSeparator)+os.Getenv("PATH"))
			began := time.Now()
			o := s.call("agent.run", `{"agent":"odd","prompt":"x","timeout_s":60,"mcp":{"spritekit":false}`+test.more+`}`)
			if o.exit != test.exit || test.code != "" && (o.result.Error == nil || o.result.Error.Code != test.code || !strings.Contains(o.result.Error.Message, test.says)) {
				t.Errorf("exit %d after %v, %s, want %d %s with %q", o.exit, time.Since(began), o.stdout, test.exit, test.code, test.says)
			}
		})
	}
	s := newSprite(t)
	s.fails("agent.run", `{"agent":"acp","command":"x","permissions":{"allow":["["]}}`, 2, "bad_input")
	s.fails("agent.run", `{"agent":"acp","command":"x","permissions":{"mode":"plan"}}`, 8, "unsupported")
}

// A vendor's program works by the same adapter.
func TestARealAgentOfTheProtocol(t *testing.T) {
	if !strings.Contains(os.Getenv("LATTICE_AGENTS"), "gemini") {
		t.Skip("LATTICE_AGENTS does not name gemini")
	}
	a := newRealAgent(t, "gemini", agenttest.Script{})
	a.more["agent"] = "gemini-acp"
	a.model.Play(agenttest.Script{Side: "a title", Steps: []agenttest.Step{
		{Text: "let me see", Calls: []agenttest.Call{{Name: "run_shell_command", Input: map[string]string{"command": "echo made > made"}}}},
		{Text: "I write", Calls: []agenttest.Call{{Name: "write_file", Input: map[string]string{"file_path": filepath.Join(a.dir, "new"), "content": "new\n"}}}},
		{Text: "all done; the key is " + canary},
	}})
	data := a.done(map[string]any{"timeout_s": 600, "tools": []string{"test.run"}, "permissions": map[string]any{"deny": []string{"execute"}}})
	usage := data["usage"].(map[string]any)
	if a.read("new") != "new\n" || data["session_id"] == "" || data["turns"] != 3.0 || usage["input"] != 3000.0 || data["final_text"] != "all done; the key is [redacted]" {
		t.Errorf("agent.run = %v\n%s", data, a.transcripts())
	}
	if _, err := os.Stat(filepath.Join(a.dir, "made")); err == nil || len(data["permission_denials"].([]any)) != 1 {
		t.Errorf("what was denied happened, or is not named: %v", data)
	}
	if last, _ := a.model.Last(); !strings.Contains(strings.Join(last.Tools, " "), "test_run") {
		t.Errorf("it has the tools %v", last.Tools)
	}
	a.nowhere(canary)
}

// TestKeysInMessagesOfTheProtocol checks that keys which an agent sends do not reach events, nor the files of a call that waits.
func TestKeysInMessagesOfTheProtocol(t *testing.T) {
	s := newSprite(t)
	s.env.CallID = "call-asks"
	s.env.Child = append(s.env.Child, "AGENT_KEY="+canary)
	s.write("agent.sh", acpHello+acpSession+acpPrompt+
		`echo 'LATTICE_EVENT {"event_type":"ARTIFACT","payload":{"kind":"file","ref":"x'$AGENT_KEY'","url":"https://h/'$AGENT_KEY'","metadata":{"a":["'$AGENT_KEY'"]}}}'`+"\n"+
		acpPermission("execute", `{"a":"'$AGENT_KEY'"}`)+`echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'`+"\n")
	o := s.call("agent.run", `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false},"permissions":{"mode":"ask"},"env_allow":["AGENT_KEY"],"pass_through_events":true}`)
	if o.exit != protocol.ExitWaiting || !strings.Contains(o.stdout, `"ref":"x[redacted]"`) || strings.Contains(o.stdout, canary) {
		t.Errorf("agent.run = exit %d, %s", o.exit, o.stdout)
	}
	if out, err := exec.Command("grep", "-rlsa", canary, s.dir).Output(); err == nil {
		t.Errorf("the key is in %s", out)
	}
}

// askingAgent asks for permission to write the text of the file want, and writes it to the file work if it may.
const askingAgent = acpHello + `read -r m; echo "$m" >>opened
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
` + acpPrompt + `
for text in $(cat want); do
echo '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t-'$$-$text'","title":"write","kind":"edit","rawInput":{"text":"'$text'"}},"options":[{"optionId":"yes","name":"y","kind":"allow_once"},{"optionId":"always","name":"a","kind":"allow_always"},{"optionId":"no","name":"n","kind":"reject_once"}]}}'
while read -r m; do case $m in *'"id":9'*) break ;; esac; done
case $m in
*yes*) echo $text >>work ;;
*always*) echo forever >>work ;;
*cancelled*) echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'; exit ;;
esac
done
` + acpEnd

func TestAPersonIsAskedForPermission(t *testing.T) {
	const input = `{"agent":"acp","command":["sh","agent.sh"],"prompt":"do it","timeout_s":60,"mcp":{"spritekit":false},"permissions":{"mode":"ask","allow":["read"]}}`
	// yes is the nth approval of a call, of a text: an answer that a call was given before is not new to it.
	yes := func(n int, text string) map[string]any {
		sum := sha256.Sum256([]byte(`{"kind":"edit","rawInput":{"text":"` + text + `"},"title":"write"}`))
		return map[string]any{"ok": true, "action": "USE_TOOL", "result": map[string]any{"sha256": hex.EncodeToString(sum[:])}, "comments": strconv.Itoa(n)}
	}
	no := map[string]any{"ok": false, "action": "USE_TOOL", "error": map[string]any{"code": "rejected", "message": "not today"}}
	start := func(t *testing.T, want string) *sprite {
		s := newSprite(t)
		s.env.CallID = "call-asks"
		s.write("agent.sh", askingAgent)
		s.write("want", want)
		return s
	}
	// asks runs the call, which has to wait, and returns the arguments that a person is asked about.
	asks := func(s *sprite) string {
		s.t.Helper()
		o := s.call("agent.run", input)
		if o.exit != protocol.ExitWaiting {
			s.t.Fatalf("agent.run = exit %d, %s", o.exit, o.stdout)
		}
		for _, e := range o.events {
			var request struct {
				Action     string
				Parameters protocol.UseTool
			}
			if e.Type == protocol.TypeActionRequest && json.Unmarshal(e.Payload, &request) == nil && request.Action == protocol.ActionUseTool {
				return request.Parameters.Arguments
			}
		}
		s.t.Fatalf("the call waits without a request: %s", o.stdout)
		return ""
	}
	t.Run("allowed", func(t *testing.T) {
		s := start(t, "one")
		if got := asks(s); got != `{"kind":"edit","rawInput":{"text":"one"},"title":"write"}` {
			t.Errorf("asked about %s", got)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "work")); err == nil {
			t.Error("the agent did its work without an answer")
		}
		if got := asks(s); got == "" { // made again before there is an answer
			t.Error("asked about nothing")
		}
		s.resume("call-asks", yes(1, "one"))
		data := s.must("agent.run", input)
		if s.read("work") != "one\n" || data["status"] != "done" {
			t.Errorf("after the approval the work is %q: %v", s.read("work"), data)
		}
		if opened, prompts := s.read("opened"), s.read("prompts"); !strings.Contains(opened, `"session/load"`) || !strings.Contains(prompts, "it is allowed") {
			t.Errorf("the session was opened with %s and prompted with %s", opened, prompts)
		}
	})
	t.Run("denied", func(t *testing.T) {
		s := start(t, "one one")
		asks(s)
		s.resume("call-asks", no)
		data := s.must("agent.run", input)
		if _, err := os.Stat(filepath.Join(s.dir, "work")); err == nil || len(data["permission_denials"].([]any)) != 2 || !strings.Contains(s.read("prompts"), "not today") {
			t.Errorf("after the denial: %v, prompted with %s", data, s.read("prompts"))
		}
	})
	t.Run("another request", func(t *testing.T) {
		s := start(t, "one")
		asks(s)
		s.write("want", "two one one")
		s.resume("call-asks", yes(1, "one"))
		if got := asks(s); !strings.Contains(got, `"two"`) {
			t.Errorf("after the approval of another request a person is asked about %s", got)
		}
		s.resume("call-asks", yes(2, "two"))
		if got := asks(s); !strings.Contains(got, `"one"`) || s.read("work") != "two\none\n" {
			t.Errorf("an approval applies once: asked about %s, the work is %q", got, s.read("work"))
		}
		s.resume("call-asks", yes(3, "two"))
		if got := asks(s); !strings.Contains(got, `"two"`) {
			t.Errorf("an approval of an earlier request allowed this one, and a person is asked about %s", got)
		}
	})
	t.Run("without sessions", func(t *testing.T) {
		s := start(t, "one two")
		s.write("agent.sh", strings.Replace(askingAgent, `"loadSession":true`, `"loadSession":false`, 1))
		asks(s)
		s.resume("call-asks", yes(1, "one"))
		if got := asks(s); !strings.Contains(got, `"two"`) {
			t.Errorf("begun again, the agent asks about %s", got)
		}
		os.Remove(filepath.Join(s.dir, "work")) // the checkpoint of a real sprite keeps it
		s.resume("call-asks", yes(2, "two"))
		o := s.call("agent.run", input)
		if o.exit != 0 || s.read("work") != "one\ntwo\n" || len(o.result.Warnings) == 0 || o.result.Warnings[0].Code != "session_lost" {
			t.Errorf("exit %d, work %q, %s", o.exit, s.read("work"), o.stdout)
		}
		if !strings.Contains(s.read("prompts"), "it is allowed") {
			t.Errorf("prompted with %s", s.read("prompts"))
		}
	})
	t.Run("unclear", func(t *testing.T) {
		s := start(t, "one")
		s.write("agent.sh", strings.Replace(askingAgent, `"rawInput":{"text":"'$text'"}`, `"rawInput":{}`, 1))
		o := s.call("agent.run", input)
		if o.exit != 0 || len(o.result.Warnings) != 1 || o.result.Warnings[0].Code != "permission_unclear" {
			t.Errorf("a request without arguments: exit %d, %s", o.exit, o.stdout)
		}
	})
}
