package spritestest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// controlTests speak the two dialects of the control channel by hand.
var controlTests = map[string]func(env){
	"control: one command after another, by stream numbers": func(e env) {
		c := e.controlChannel(nil, "node")
		for _, want := range []struct{ script, in, out, code string }{
			{"cat; exit 7", "first", "first", "7"}, {"cat; echo more", "second\n", "second\nmore\n", "0"},
		} {
			c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"sh", "-c", want.script}, "stdin": "true"}))
			c.sendMessage(websocket.MessageBinary, "\x00"+want.in)
			c.sendMessage(websocket.MessageBinary, "\x04")
			out, code := c.readOperation("\x01")
			if out != want.out || code != want.code {
				e.Errorf("%s = %q, exit %s, want %q, %s", want.script, out, code, want.out, want.code)
			}
		}
	},
	"control: one command after another, by raw input": func(e env) {
		c := e.controlChannel(nil, "sprites-go-sdk/1.0")
		for _, text := range []string{"first\x04", "\x01second", "{\"type\":\"signal\",\"signal\":\"KILL\"}"} {
			c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"cat"}, "stdin": "true", "tty": "false"}))
			c.sendMessage(websocket.MessageBinary, text)
			c.sendMessage(websocket.MessageBinary, "\x04")
			if out, code := c.readOperation("\x01"); out != text || code != "0" {
				e.Errorf("cat = %q, exit %s, want %q", out, code, text)
			}
			c.sendMessage(websocket.MessageText, `{"type":"release"}`)
			c.sendMessage(websocket.MessageText, `{"type":"keepalive"}`)
		}
	},
	"control: the first byte of the first input decides": func(e env) {
		for _, agent := range []string{"sprites-go-sdk/1.0", "sprites-go-sdk/2.0", "node", ""} {
			c := e.controlChannel(nil, agent)
			for _, input := range []struct {
				messages []string
				want     string
			}{
				{[]string{"\x00one", "\x00two\x00", "\x00\x04"}, "onetwo\x00\x04"}, // numbered
				{[]string{"one", "\x00two", "\x04four", ""}, "one\x00two\x04four"}, // not
				{nil, ""}, // no input at all
			} {
				c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"cat"}, "stdin": "true"}))
				for _, m := range append(input.messages, "\x04") {
					c.sendMessage(websocket.MessageBinary, m)
				}
				if out, code := c.readOperation("\x01"); out != input.want || code != "0" {
					e.Errorf("%s: cat of %q = %q, exit %s, want %q", agent, input.messages, out, code, input.want)
				}
				c.sendMessage(websocket.MessageText, `{"type":"release"}`)
			}
		}
	},
	"control: the query starts the first command": func(e env) {
		c := e.controlChannel(url.Values{"op": {"exec"}, "cmd": {"stty", "size"}, "tty": {"true"}, "rows": {"31"}, "cols": {"97"}}, "")
		if out, code := c.readOperation(""); out != "31 97\r\n" || code != "0" {
			e.Errorf("stty size = %q, exit %s", out, code)
		}
	},
	"control: signals and sizes come as text or as bytes": func(e env) {
		c := e.controlChannel(nil, "node")
		for _, typ := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"sleep", "600"}}))
			c.sendMessage(typ, `{"type":"signal","signal":"SIGTERM"}`)
			if _, code := c.readOperation("\x01"); code != "143" {
				e.Errorf("exit %s, want 143", code)
			}
			c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{
				"cmd": []string{"sh", "-c", `until [ "$(stty size)" = "50 120" ]; do sleep 0.02; done; exit 9`}, "tty": "true",
			}))
			c.sendMessage(typ, `{"type":"resize","cols":120,"rows":50}`)
			if _, code := c.readOperation(""); code != "9" {
				e.Errorf("exit %s, want 9", code)
			}
		}
	},
	"control: what cannot be done is refused, and the channel goes on": func(e env) {
		c := e.controlChannel(nil, "")
		c.sendMessage(websocket.MessageBinary, "\x00x")
		if code := c.readRefusal(); code != "op.not_active" {
			e.Errorf("input without an operation: %s", code)
		}
		c.sendMessage(websocket.MessageText, startMessage("fs.read", nil))
		if code := c.readRefusal(); code != "op.not_found" {
			e.Errorf("fs.read: %s", code)
		}
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{}}))
		if code := c.readRefusal(); code != "bad_request" {
			e.Errorf("no command: %s", code)
		}
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"id": "1"}))
		if code := c.readRefusal(); !strings.Contains(code, "session not found") {
			e.Errorf("a session that is not there: %s", code)
		}
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"cat"}, "stdin": "true"}))
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"true"}}))
		if code := c.readRefusal(); code != "op.busy" {
			e.Errorf("a second operation: %s", code)
		}
		c.sendMessage(websocket.MessageBinary, "\x00still\x00")
		c.sendMessage(websocket.MessageBinary, "\x04")
		if out, code := c.readOperation("\x01"); out != "still\x00" || code != "0" {
			e.Errorf("cat = %q, exit %s", out, code)
		}
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"cmd": []string{"no-such-program"}}))
		if _, code := c.readOperation("\x02"); code != "127" {
			e.Errorf("a program that is not there: exit %s", code)
		}
	},
	"control: a released command is found again": func(e env) {
		c := e.controlChannel(nil, "node")
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{
			"cmd": []string{"sh", "-c", "echo ready; read x; echo got $x; exit 5"}, "stdin": "true", "max_run_after_disconnect": "0",
		}))
		id := ""
		for id == "" {
			var info struct {
				SessionID string `json:"session_id"`
			}
			if m := c.readText(); strings.HasPrefix(m, "{") && json.Unmarshal([]byte(m), &info) == nil {
				id = info.SessionID
			}
		}
		for c.readText() != "\x01ready\n" {
		}
		c.sendMessage(websocket.MessageText, `{"type":"release"}`)
		c.sendMessage(websocket.MessageText, startMessage("exec", map[string]any{"id": id}))
		c.sendMessage(websocket.MessageBinary, "\x00word\n")
		if out, code := c.readOperation("\x01"); out != "ready\ngot word\n" || code != "5" {
			e.Errorf("joined: %q, exit %s", out, code)
		}
	},
	"control: what is no handshake is refused, with 404 where there are no channels": func(e env) {
		got := e.getJSON("/control", nil)
		if offered := slices.Contains(e.target.Capabilities, "control"); got < 400 || got > 499 || !offered && got != http.StatusNotFound {
			e.Errorf("GET /control = %d", got)
		}
	},
	"control: a missing sprite fails the handshake": func(e env) {
		e.requireCapability("control")
		target := "ws" + strings.TrimPrefix(e.target.BaseURL, "http") + "/v1/sprites/no-such-sprite/control"
		if _, res, err := websocket.Dial(e.ctx, target, e.dialOptions()); err == nil || res == nil || res.StatusCode != http.StatusNotFound {
			e.Errorf("Dial = %v, %v, want status 404", res, err)
		}
	},
}

// controlChannel is a control channel without a client's manners.
type controlChannel struct{ rawExec }

func (e env) controlChannel(query url.Values, agent string) controlChannel {
	e.Helper()
	e.requireCapability("control")
	options := e.dialOptions()
	options.HTTPHeader.Set("User-Agent", agent)
	target := "ws" + strings.TrimPrefix(e.target.BaseURL, "http") + "/v1/sprites/" + e.name + "/control?" + query.Encode()
	conn, _, err := websocket.Dial(e.ctx, target, options)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return controlChannel{rawExec{e, conn}}
}

func startMessage(op string, args map[string]any) string {
	text, _ := json.Marshal(map[string]any{"type": "op.start", "op": op, "args": args}) // of strings and lists
	return "control:" + string(text)
}

func (c controlChannel) readText() string {
	c.Helper()
	_, data, err := c.conn.Read(c.ctx)
	if err != nil {
		c.Fatal(err)
	}
	return string(data)
}

// controlMessage is an envelope of the server.
type controlMessage struct {
	Type string
	Args struct {
		ExitCode      *json.Number
		Code, Message string
		Error         string
	}
}

// readEnvelope reads the next message if it is one.
func (c controlChannel) readEnvelope() (m controlMessage, other string) {
	c.Helper()
	text := c.readText()
	body, ok := strings.CutPrefix(text, "control:")
	if !ok {
		return m, text
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		c.Fatalf("%q: %v", text, err)
	}
	return m, ""
}

// readOperation reads to the end of an operation. It returns the data of the given stream, and the exit code of both end frames.
func (c controlChannel) readOperation(stream string) (out, code string) {
	c.Helper()
	var text strings.Builder
	var exit string
	for {
		m, other := c.readEnvelope()
		switch {
		case m.Type == "op.ack":
		case m.Type == "op.complete" && m.Args.ExitCode != nil:
			code = m.Args.ExitCode.String()
			if exit != code {
				c.Errorf("exit %q and op.complete %s differ", exit, code)
			}
			return text.String(), code
		case m.Type != "":
			c.Fatalf("op.complete = %+v", m)
		case strings.HasPrefix(other, `{"type":"exit"`):
			exit = strings.Trim(strings.TrimPrefix(other, `{"type":"exit","exit_code":`), "}")
		case !strings.HasPrefix(other, "{") && !(stream != "" && other[0] == 3):
			rest, ok := strings.CutPrefix(other, stream)
			if !ok {
				c.Errorf("message %q", other)
			}
			text.WriteString(rest)
		}
	}
}

// readRefusal reads up to the next op.error, past the frames of an operation that runs.
func (c controlChannel) readRefusal() (code string) {
	c.Helper()
	for {
		m, other := c.readEnvelope()
		if other == "" && m.Type == "op.error" {
			if m.Args.Message == "" || m.Args.Message != m.Args.Error {
				c.Errorf("op.error = %+v, want a reason in both members", m)
			}
			return m.Args.Code
		}
		if !slices.Contains([]string{"", "op.ack"}, m.Type) {
			c.Fatalf("message %+v, want op.error", m)
		}
	}
}
