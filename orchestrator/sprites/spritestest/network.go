package spritestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// networkTests hold the policies of a sprite, and the sockets that lead into it.
var networkTests = map[string]func(env){
	"network: a policy is told as it was set": func(e env) {
		const rules = `{"rules":[{"domain":"example.com","action":"allow"},{"domain":"*.example.org","action":"deny"},{"include":"defaults"}]}`
		if status, body := e.requestText(http.MethodPost, "/policy/network", strings.NewReader(rules)); status != http.StatusNoContent || body != "" {
			e.Errorf("POST = %d, %q, want 204", status, body)
		}
		if status, body := e.requestText(http.MethodGet, "/policy/network", nil); status != http.StatusOK || strings.TrimSpace(body) != rules {
			e.Errorf("GET = %d, %s, want %s", status, body, rules)
		}
		for _, bad := range []string{``, `{}`, `{"rules":null}`, `[]`, `{"rules":[{"domain":"a.com"}]}`, `{"rules":[{"domain":"a.com","action":"perhaps"}]}`,
			`{"rules":[{"include":"defaults","domain":"a.com","action":"allow"}]}`, `{"rules":[{"domain":"a.com","action":"allow","port":1}]}`} {
			if status, body := e.requestText(http.MethodPost, "/policy/network", strings.NewReader(bad)); status != http.StatusBadRequest || body == "" {
				e.Errorf("POST %s = %d, %q, want 400 and why", bad, status, body)
			}
		}
		if _, body := e.requestText(http.MethodGet, "/policy/network", nil); strings.TrimSpace(body) != rules {
			e.Errorf("after refusals: %s", body)
		}
		if got := e.mustRun(`cat "$(dirname "${LATTICE_SOCKET:-/.sprite/api.sock}")/policy/network.json"`); strings.TrimSpace(got) != rules {
			e.Errorf("the mirror says %s", got)
		}
	},
	"network: other policies are kept": func(e env) {
		for path, document := range map[string]string{"/policy/privileges": `{"profile":"minimal"}`, "/policy/resources": `{"memory":{"limit_mb":512}}`} {
			if status, body := e.requestText(http.MethodPost, path, strings.NewReader(document)); status != http.StatusOK && status != http.StatusNoContent {
				e.Errorf("POST %s = %d, %s", path, status, body)
			}
			if status, body := e.requestText(http.MethodGet, path, nil); status != http.StatusOK || strings.TrimSpace(body) != document {
				e.Errorf("GET %s = %d, %s, want %s", path, status, body, document)
			}
			if status, body := e.requestText(http.MethodPost, path, strings.NewReader(`{"unknown":1}`)); status != http.StatusBadRequest {
				e.Errorf("POST of nonsense to %s = %d, %s", path, status, body)
			}
			if status, body := e.requestText(http.MethodDelete, path, nil); status != http.StatusNoContent && status != http.StatusOK {
				e.Errorf("DELETE %s = %d, %s", path, status, body)
			}
			if status, body := e.requestText(http.MethodGet, path, nil); status != http.StatusOK || strings.TrimSpace(body) == document {
				e.Errorf("GET %s after DELETE = %d, %s", path, status, body)
			}
		}
	},
	"network: a proxy socket says what went wrong": func(e env) {
		for _, try := range []struct {
			typ     websocket.MessageType
			message string
			status  websocket.StatusCode
			reason  string
		}{
			{websocket.MessageText, "no JSON", websocket.StatusUnsupportedData, ""},
			{websocket.MessageBinary, `{"host":"localhost","port":1}`, websocket.StatusUnsupportedData, ""},
			{websocket.MessageText, `{"host":"localhost"}`, websocket.StatusUnsupportedData, ""},
			{websocket.MessageText, `{"host":"localhost","port":1}`, websocket.StatusInternalError, "Failed to connect to target"},
			{websocket.MessageText, `{"host":"169.254.169.254","port":80}`, websocket.StatusInternalError, "Failed to connect to target"},
		} {
			s := e.joinSession("/proxy")
			s.sendMessage(try.typ, try.message)
			_, data, err := s.conn.Read(e.ctx)
			if websocket.CloseStatus(err) != try.status || !strings.Contains(fmt.Sprint(err), try.reason) {
				e.Errorf("%s: %q, %v, want close %d %s", try.message, data, err, try.status, try.reason)
			}
		}
	},
	"network: ports are watched from a list on": func(e env) {
		e.mustRun("command -v perl")
		s := e.joinSession("/ports/watch")
		_, first, err := s.conn.Read(e.ctx)
		if err != nil || strings.TrimSpace(string(first)) != `{"type":"port_list","ports":[]}` {
			e.Fatalf("first message %q, %v", first, err)
		}
		id, _ := e.beginExec(e.ctx, perlServer())
		for _, kind := range []string{"port_opened", "port_closed"} {
			_, data, err := s.conn.Read(e.ctx)
			var told map[string]any
			if err != nil || json.Unmarshal(data, &told) != nil || told["type"] != kind || told["port"] == nil || told["address"] != "127.0.0.1" || told["pid"] == nil {
				e.Fatalf("message %q, %v, want %s", data, err, kind)
			}
			if err := e.client.Kill(e.ctx, e.name, id, "KILL"); err != nil {
				e.Error(err)
			}
		}
	},
}

// perlServer is a command that listens on a free port of the sprite's loopback interface.
func perlServer() sprites.Exec {
	const listen = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print "ready ",$s->sockport,"\n"; sleep 1000`
	return sprites.Exec{Cmd: []string{"perl", "-e", listen}}
}
