package sprites_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// TestEnvironmentIsComplete: a remote service gives a command nothing but the variables that are sent, so PATH and HOME
// always are; the sprite is asked for them once.
func TestEnvironmentIsComplete(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	var mu sync.Mutex
	var queries []url.Values
	f.man.Do(Fault{Times: -1, On: func(r *http.Request) bool {
		if Exec(r) {
			mu.Lock()
			defer mu.Unlock()
			queries = append(queries, r.URL.Query())
		}
		return false
	}})
	c := sprites.NewWith(f.man.URL, "", nil, sprites.Options{Remote: true})
	defer http.DefaultClient.CloseIdleConnections()
	for _, env := range [][]string{{"A=1"}, {"A=2", "HOME=/tmp"}, nil} {
		if code, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}, Env: env}); code != 0 || err != nil {
			t.Fatal(code, err)
		}
	}
	if len(queries) != 4 || len(queries[0]["env"]) != 0 || len(queries[3]["env"]) != 0 {
		t.Fatalf("queries = %v, want one for the sprite's own variables, and none sent where none are asked for", queries)
	}
	own := strings.Split(strings.TrimSpace(f.sh(t, "echo PATH=$PATH; echo HOME=$HOME")), "\n")
	first, second := queries[1]["env"], queries[2]["env"]
	for _, want := range append(own, "A=1") {
		if !slices.Contains(first, want) {
			t.Errorf("env = %q, want %s in it", first, want)
		}
	}
	if !slices.Contains(second, "HOME=/tmp") || slices.Contains(second, "HOME=/home/sprite") || !slices.Contains(second, own[0]) {
		t.Errorf("env = %q, want the HOME that was given, and the sprite's PATH", second)
	}
}

// TestEnvironmentIsNotTheCommand: what goes wrong with the question says nothing of the command, which was not started.
func TestEnvironmentIsNotTheCommand(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	flood := func(m Frame, send func(Frame)) bool {
		for range 64 {
			send(Frame{Op: OpBinary, Data: append([]byte{1}, bytes.Repeat([]byte("x"), 64<<10)...)})
		}
		send(m)
		return true
	}
	for _, tt := range []struct {
		name, want string
		fault      Fault
	}{
		{"cut", "ask for the sprite's environment", Fault{On: Exec, Down: CutAt("")}},
		{"refused by a proxy", "ask for the sprite's environment", Fault{On: Exec, Instead: Answer(502, page, html)}},
		{"without end", "longer than", Fault{On: Exec, Down: flood}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hc := &http.Client{Transport: &http.Transport{}}
			defer hc.CloseIdleConnections()
			c := sprites.NewWith(f.man.URL, "", hc, sprites.Options{Remote: true})
			f.man.Do(tt.fault)
			_, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}, Env: []string{"A=1"}})
			var lost *sprites.LostError
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.As(err, &lost) {
				t.Errorf("Exec = %v, want an error with %q that is no LostError", err, tt.want)
			}
			if code, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}, Env: []string{"A=1"}}); code != 0 || err != nil {
				t.Errorf("the next Exec = %d, %v", code, err)
			}
		})
	}
}

// TestSecretsAreNotInErrors: the URL of an exec holds its environment, and is told nobody.
func TestSecretsAreNotInErrors(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	const canary = "canary-5bd0e1f7"
	gone := sprites.New("http://127.0.0.1:1", canary, nil)
	for name, c := range map[string]struct {
		client *sprites.Client
		fault  Fault
	}{
		"no connection":  {gone, Fault{}},
		"cut handshake":  {f.client, Fault{On: Exec, Instead: Cut}},
		"cut stream":     {f.client, Fault{On: Exec, Down: CutAt("")}},
		"a proxy's page": {f.client, Fault{On: Exec, Instead: Answer(502, page, html)}},
		"a redirect": {f.client, Fault{On: Exec, Instead: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		}}},
		"hung handshake": {f.client, Fault{On: Exec, Instead: f.man.Hang}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fault.On != nil {
				f.man.Do(c.fault)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := c.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"true"}, Env: []string{"KEY=" + canary}})
			if err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("Exec = %v", err)
			}
		})
	}
}

// TestDeadPeer: a server that is gone without closing its connection is noticed, however long the command may take.
func TestDeadPeer(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	c := sprites.NewWith(f.man.URL, "", hc, sprites.Options{Probe: 20 * time.Millisecond})
	f.man.Do(Fault{On: Exec, Down: func(m Frame, send func(Frame)) bool {
		if m.Op == OpHandshake || m.Op == OpText {
			send(m)
		}
		return true
	}})
	_, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sleep", "1000"}})
	var lost *sprites.LostError
	if !errors.As(err, &lost) {
		t.Errorf("Exec = %v, want a LostError", err)
	}
}

// TestRetriesAreSpread: pauses double, and jitter takes up to a half away.
func TestRetriesAreSpread(t *testing.T) {
	var waits []time.Duration
	c := sprites.NewWith("http://127.0.0.1:1", "", nil, sprites.Options{
		Jitter: func() float64 { return 0.5 },
		Wait: func(_ context.Context, d time.Duration) error {
			waits = append(waits, d)
			return nil
		},
	})
	_, err := c.Get(t.Context(), "s")
	var conn *sprites.ConnError
	if !errors.As(err, &conn) || conn.Sent {
		t.Errorf("Get = %v, want a ConnError of a request that was not sent", err)
	}
	if want := []time.Duration{75 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("waited %v, want %v", waits, want)
	}
}
