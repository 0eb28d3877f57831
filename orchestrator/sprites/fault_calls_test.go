package sprites_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/sprites"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// socket matches handshakes by the end of their path.
func socket(end string) func(*http.Request) bool {
	return func(r *http.Request) bool { return Upgrade(r) && strings.HasSuffix(r.URL.Path, end) }
}

// broken writes a part of an answer and ends the connection.
func broken(kind, part string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, part)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

const ndjson = "application/x-ndjson"

// TestOtherCallsThroughAMiddleman is TestCallsThroughAMiddleman for files, services, ports, policies, forks and settings.
func TestOtherCallsThroughAMiddleman(t *testing.T) {
	f := newFar(t)
	enough := errors.New("enough")
	service := sprites.Service{Name: "svc", Cmd: "sh", Args: []string{"-c", "echo up; exec sleep 1000"}}
	calls := map[string]func(context.Context, *sprites.Client) error{
		"rename": func(ctx context.Context, c *sprites.Client) error {
			return c.Files().Rename(ctx, "s", "/workspace/r", "/workspace/q")
		},
		"copy": func(ctx context.Context, c *sprites.Client) error {
			_, err := c.Files().Copy(ctx, "s", "/workspace/r", "/workspace/q", sprites.CopyOptions{})
			return err
		},
		"chmod": func(ctx context.Context, c *sprites.Client) error {
			return c.Files().Chmod(ctx, "s", "/workspace/r", 0o600, false)
		},
		"list files": func(ctx context.Context, c *sprites.Client) error {
			all, err := c.Files().List(ctx, "s", "/workspace")
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("listed %v", all)
			}
			return err
		},
		"put service": func(ctx context.Context, c *sprites.Client) error {
			return c.Services().Put(ctx, "s", service, sprites.ServiceCall{})
		},
		"services": func(ctx context.Context, c *sprites.Client) error { _, err := c.Services().List(ctx, "s"); return err },
		"logs": func(ctx context.Context, c *sprites.Client) error {
			return c.Services().Logs(ctx, "s", "svc", 10, sprites.ServiceCall{})
		},
		"set policy": func(ctx context.Context, c *sprites.Client) error {
			return c.Policies().SetNetwork(ctx, "s", sprites.NetworkPolicy{Rules: []sprites.NetworkRule{{Domain: "example.com", Action: "deny"}}})
		},
		"policy": func(ctx context.Context, c *sprites.Client) error {
			p, err := c.Policies().Network(ctx, "s")
			if err == nil && len(p.Rules) != 0 {
				err = fmt.Errorf("rules %v", p.Rules)
			}
			return err
		},
		"fork": func(ctx context.Context, c *sprites.Client) error {
			_, err := c.Fork(ctx, "s", sprites.Current, "t")
			return err
		},
		"restart": func(ctx context.Context, c *sprites.Client) error { return c.Restart(ctx, "s") },
		"check":   func(ctx context.Context, c *sprites.Client) error { _, err := c.Check(ctx, "s"); return err },
		"update": func(ctx context.Context, c *sprites.Client) error {
			_, err := c.Update(ctx, "s", sprites.Update{Labels: &[]string{"l"}})
			return err
		},
		"task": func(ctx context.Context, c *sprites.Client) error {
			_, err := c.Tasks().KeepAwake(ctx, "s", "t", time.Minute)
			return err
		},
		"watch list": func(ctx context.Context, c *sprites.Client) error {
			err := c.WatchList(ctx, "s", func(s sprites.SpriteState) error {
				if s.Name == "s" {
					return enough
				}
				return nil
			})
			if errors.Is(err, enough) {
				return nil
			}
			return err
		},
		"ports": func(ctx context.Context, c *sprites.Client) error { _, err := c.Ports().List(ctx, "s"); return err },
		"kill": func(ctx context.Context, c *sprites.Client) error {
			code, err := c.KillSession(ctx, "s", "1", sprites.Kill{Signal: "TERM", Timeout: time.Second})
			if err == nil && code != nil {
				err = fmt.Errorf("exit code %d", *code)
			}
			return err
		},
	}
	for _, c := range []struct {
		call, name string
		fault      Fault
		cause      string // of the error, "" for success
		remedy     string
		tries      int
		check      string // a script that must succeed in the sprite afterwards
	}{
		{"rename", "done but not answered", Fault{On: On("POST", "/fs/rename"), After: CutAfter(-1)}, "broke", "look whether it was done", 1, "[ -e /workspace/q ]"},
		{"rename", "not done", Fault{On: On("POST", "/fs/rename"), Instead: Answer(404, text, `{"error":"no such file or directory","code":"ENOENT","path":"/workspace/r"}`)}, "no such file", "", 1, "[ -e /workspace/r ]"},
		{"copy", "cut in the answer", Fault{On: On("POST", "/fs/copy"), After: CutAfter(5)}, "broke", "look whether it was done", 1, "[ -e /workspace/q ]"},
		{"copy", "a web page", Fault{On: On("POST", "/fs/copy"), Instead: Answer(200, page, html)}, "Sign in", "SPRITES_API_URL", 1, "! [ -e /workspace/q ]"},
		{"chmod", "done but not answered, twice", Fault{On: On("POST", "/fs/chmod"), Times: 2, After: CutAfter(-1)}, "", "", 3, `[ "$(stat -c %a /workspace/r)" = 600 ]`},
		{"list files", "cut, twice", Fault{On: On("GET", "/fs/list"), Times: 2, After: CutAfter(12)}, "", "", 3, ""},
		{"list files", "a null", Fault{On: On("GET", "/fs/list"), Times: -1, Instead: Answer(200, text, `null`)}, "no list", "SPRITES_API_URL", -1, ""},
		{"put service", "cut in the stream", Fault{On: On("PUT", "/services/svc"), After: CutAfter(30)}, "broke", "look whether it was done", 1, ""},
		{"put service", "an end without a word", Fault{On: On("PUT", "/services/svc"), After: Replace(200, ndjson, `{"type":"started","timestamp":1}`+"\n")}, "before the operation was complete", "look whether it was done", 1, ""},
		{"put service", "a web page", Fault{On: On("PUT", "/services/svc"), Instead: Answer(200, page, html)}, "Sign in", "SPRITES_API_URL", 1, ""},
		{"put service", "a taken port", Fault{On: On("PUT", "/services/svc"), Instead: Answer(409, "text/plain", "another service already has an HTTP port configured")}, "another service", "", 1, ""},
		{"services", "a list in an object", Fault{On: On("GET", "/services"), Instead: Answer(200, text, `{"services":[]}`)}, "", "", 1, ""},
		{"services", "no list", Fault{On: On("GET", "/services"), Instead: Answer(200, text, `{}`)}, "no list of services", "SPRITES_API_URL", 1, ""},
		{"logs", "cut before the head, once", Fault{On: On("GET", "/logs"), Instead: Cut}, "", "", 2, ""},
		{"logs", "cut in the stream", Fault{On: On("GET", "/logs"), Instead: broken(ndjson, `{"type":"stdout","data":"x","timestamp":1}`+"\n")}, "broke", "try again", 1, ""},
		{"set policy", "done but not answered, twice", Fault{On: On("POST", "/policy/network"), Times: 2, After: CutAfter(-1)}, "", "", 3, "grep -q example.com /.sprite/policy/network.json"},
		{"set policy", "a web page", Fault{On: On("POST", "/policy/network"), Instead: Answer(200, page, html)}, "Sign in", "SPRITES_API_URL", 1, ""},
		{"policy", "none is no rules", Fault{On: On("GET", "/policy/network"), Instead: Answer(200, text, `{"rules":[]}`)}, "", "", 1, ""},
		{"policy", "truncated once", Fault{On: On("GET", "/policy/network"), Instead: Answer(200, text, `{"rules":[`)}, "", "", 2, ""},
		{"fork", "done but not answered", Fault{On: On("POST", "/fork"), After: CutAfter(-1)}, "broke", "look whether it was done", 1, ""},
		{"fork", "another sprite", Fault{On: On("POST", "/fork"), Instead: Answer(201, text, `{"name":"x"}`)}, "about sprite", "SPRITES_API_URL", 1, ""},
		{"fork", "not offered", Fault{On: On("POST", "/fork"), Instead: Answer(405, text, `{"error":"no"}`)}, "no", "", 1, ""},
		{"restart", "done but not answered", Fault{On: On("POST", "/restart"), After: CutAfter(-1)}, "broke", "look whether it was done", 1, ""},
		{"check", "502 once", Fault{On: On("GET", "/check"), Instead: Answer(502, page, html)}, "", "", 2, ""},
		{"check", "no status", Fault{On: On("GET", "/check"), Instead: Answer(200, text, `{}`)}, "no status", "SPRITES_API_URL", 1, ""},
		{"update", "cut in the answer, twice", Fault{On: On("PUT", "/s"), Times: 2, After: CutAfter(3)}, "", "", 3, ""},
		{"task", "done but not answered", Fault{On: On("PUT", "/tasks/t"), After: CutAfter(-1)}, "", "", 2, ""},
		{"watch list", "cut in a line", Fault{On: On("GET", "/sprites"), Instead: broken(ndjson, `{"type":"heartbeat"}`+"\n"+`{"na`)}, "broke", "", 1, ""},
		{"watch list", "cut between lines", Fault{On: On("GET", "/sprites"), Instead: broken(ndjson, `{"type":"heartbeat"}`+"\n")}, "broke", "", 1, ""},
		{"watch list", "an end", Fault{On: On("GET", "/sprites"), Instead: Answer(200, ndjson, `{"type":"heartbeat"}`+"\n")}, "broke", "", 1, ""},
		{"watch list", "a list instead", Fault{On: On("GET", "/sprites"), Instead: Answer(200, text, `{"sprites":[],"has_more":false}`)}, "cannot be watched", "SPRITES_API_URL", 1, ""},
		{"watch list", "a web page", Fault{On: On("GET", "/sprites"), Instead: Answer(200, page, html)}, "Sign in", "SPRITES_API_URL", 1, ""},
		{"ports", "refused once", Fault{On: socket("/ports/watch"), Instead: Answer(503, page, html)}, "", "", 2, ""},
		{"ports", "cut before the list", Fault{On: socket("/ports/watch"), Down: func(m Frame, send func(Frame)) bool { return m.Op == OpHandshake }}, "broke", "", 1, ""},
		{"ports", "words that nobody knows, first", Fault{On: socket("/ports/watch"), Down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpText {
				send(Frame{Op: OpText, Data: []byte(`{"type":"novel","ports":5}`)})
				send(Frame{Op: OpText, Data: []byte("{")})
			}
			send(m)
			return true
		}}, "", "", 1, ""},
		{"kill", "gone already", Fault{On: On("POST", "/kill"), Instead: Answer(410, "text/plain", "session has ended: 1")}, "", "", 1, ""},
		{"kill", "done but not answered", Fault{On: On("POST", "/kill"), Instead: Cut}, "", "", 1, ""},
		{"kill", "an error line", Fault{On: On("POST", "/kill"), Instead: Answer(200, ndjson, `{"type":"signal"}`+"\n"+`{"type":"error","message":"it does not die"}`+"\n")}, "it does not die", "", 1, ""},
	} {
		t.Run(c.call+", "+c.name, func(t *testing.T) {
			f.begin(t)
			f.sh(t, "echo x >/workspace/r")
			if c.call == "logs" {
				if err := f.plain.Services().Put(t.Context(), "s", service, sprites.ServiceCall{}); err != nil {
					t.Fatal(err)
				}
			}
			before := f.man.Count(c.fault.On)
			f.man.Do(c.fault)
			err := calls[c.call](t.Context(), f.client)
			tries := f.man.Count(c.fault.On) - before
			f.man.Behave()
			if c.cause == "" && err != nil || c.cause != "" && (err == nil || !strings.Contains(err.Error(), c.cause)) {
				t.Errorf("= %v, want %q", err, c.cause)
			}
			if !strings.Contains(sprites.Remedy(err), c.remedy) {
				t.Errorf("Remedy(%v) = %q, want %q", err, sprites.Remedy(err), c.remedy)
			}
			if tries != c.tries && c.tries >= 0 {
				t.Errorf("%d requests, want %d", tries, c.tries)
			}
			if c.check != "" {
				f.sh(t, c.check)
			}
		})
	}
}

// TestProxyThroughAMiddleman: a connection into a sprite ends cleanly only when the other end has ended it.
func TestProxyThroughAMiddleman(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	f.sh(t, "command -v perl")
	const server = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport,"\n"; while(my $c=$s->accept){ my $b; sysread($c,$b,100); syswrite($c,"got $b"); close $c }`
	port, named := 0, errors.New("named")
	err := f.plain.Services().Put(t.Context(), "s", sprites.Service{Name: "echo", Cmd: "perl", Args: []string{"-e", server}}, sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
		if e.Type == "stdout" {
			fmt.Sscan(e.Data, &port)
			return named
		}
		return nil
	}})
	if !errors.Is(err, named) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		fault Fault
		port  int
		dial  string // what the error of connecting says
		read  string // what that of reading says, "" for an end
	}{
		{name: "nothing is amiss"},
		{name: "nothing listens", port: 1, dial: "nothing listens there"},
		{name: "a web page", fault: Fault{Instead: Answer(200, page, html)}, dial: "something else than the Sprites API"},
		{name: "refused once", fault: Fault{Instead: Answer(429, text, `{"error":"too_many_connections"}`)}},
		{name: "cut before the answer", fault: Fault{Down: func(m Frame, _ func(Frame)) bool { return m.Op == OpHandshake }}, dial: "broke"},
		{name: "another answer", fault: Fault{Down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpText {
				m.Data = []byte(`{"status":"later"}`)
			}
			send(m)
			return true
		}}, dial: "the proxy answers"},
		{name: "cut in what comes back", fault: Fault{Down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpBinary {
				send(Frame{Op: OpBinary, Data: m.Data[:3]})
				return false
			}
			send(m)
			return true
		}}, read: "read from the sprite"},
		{name: "the end is lost", fault: Fault{Down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpClose || m.Op == OpText && bytes.Contains(m.Data, []byte("eof")) {
				return false
			}
			send(m)
			return true
		}}, read: "read from the sprite"},
		{name: "a byte at a time, among words that nobody knows", fault: Fault{Down: func(m Frame, send func(Frame)) bool {
			if m.Op != OpBinary {
				send(m)
				return true
			}
			for _, b := range m.Data {
				send(Frame{Op: OpBinary, Data: []byte{b}})
				send(Frame{Op: OpText, Data: []byte(`{"type":"novel"}`)})
				send(Frame{Op: OpBinary})
			}
			return true
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.port == 0 {
				c.port = port
			}
			c.fault.On = socket("/proxy")
			f.man.Do(c.fault)
			defer f.man.Behave()
			conn, err := f.client.Dial(t.Context(), "s", "localhost", c.port)
			if c.dial != "" {
				if err == nil || !strings.Contains(err.Error(), c.dial) {
					t.Errorf("Dial = %v, want %q", err, c.dial)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "this"); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if c.read == "" && (err != nil || string(got) != "got this") || c.read != "" && (err == nil || !strings.Contains(err.Error(), c.read)) {
				t.Errorf("read %q, %v, want %q", got, err, c.read)
			}
		})
	}
}

// TestFileWatchThroughAMiddleman: a cut is told from the end that a host tells, and strange words are passed over.
func TestFileWatchThroughAMiddleman(t *testing.T) {
	f := newFar(t)
	for _, c := range []struct {
		name  string
		down  Tampering
		cause string
		over  bool
	}{
		{name: "words that nobody knows", down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpText {
				send(Frame{Op: OpText, Data: []byte("{")})
				send(Frame{Op: OpBinary, Data: []byte{1}})
			}
			send(m)
			return true
		}},
		{name: "cut at once", down: func(m Frame, _ func(Frame)) bool { return m.Op == OpHandshake }, cause: "broke"},
		{name: "ended by the host", down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpText {
				m = Frame{Op: OpClose, Data: []byte{0x03, 0xe9}}
			}
			send(m)
			return true
		}, cause: "the watch is over", over: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.begin(t)
			f.man.Do(Fault{On: socket("/fs/watch"), Down: c.down})
			defer f.man.Behave()
			w, err := f.client.Files().Watch(t.Context(), "s", []string{"/workspace"}, false)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			e, err := w.Next(t.Context())
			if c.cause == "" && (err != nil || e.Type != "subscribed") {
				t.Errorf("Next = %+v, %v", e, err)
			}
			if c.cause != "" && (err == nil || !strings.Contains(err.Error(), c.cause) || errors.Is(err, sprites.ErrWatchOver) != c.over) {
				t.Errorf("Next = %v, want %q", err, c.cause)
			}
		})
	}
}

// TestTokensAreNotTold has every kind of call fail, and looks for the token in what is said of it, there and in the host's log.
func TestTokensAreNotTold(t *testing.T) {
	const token = "org/id/canary-9f31c2"
	var log bytes.Buffer
	f := newFarWith(t, token, zerolog.New(&log).Level(zerolog.TraceLevel))
	f.begin(t)
	wrong := sprites.NewWith(f.man.URL, "canary-wrong", nil, sprites.Options{Wait: func(context.Context, time.Duration) error { return nil }})
	defer http.DefaultClient.CloseIdleConnections()
	for name, do := range map[string]func(*sprites.Client) error{
		"get": func(c *sprites.Client) error { _, err := c.Get(t.Context(), "s"); return err },
		"exec": func(c *sprites.Client) error {
			_, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}})
			return err
		},
		"attach":     func(c *sprites.Client) error { _, err := c.Attach(t.Context(), "s", "1", sprites.Exec{}); return err },
		"checkpoint": func(c *sprites.Client) error { _, err := c.Checkpoint(t.Context(), "s", ""); return err },
		"read":       func(c *sprites.Client) error { _, err := c.ReadFile(t.Context(), "s", "/etc/passwd", 1); return err },
		"dial":       func(c *sprites.Client) error { _, err := c.Dial(t.Context(), "s", "localhost", 1); return err },
		"ports":      func(c *sprites.Client) error { _, err := c.Ports().List(t.Context(), "s"); return err },
		"watch": func(c *sprites.Client) error {
			w, err := c.Files().Watch(t.Context(), "s", []string{"/"}, false)
			if err == nil {
				w.Close()
			}
			return err
		},
		"list": func(c *sprites.Client) error {
			return c.WatchList(t.Context(), "", func(sprites.SpriteState) error { return errors.New("seen") })
		},
		"service": func(c *sprites.Client) error {
			return c.Services().Start(t.Context(), "s", "none", sprites.ServiceCall{})
		},
	} {
		for _, fault := range []Fault{{}, {Times: -1, Instead: Cut}, {Times: -1, Instead: Answer(502, page, html)}, {Times: -1, Instead: Answer(401, text, `{"error":"authentication failed"}`)}} {
			for _, c := range []*sprites.Client{f.client, wrong} {
				if fault.Instead != nil {
					fault.On = func(*http.Request) bool { return true }
					f.man.Do(fault)
				}
				err := do(c)
				f.man.Behave()
				if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(sprites.Remedy(err), "canary")) {
					t.Errorf("%s tells the token: %v", name, err)
				}
				if err == nil && c == wrong {
					t.Errorf("%s works with a wrong token", name)
				}
			}
		}
	}
	if strings.Contains(log.String(), "canary") {
		t.Errorf("the host's log tells the token: %s", log.String())
	}
}
