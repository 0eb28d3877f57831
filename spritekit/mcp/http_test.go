package mcp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/spritekit/skill"
)

// listen serves the skills over HTTP until the test ends, or the returned function is called.
func listen(t *testing.T, list []Skill, o Options) (url string, end func() error) {
	t.Helper()
	o.Stderr = t.Output()
	s, err := New(list, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.HTTP(ctx, "127.0.0.1:0", func(url string) { ready <- url }) }()
	var served error
	end = func() error {
		if cancel(); ended != nil {
			served, ended = <-ended, nil
		}
		return served
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	select {
	case url = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return url, end
}

func TestHTTPServesManyClients(t *testing.T) {
	_, env := sprite(t)
	url, _ := listen(t, []Skill{served(t, echo, says)}, Options{Env: env})
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("the server speaks %s, want %s", got, version)
			}
			if r := call(t, session, &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "hi"}}); r.failed {
				t.Errorf("call = %s", r.line)
			}
		})
	}
}

func TestHTTPEndsWithACallUnderWay(t *testing.T) {
	_, env := sprite(t)
	running := make(chan string, 1)
	url, end := listen(t, []Skill{served(t, echo, meet(running, nil))}, Options{Env: env})
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	called := make(chan struct{})
	go func() {
		defer close(called)
		_, _ = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "x"}})
	}()
	<-running
	if err := end(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	<-called
}

func TestHTTPIsForThisMachineOnly(t *testing.T) {
	_, env := sprite(t)
	s, err := New(nil, Options{Env: env, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1", ""} {
		err := s.HTTP(t.Context(), addr, func(url string) { t.Errorf("serves %s at %s", addr, url) })
		if refused := (*skill.Error)(nil); !errors.As(err, &refused) {
			t.Errorf("HTTP(%q) = %v, want it refused", addr, err)
		}
	}
}

// A web page that a person has open reaches loopback, too: by a name that it lets lead here, or straight.
func TestHTTPRefusesWebPages(t *testing.T) {
	_, env := sprite(t)
	url, _ := listen(t, nil, Options{Env: env})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for name, change := range map[string]func(*http.Request){
		"rebound name":   func(r *http.Request) { r.Host = "evil.example:80" },
		"foreign origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"cross-site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("MCP-Protocol-Version", version)
			change(req)
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: status %s, want 403", name, version, res.Status)
			}
		}
	}
}
