package spritestest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// sessionTests check lists and ends of sessions, and joining one.
var sessionTests = map[string]func(env){
	"sessions: a session is described": func(e env) {
		id, _ := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "echo ready; sleep 600"}, Dir: "/tmp", MaxRunAfterDisconnect: -1})
		defer e.client.Kill(e.ctx, e.name, id, "KILL")
		var list struct {
			Count    int
			Sessions []map[string]any
		}
		if status := e.getJSON("/exec", &list); status != http.StatusOK || list.Count != 1 || len(list.Sessions) != 1 {
			e.Fatalf("list = %d, %+v", status, list)
		}
		one := list.Sessions[0]
		for _, member := range []string{"id", "created", "command", "workdir", "tty", "bytes_per_second", "is_active", "last_activity"} {
			if one[member] == nil {
				e.Errorf("the session lacks %s: %v", member, one)
			}
		}
		if command, _ := one["command"].(string); one["id"] != id || one["workdir"] != "/tmp" || !strings.HasPrefix(command, "/") || !strings.HasSuffix(command, "sleep 600") {
			e.Errorf("session %s = %v", id, one)
		}
	},
	"sessions: a kill tells what becomes of the session": func(e env) {
		for _, try := range []struct {
			script, query string
			types         []string
			code          float64
		}{
			{"echo ready; exec sleep 600", "signal=SIGTERM", []string{"signal", "exited", "complete"}, 143},
			{"echo ready; exec sleep 600", "signal=int&timeout=5", []string{"signal", "exited", "complete"}, 130},
			{"trap '' TERM; echo ready; while :; do sleep 0.1; done", "timeout=10ms", []string{"signal", "timeout", "killed", "complete"}, 137},
		} {
			id, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", try.script}})
			lines := e.killSession(id, try.query)
			var types []string
			for _, line := range lines {
				types = append(types, line["type"].(string))
			}
			last := lines[len(lines)-1]
			if !slices.Equal(types, try.types) || last["exit_code"] != try.code {
				e.Errorf("kill?%s = %v, want %v and exit code %v", try.query, lines, try.types, try.code)
			}
			if first := lines[0]; first["pid"] == nil || first["message"] == nil || !strings.HasPrefix(first["signal"].(string), "SIG") {
				e.Errorf("first line %v", first)
			}
			_, _ = result()
			e.requestTo(http.MethodPost, "/v1/sprites/"+e.name+"/exec/"+id+"/kill", func(res *http.Response) {
				if res.StatusCode != http.StatusGone && res.StatusCode != http.StatusNotFound {
					e.Errorf("second kill = %d, want 410 or 404", res.StatusCode)
				}
			})
		}
	},
	"sessions: a kill without patience only signals": func(e env) {
		signals, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "trap 'exit 7' INT; echo ready; while :; do sleep 0.02; done"}})
		if lines := e.killSession(signals, "signal=INT&timeout=0s"); lines[0]["type"] != "signal" {
			e.Errorf("lines %v", lines)
		}
		if code, err := result(); code != 7 || err != nil {
			e.Errorf("= %d, %v, want 7", code, err)
		}
	},
	"sessions: who joins is told the session, what it said, and what it says": func(e env) {
		id, _ := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "echo ready; read line; echo got $line; exit 5"}, Stdin: never{e.ctx}})
		for _, path := range []string{"/exec/" + id, "/exec?id=" + id} { // two at once, by the new path and the old one
			s := e.joinSession(path)
			_, info, err := s.conn.Read(e.ctx)
			var said map[string]any
			if err != nil || json.Unmarshal(info, &said) != nil || said["type"] != "session_info" || said["session_id"] != id || said["tty"] != false {
				e.Errorf("%s begins with %q, %v", path, info, err)
			}
			if _, past, err := s.conn.Read(e.ctx); err != nil || string(past) != "\x01ready\n" {
				e.Errorf("%s goes on with %q, %v", path, past, err)
			}
			if !strings.Contains(path, "?") {
				continue
			}
			s.sendMessage(websocket.MessageBinary, "\x00word\n")
			if got := s.readRest(); !slices.Equal(got, []string{"\x01got word\n", `{"type":"exit","exit_code":5}`, "\x03\x05", "close 1000"}) {
				e.Errorf("%s ends with %q", path, got)
			}
		}
	},
	"sessions: a terminal keeps what it showed for who joins": func(e env) {
		s := e.openRaw(url.Values{"cmd": {"sh", "-c", "echo ready; read line; exit 4"}, "tty": {"true"}, "detachable": {"true"}})
		_, info, err := s.conn.Read(e.ctx)
		var said struct {
			SessionID string `json:"session_id"`
		}
		if err != nil || json.Unmarshal(info, &said) != nil || said.SessionID == "" {
			e.Fatalf("first message %q, %v", info, err)
		}
		for shown := ""; !strings.Contains(shown, "ready"); {
			_, data, err := s.conn.Read(e.ctx)
			if err != nil {
				e.Fatal(err)
			}
			shown += string(data)
		}
		s.conn.CloseNow() // a terminal's command lives on
		again := e.joinSession("/exec/" + said.SessionID)
		again.sendMessage(websocket.MessageBinary, "\n")
		if got := again.readRest(); !strings.Contains(strings.Join(got, ""), "ready\r\n") || !slices.Contains(got, `{"type":"exit","exit_code":4}`) {
			e.Errorf("who joins hears %q", got)
		}
	},
	"sessions: a handshake tells what the server can do": func(e env) {
		conn, res, err := websocket.Dial(e.ctx, e.execURL(url.Values{"cmd[]": {"true"}}), e.dialOptions())
		if err != nil {
			e.Fatal(err)
		}
		defer conn.CloseNow()
		if able := strings.Split(res.Header.Get("X-Sprite-Capabilities"), ","); !slices.Contains(able, "signal") || res.Header.Get("Sprite-Version") == "" {
			e.Errorf("header %v", res.Header)
		}
	},
	"sessions: a query that cannot be read starts nothing": func(e env) {
		for _, query := range []string{"cmd=touch&cmd=/tmp/started;x", "cmd=touch&cmd=/tmp/started%zz"} {
			req, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.target.BaseURL+"/v1/sprites/"+e.name+"/exec", nil)
			if err != nil {
				e.Fatal(err)
			}
			req.URL.RawQuery = query
			req.Header.Set("Authorization", "Bearer "+e.target.Token)
			res := e.doRequest(req)
			res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				e.Errorf("%s = %d, want 400", query, res.StatusCode)
			}
		}
		if code, _, _ := e.runScript("test -e /tmp/started*", nil); code == 0 {
			e.Error("half a command ran")
		}
	},
	"sessions: what is not offered is 404": func(e env) {
		for _, try := range [][2]string{{http.MethodDelete, "/exec/1"}, {http.MethodGet, "/nothing"}, {http.MethodPatch, ""}, {http.MethodGet, "/exec/1"}} {
			e.requestTo(try[0], "/v1/sprites/"+e.name+try[1], func(res *http.Response) {
				if res.StatusCode != http.StatusNotFound && (try[0] != http.MethodPatch || res.StatusCode != http.StatusMethodNotAllowed) {
					e.Errorf("%s %s = %d, want 404", try[0], try[1], res.StatusCode)
				}
			})
		}
	},
}

// killSession returns the lines of a kill.
func (e env) killSession(id, query string) (lines []map[string]any) {
	e.Helper()
	e.requestTo(http.MethodPost, "/v1/sprites/"+e.name+"/exec/"+id+"/kill?"+query, func(res *http.Response) {
		if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/x-ndjson") {
			e.Fatalf("kill = %d, %s", res.StatusCode, kind)
		}
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(in.Bytes(), &line); err != nil {
				e.Fatalf("line %q: %v", in.Bytes(), err)
			}
			lines = append(lines, line)
		}
	})
	if len(lines) == 0 {
		e.Fatal("kill says nothing")
	}
	return lines
}

// joinSession opens a socket below the sprite's path.
func (e env) joinSession(path string) rawExec {
	e.Helper()
	conn, _, err := websocket.Dial(e.ctx, "ws"+strings.TrimPrefix(e.target.BaseURL, "http")+"/v1/sprites/"+e.name+path, e.dialOptions())
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return rawExec{e, conn}
}
