package spritestest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// wireTests write and read frames by hand, because other clients must not depend on the behaviour of ours.
var wireTests = map[string]func(env){
	"wire: the order of an exec": func(e env) {
		got := e.openRaw(url.Values{"cmd": {"sh", "-c", "echo /a/b; exit 3"}}).readRest()
		var info map[string]any
		if len(got) != 5 || json.Unmarshal([]byte(got[0]), &info) != nil {
			e.Fatalf("messages = %q, want session_info, output, exit, 3, close", got)
		}
		for _, name := range []string{"session_id", "created", "cols", "rows"} {
			if info[name] == nil {
				e.Errorf("session_info = %s, lacks %s", got[0], name)
			}
		}
		if info["type"] != "session_info" || info["command"] != "sh" || info["is_owner"] != true || info["tty"] != false {
			e.Errorf("session_info = %s", got[0])
		}
		if want := []string{"\x01/a/b\n", `{"type":"exit","exit_code":3}`, "\x03\x03", "close 1000"}; !slices.Equal(got[1:], want) {
			e.Errorf("then %q, want %q", got[1:], want)
		}
	},
	"wire: the order of a terminal": func(e env) {
		got := e.openRaw(url.Values{"cmd": {"sh", "-c", "stty size; exit 3"}, "tty": {"true"}}).readRest()
		if want := []string{"24 80\r\n", `{"type":"exit","exit_code":3}`, "close 1000"}; len(got) == 0 || !slices.Equal(got[1:], want) {
			e.Errorf("after session_info %q, want %q", got, want)
		}
	},
	"wire: path is the program and cmd its arguments": func(e env) {
		for _, try := range []struct {
			query url.Values
			want  string
		}{
			{url.Values{"path": {"/bin/sh"}, "cmd": {"another", "-c", "echo $0"}}, "another\n"},
			{url.Values{"path": {"pwd"}, "dir": {"/tmp"}}, "/tmp\n"},
			{url.Values{"cmd": {"printf", "%s|", "a b", "c\nd", "", "\xff\xfe"}}, "a b|c\nd||\xff\xfe|"},
			{url.Values{"cmd": {"sh", "-c", `echo "$A"`}, "env": {"A=x=\xff=z", "PATH=/usr/bin:/bin"}}, "x=\xff=z\n"},
		} {
			if got := e.openRaw(try.query).readOutput(); got != try.want {
				e.Errorf("%v = %q, want %q", try.query, got, try.want)
			}
		}
	},
	"wire: strange frames are ignored": func(e env) {
		s := e.openRaw(url.Values{"cmd": {"cat"}, "stdin": {"true"}})
		for _, message := range []string{"", "\x00", "\x07x", "\x01y", "\xff"} {
			s.sendMessage(websocket.MessageBinary, message)
		}
		for _, message := range []string{"", "no JSON", "[]", `{"type":"other"}`, `{"type":"resize","rows":"x"}`, strings.Repeat("x", 1<<20)} {
			s.sendMessage(websocket.MessageText, message)
		}
		s.sendMessage(websocket.MessageBinary, "\x00in")
		s.sendMessage(websocket.MessageBinary, "\x04")
		if got := s.readOutput(); got != "in" {
			e.Errorf("output = %q", got)
		}
	},
	"wire: 20 MiB of input in one message": func(e env) {
		s := e.openRaw(url.Values{"cmd": {"wc", "-c"}, "stdin": {"true"}})
		s.sendMessage(websocket.MessageBinary, "\x00"+strings.Repeat("z", 20<<20))
		s.sendMessage(websocket.MessageBinary, "\x04")
		if got := strings.TrimSpace(s.readOutput()); got != "20971520" {
			e.Errorf("wc -c = %q", got)
		}
	},
	"wire: a client is heard although its input is not read": func(e env) {
		s := e.openRaw(url.Values{"cmd": {"sleep", "600"}, "stdin": {"true"}})
		s.sendMessage(websocket.MessageBinary, "\x00"+strings.Repeat("z", 5<<20))
		for range 1000 {
			s.sendMessage(websocket.MessageBinary, "\x00z")
		}
		s.sendMessage(websocket.MessageText, `{"type":"signal","signal":"SIGTERM"}`)
		got := s.readRest()
		if !slices.Contains(got, "\x03\x8f") {
			e.Errorf("messages = %q, want exit 143", got)
		}
	},
	"wire: no command is started for a handshake that fails": func(e env) {
		query := url.Values{"cmd": {"touch", "/tmp/started"}}.Encode()
		for _, change := range []func(*http.Request){
			func(r *http.Request) { r.Header.Del("Sec-WebSocket-Key") },
			func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") },
			func(r *http.Request) { r.Header.Del("Connection") },
		} {
			status := e.sendRequest("/exec?"+query, func(r *http.Request) {
				r.Header.Set("Upgrade", "websocket")
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Sec-WebSocket-Version", "13")
				r.Header.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
				change(r)
			}, nil)
			if status < 400 || status > 499 {
				e.Errorf("status = %d, want 4xx", status)
			}
		}
		if code, _, _ := e.runScript("test -e /tmp/started", nil); code == 0 {
			e.Error("the command ran")
		}
	},
	"wire: an exec over POST": func(e env) {
		for _, try := range []struct {
			script, stdin, want string
		}{
			{"echo out", "", "\x01out\n\x03\x00"},
			{"echo err >&2; exit 9", "", "\x02err\n\x03\x09"},
			{"cat; exit 3", "input", "\x01input\x03\x03"},
			{"exit 0", "", "\x03\x00"},
		} {
			query := url.Values{"cmd": {"sh", "-c", try.script}}
			if try.stdin != "" {
				query.Set("stdin", "true")
			}
			if got := e.postExec(query, try.stdin); got != try.want {
				e.Errorf("%s = %q, want %q", try.script, got, try.want)
			}
		}
		// However it is cut into frames, all of it arrives, in order.
		got := e.postExec(url.Values{"cmd": {"sh", "-c", "seq 30000; sleep 600 & exit 4"}}, "")
		out, exited := strings.CutSuffix(got, "\x03\x04")
		var want strings.Builder
		for n := range 30000 {
			fmt.Fprintln(&want, n+1)
		}
		if strings.ReplaceAll(out, "\x01", "") != want.String() || !exited {
			e.Errorf("seq 30000 = %d bytes, exit told: %t", len(out), exited)
		}
	},
	"wire: execs without a command or with a byte 0 are refused": func(e env) {
		for _, query := range []url.Values{{}, {"cmd": {"echo", "a\x00b"}}, {"cmd": {"true"}, "env": {"A"}}, {"cmd": {"true"}, "cols": {"70000"}}} {
			_, res, err := websocket.Dial(e.ctx, e.execURL(query), e.dialOptions())
			if err == nil || res == nil || res.StatusCode != http.StatusBadRequest {
				e.Errorf("%v: %v, %v, want status 400", query, res, err)
			}
		}
	},
}

func (e env) execURL(query url.Values) string {
	return "ws" + strings.TrimPrefix(e.target.BaseURL, "http") + "/v1/sprites/" + e.name + "/exec?" + query.Encode()
}

func (e env) dialOptions() *websocket.DialOptions {
	return &websocket.DialOptions{
		HTTPClient: e.target.HTTPClient, HTTPHeader: http.Header{"Authorization": {"Bearer " + e.target.Token}},
	}
}

// postExec runs a command over POST and returns the frames of its answer, which have no boundaries any more.
func (e env) postExec(query url.Values, stdin string) string {
	e.Helper()
	req, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.target.BaseURL+"/v1/sprites/"+e.name+"/exec?"+query.Encode(), strings.NewReader(stdin))
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.target.Token)
	res := e.doRequest(req)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/octet-stream" {
		e.Errorf("status %d, %v: %v", res.StatusCode, res.Header, err)
	}
	return string(data)
}

// rawExec is an exec socket without a client's manners.
type rawExec struct {
	env
	conn *websocket.Conn
}

func (e env) openRaw(query url.Values) rawExec {
	e.Helper()
	conn, _, err := websocket.Dial(e.ctx, e.execURL(query), e.dialOptions())
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return rawExec{e, conn}
}

func (s rawExec) sendMessage(typ websocket.MessageType, message string) {
	s.Helper()
	if err := s.conn.Write(s.ctx, typ, []byte(message)); err != nil {
		s.Fatal(err)
	}
}

// readRest reads to the end of the socket, which it reports as "close N".
func (s rawExec) readRest() (messages []string) {
	s.Helper()
	for {
		_, data, err := s.conn.Read(s.ctx)
		if status := websocket.CloseStatus(err); status == websocket.StatusNormalClosure {
			return append(messages, "close 1000")
		}
		if err != nil {
			s.Errorf("read: %v", err)
			return messages
		}
		messages = append(messages, string(data))
	}
}

// readOutput is all that came on stdout.
func (s rawExec) readOutput() string {
	s.Helper()
	var out bytes.Buffer
	for _, m := range s.readRest() {
		if len(m) > 0 && m[0] == sprites.StreamStdout {
			out.WriteString(m[1:])
		}
	}
	return out.String()
}
