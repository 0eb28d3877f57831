package leader_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/web"
)

// writes sends requests to a leader that is served to callers with tokens.
type writes struct {
	t      *testing.T
	leader *leader.Leader
	server *httptest.Server
	tokens map[route.Role]string
	seen   int
}

// send sends a request as the caller of a role, and returns the status and the code of the answer.
func (ws *writes) send(role route.Role, method, path, text string) (int, string) {
	ws.t.Helper()
	var header []string
	if role != "" {
		header = []string{"Authorization", "Bearer " + ws.tokens[role]}
	}
	resp := send(ws.t, ws.server, method, path, text, header...)
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	return resp.StatusCode, body[exchange.Problem](ws.t, resp).Code
}

// newest returns the entries that came since the last call.
func (ws *writes) newest() []audit.Entry {
	ws.t.Helper()
	var all []audit.Entry
	if err := ws.leader.AuditEntries(ws.t.Context(), "", 0, func(e audit.Entry) error { all = append(all, e); return nil }); err != nil {
		ws.t.Fatal(err)
	}
	news := all[ws.seen:]
	ws.seen = len(all)
	return news
}

// TestWritesAreRecorded: each write of the interface leaves an entry of the audit log, with the name of its caller and, if it was
// refused, the status and the code: for want of a token, a role or the object, or because it does not fit the state.
func TestWritesAreRecorded(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	id := start(t, l, ask, "")
	watch(t, l, id, "")
	ws := &writes{t: t, leader: l, server: httptest.NewServer(web.Handler(l, nil, true)), tokens: map[route.Role]string{}}
	t.Cleanup(ws.server.Close)
	for _, role := range []route.Role{route.Viewer, route.Admin} {
		made, err := l.CreateToken(t.Context(), api.TokenRequest{Name: string(role), Role: role})
		if err != nil {
			t.Fatal(err)
		}
		ws.tokens[role] = made.Text
	}
	ws.newest()
	has := func(news []audit.Entry, who, call string, status int, code string) bool {
		for _, e := range news {
			var body struct {
				Call, Code string
				Status     int
			}
			if json.Unmarshal(e.Body, &body) == nil && e.Kind == audit.Write && e.Who != nil && e.Who.Name == who && body.Call == call && body.Status == status && body.Code == code {
				return true
			}
		}
		return false
	}
	tried, statuses := 0, map[int]int{}
	for _, r := range api.Routes(nil) {
		path := strings.ReplaceAll(r.Path, "{id}", "no-such")
		if request, _ := http.NewRequest(r.Method, path, nil); !govern.MayWrite(request) || r.Role == route.Owner {
			continue
		}
		tried++
		call := r.Method + " " + path
		if status, code := ws.send("", r.Method, path, "{}"); status != http.StatusUnauthorized || code != "token_missing" {
			t.Errorf("%s without a token: %d %s", call, status, code)
		}
		status, code := ws.send(route.Viewer, r.Method, path, "{}")
		if news := ws.newest(); status != http.StatusForbidden || !has(news, "token:viewer", call, status, code) {
			t.Errorf("%s of a viewer: %d %s, recorded as %s", call, status, code, bodies(news))
		}
		for _, body := range []string{"{}", "null", `{"unknown":1}`} {
			status, code := ws.send(route.Admin, r.Method, path, body)
			if status == http.StatusOK { // recorded with the next entry
				ws.send(route.Viewer, r.Method, path, "{}")
				status = 0
			}
			if news := ws.newest(); !has(news, "token:admin", call, status, code) {
				t.Errorf("%s with %s: %d %s, recorded as %s", call, body, status, code, bodies(news))
			}
			statuses[status]++
		}
	}
	for _, status := range []int{0, http.StatusBadRequest, http.StatusNotFound} {
		if statuses[status] == 0 {
			t.Errorf("no write ended with %d: %v", status, statuses)
		}
	}
	if tried < 25 {
		t.Errorf("only %d routes may write", tried)
	}
	decide := api.Root + "/runs/" + id + "/decide"
	for _, tt := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"decision":"answer","typed":{"none":1}}`, http.StatusUnprocessableEntity, "bad_answer"},
		{`{"decision":"approve"}`, 0, ""},
		{`{"decision":"reject"}`, http.StatusConflict, "already_decided"},
	} {
		status, code := ws.send(route.Admin, "POST", decide, tt.body)
		ws.send(route.Viewer, "POST", decide, "{}")
		if status == http.StatusOK {
			status = 0
		}
		if news := ws.newest(); status != tt.status || code != tt.code || !has(news, "token:admin", "POST "+decide, status, code) {
			t.Errorf("%s: %d %s, want %d %s, recorded as %s", tt.body, status, code, tt.status, tt.code, bodies(news))
		}
	}
	var unknown []audit.Entry
	if err := l.AuditEntries(t.Context(), "web", 0, func(e audit.Entry) error { unknown = append(unknown, e); return nil }); err != nil || len(unknown) != 1 || !strings.Contains(string(unknown[0].Body), "token_missing") {
		t.Errorf("writes without a token are recorded as %s, %v: one entry an hour is wanted", bodies(unknown), err)
	}
}

func bodies(entries []audit.Entry) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%s %s", e.Who, e.Body))
	}
	return all
}
