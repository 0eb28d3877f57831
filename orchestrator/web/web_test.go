package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/dashboard"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/access"
	"github.com/spritekit/lattice/spritekit/fault"
)

// leader answers each request with the name of its caller. Its tokens and sessions are the names of roles.
type leader struct {
	dashboard.Leader // nil: the pages are tested where they are
	ending           bool
}

func (leader) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, caller.Of(r.Context()).String())
	})
}

func (l leader) Hello() api.Hello {
	return api.Hello{Version: "1.2", Runs: 7, Driven: 1, Ending: l.ending}
}

func (leader) RecordRefused(context.Context, string, string) error { return nil }

func (leader) RecordWrite(*http.Request, int, string) error { return nil }

func (leader) CountAppended() []lattice.EntryCount {
	return []lattice.EntryCount{{EntryClass: lattice.EntryClass{Kind: lattice.EntryEvent, Type: "INFO"}, Count: 3}}
}

func (leader) CountReads() uint64 { return 5 }

func (leader) Runs(context.Context, api.RunList) ([]api.RunView, error) {
	return []api.RunView{{Status: lattice.Waiting, Waits: make([]lattice.Wait, 2)}, {Status: lattice.Running}}, nil
}

func (leader) Run(context.Context, string) (api.RunView, error) {
	return api.RunView{}, fault.NotFound("run_not_found", "there is no run")
}

func (leader) Cancel(_ context.Context, id, by string) (api.RunView, error) {
	return api.RunView{}, fault.NotFound("run_not_found", "%s asked for %s", by, id)
}

func (l leader) BeginSession(ctx context.Context, secret string) (access.Session, bool, time.Duration, error) {
	_, ok, wait, err := l.CheckToken(ctx, secret)
	return access.Session{Text: secret, Expires: time.Now().Add(time.Hour)}, ok, wait, err
}

func (l leader) CheckSession(ctx context.Context, text string) (access.Caller, bool, error) {
	c, ok, _, err := l.CheckToken(ctx, text)
	return c, ok, err
}

func (leader) EndSession(context.Context, string) error { return nil }

func (leader) CheckToken(_ context.Context, text string) (access.Caller, bool, time.Duration, error) {
	if text == "flood" {
		return access.Caller{}, false, 1500 * time.Millisecond, nil
	}
	role := route.Role(text)
	return access.Caller{Who: audit.Who{Name: "token:" + text, UID: -1}, Role: role}, role.Includes(route.Viewer), 0, nil
}

func (leader) ReceiveHook(_ http.ResponseWriter, _ *http.Request, forge string) error {
	if forge != "main" {
		return fault.NotFound("forge_not_found", "there is no code host %s", forge)
	}
	return nil
}

// TestHandler: a request is served as the caller with its token if the role allows it, and else says why not.
func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		method, path, token string
		header              [2]string
		status              int
		code                string
	}{
		{"GET", "/api/v1/runs", "viewer", [2]string{}, 200, ""},
		{"HEAD", "/api/v1/runs", "viewer", [2]string{}, 200, ""},
		{"GET", "/api/v1/runs/x/events", "viewer", [2]string{}, 200, ""},
		{"GET", "/api/v1/openapi.json", "viewer", [2]string{}, 200, ""},
		{"GET", "/api/v1/runs", "", [2]string{}, 401, "token_missing"},
		{"GET", "/api/v1/runs", "none", [2]string{}, 401, "token_wrong"},
		{"GET", "/api/v1/runs", "flood", [2]string{}, 429, "token_attempts"},
		{"GET", "/metrics", "", [2]string{}, 401, "token_missing"},
		{"POST", "/api/v1/runs/x/decide", "viewer", [2]string{}, 403, "role_missing"},
		{"POST", "/api/v1/runs/x/decide", "operator", [2]string{}, 200, ""},
		{"POST", "/api/v1/runs", "operator", [2]string{}, 403, "role_missing"},
		{"POST", "/api/v1/runs", "admin", [2]string{}, 200, ""},
		{"POST", "/api/v1/tokens", "admin", [2]string{}, 403, "role_missing"},
		{"DELETE", "/api/v1/tokens/ci", "admin", [2]string{}, 403, "role_missing"},
		{"POST", "/api/v1/lattice/handover", "admin", [2]string{}, 403, "role_missing"},
		{"POST", "/v1/lattice/handover", "admin", [2]string{}, 404, "no_route"},
		{"GET", "/v1/sprites", "viewer", [2]string{}, 200, ""},
		{"GET", "/v1/sprites/s", "viewer", [2]string{}, 200, ""},
		{"GET", "/v1/sprites/s/fs/read", "operator", [2]string{}, 403, "role_missing"},
		{"POST", "/v1/sprites/s/exec", "admin", [2]string{}, 200, ""},
		{"DELETE", "/v1/images/i", "operator", [2]string{}, 403, "role_missing"},
		{"GET", "/api/v1/nothing", "operator", [2]string{}, 403, "role_missing"},
		{"GET", "/elsewhere", "admin", [2]string{}, 404, "no_route"},
		{"GET", "/elsewhere", "none", [2]string{}, 401, "token_wrong"},
		{"POST", "/healthz", "admin", [2]string{}, 405, "bad_request"},
		{"DELETE", "/metrics", "", [2]string{}, 405, "bad_request"},
		{"GET", "/api/v1/runs", "admin", [2]string{"Origin", "http://evil.example"}, 403, "foreign_origin"},
		{"GET", "/api/v1/runs", "admin", [2]string{"Host", "evil.example"}, 403, "foreign_host"},
		{"GET", "/healthz", "", [2]string{"Host", "evil.example:80"}, 403, "foreign_host"},
		{"POST", "/hooks/main", "", [2]string{"Host", "lattice.example"}, 202, ""}, // through a proxy
		{"POST", "/hooks/other", "", [2]string{}, 404, "forge_not_found"},
		{"GET", "/hooks/main", "admin", [2]string{}, 404, "no_route"},
		{"POST", "/hooks/main", "", [2]string{"Origin", "https://evil.example"}, 403, "foreign_origin"},
		{"GET", "/healthz", "", [2]string{"Host", "[::1]:80"}, 200, ""},
		{"GET", "/readyz", "", [2]string{"Host", "localhost"}, 200, ""},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Host = "127.0.0.1:1"
		if tt.header[0] == "Host" {
			r.Host = tt.header[1]
		} else if tt.header[0] != "" {
			r.Header.Set(tt.header[0], tt.header[1])
		}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		w := httptest.NewRecorder()
		Handler(leader{}, nil, true).ServeHTTP(w, r)
		var p exchange.Problem
		if tt.code != "" {
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Error == nil {
				t.Fatalf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
			}
		} else {
			p.Error = new(fault.Error)
		}
		if w.Code != tt.status || p.Fault.Code != tt.code || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s as %q %v: %d %s, want %d %s", tt.method, tt.path, tt.token, tt.header, w.Code, p.Fault.Code, tt.status, tt.code)
		}
		if tt.status == 200 && strings.HasPrefix(tt.path, "/api/v1/runs") && tt.token == "operator" && w.Body.String() != "token:operator" {
			t.Errorf("%s is served as %s", tt.path, w.Body)
		}
		if tt.status == 429 && w.Header().Get("Retry-After") != "2" {
			t.Errorf("Retry-After is %s", w.Header().Get("Retry-After"))
		}
	}
}

func TestMetrics(t *testing.T) {
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer viewer")
	w := httptest.NewRecorder()
	Handler(leader{}, nil, false).ServeHTTP(w, r)
	for _, line := range []string{`lattice_build_info{version="1.2"} 1`, "lattice_runs_stored 7", "lattice_runs_driven 1", `lattice_runs_open{status="waiting"} 1`, `lattice_runs_open{status="pending"} 0`, "lattice_waits_open 2", "# TYPE lattice_waits_open gauge", "# TYPE lattice_entries_total counter", `lattice_entries_total{kind="event",type="INFO"} 3`, "lattice_store_reads_total 5"} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("the metrics lack %s:\n%s", line, w.Body)
		}
	}
	w = httptest.NewRecorder()
	Handler(leader{ending: true}, nil, false).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a leader that ends is ready: %d", w.Code)
	}
}

// TestPromtool: Prometheus' own checker finds no fault with the names, the types and the labels of the metrics.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("promtool, of the package prometheus, is not there: %v", err)
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer viewer")
	w := httptest.NewRecorder()
	Handler(leader{}, nil, false).ServeHTTP(w, r)
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = w.Body
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestCheckAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:80": "", "[::1]:80": "", "0.0.0.0:80": "address_open", ":80": "address_open", "192.0.2.1:80": "address_open",
		"host.example:80": "address_open", "127.0.0.1": "bad_address", "": "bad_address",
	} {
		var p *fault.Error
		if err := CheckAddress(address, false, false); (err == nil) != (want == "") || errors.As(err, &p) && p.Fault.Code != want {
			t.Errorf("CheckAddress(%q) = %v, want %s", address, err, want)
		}
	}
	if err := CheckAddress("0.0.0.0:80", false, true); err != nil {
		t.Error(err)
	}
	if err := CheckAddress("0.0.0.0:443", true, false); err != nil {
		t.Error(err)
	}
}
