package sprites_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // the test binary is the init of its sandboxes
	"github.com/spritekit/lattice/orchestrator/sprites"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// far is a real host behind a middleman, with a sprite called s, and a client who does not wait between retries.
type far struct {
	man    *Middleman
	client *sprites.Client
	plain  *sprites.Client // the same, for looking at what became of things

	mu    sync.Mutex
	waits []time.Duration // guarded by mu
}

func newFar(t *testing.T) *far {
	t.Helper()
	return newFarWith(t, "", zerolog.Nop())
}

func newFarWith(t *testing.T, token string, log zerolog.Logger) *far {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: token, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &far{man: NewMiddleman(t, host.Handler())}
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	f.client = sprites.NewWith(f.man.URL, token, hc, sprites.Options{Wait: func(ctx context.Context, d time.Duration) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waits = append(f.waits, d)
		return ctx.Err()
	}})
	f.plain = sprites.New(f.man.URL, token, hc)
	return f
}

// begin makes the sprite anew.
func (f *far) begin(t *testing.T) {
	t.Helper()
	f.waits = nil
	for _, name := range []string{"s", "t"} {
		if err := f.plain.Delete(t.Context(), name); err != nil && !errors.Is(err, sprites.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if _, err := f.plain.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
}

// sh runs a script when the middleman behaves.
func (f *far) sh(t *testing.T, script string) string {
	t.Helper()
	var out bytes.Buffer
	if code, err := f.plain.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out}); code != 0 || err != nil {
		t.Fatalf("sh -c %q = %d, %v", script, code, err)
	}
	return out.String()
}

const (
	html = "<html><head><title>Sign in</title></head>…</html>"
	page = "text/html; charset=utf-8"
	text = "application/json"
)

// once is a command whose effect can be counted.
var once = sprites.Exec{Cmd: []string{"sh", "-c", "cat; echo ran >>/workspace/ran; echo output"}, Stdin: strings.NewReader("")}

func TestExecThroughAMiddleman(t *testing.T) {
	f := newFar(t)
	drop := func(match func(Frame) bool) func(Frame, func(Frame)) bool {
		return func(f Frame, send func(Frame)) bool {
			if !match(f) {
				send(f)
			}
			return true
		}
	}
	var held []Frame
	for _, c := range []struct {
		name   string
		fault  Fault
		cause  string // of the error, "" for success
		remedy string
		lost   bool // the outcome is unknown
		ran    int  // how often; -1 = 0 or 1
	}{
		{name: "nothing", ran: 1},
		{name: "cut before the host saw it", fault: Fault{Instead: Cut}, cause: "before it was known whether", remedy: "lattice sprite sessions", lost: true, ran: -1},
		{name: "cut after the start, before the answer", fault: Fault{Down: func(f Frame, _ func(Frame)) bool { return f.Op != OpHandshake }}, cause: "before it was known whether", remedy: "lattice sprite sessions", lost: true, ran: -1},
		{name: "cut before the exit", fault: Fault{Down: CutAt("")}, cause: "lost session", remedy: "--attach", lost: true, ran: 1},
		{name: "closed with 1000 without an exit", fault: Fault{Down: drop(Frame.Exit)}, cause: "lost session", remedy: "--attach", lost: true, ran: 1},
		{name: "only the binary exit arrives", fault: Fault{Down: drop(func(f Frame) bool { return f.Exit() && f.Op == OpText })}, ran: 1},
		{name: "only the text exit arrives", fault: Fault{Down: drop(func(f Frame) bool { return f.Exit() && f.Op == OpBinary })}, ran: 1},
		{name: "the exits contradict", fault: Fault{Down: func(f Frame, send func(Frame)) bool {
			if f.Exit() && f.Op == OpBinary {
				f.Data[1] = 1
			}
			send(f)
			return true
		}}, cause: "told twice", remedy: "--attach", lost: true, ran: 1},
		{name: "the exits come before the output", fault: Fault{Down: func(f Frame, send func(Frame)) bool {
			if f.Stdout() != "" {
				held = append(held, f)
				return true
			}
			if f.Exit() && f.Op == OpText {
				held = append(held, f)
				return true
			}
			send(f)
			if f.Exit() {
				for _, h := range held {
					send(h)
				}
			}
			return true
		}}, ran: 1},
		{name: "a byte at a time", fault: Fault{Down: func(f Frame, send func(Frame)) bool {
			for _, b := range []byte(f.Stdout()) {
				send(Frame{Op: OpBinary, Data: []byte{1, b}})
			}
			if f.Stdout() == "" {
				send(f)
			}
			return true
		}}, ran: 1},
		{name: "every frame is late", fault: Fault{Down: func(f Frame, send func(Frame)) bool {
			time.Sleep(5 * time.Millisecond)
			send(f)
			return true
		}}, ran: 1},
		{name: "frames that nobody knows", fault: Fault{Down: func(f Frame, send func(Frame)) bool {
			if f.Op <= OpBinary {
				send(Frame{Op: OpText, Data: []byte(`{"type":"novel","session_id":7}`)})
				send(Frame{Op: OpText, Data: []byte("{")})
				send(Frame{Op: OpBinary, Data: []byte{9, 9}})
				send(Frame{Op: OpBinary, Data: nil})
			}
			send(f)
			return true
		}}, ran: 1},
		{name: "the end of stdin is lost", fault: Fault{Up: drop(func(f Frame) bool { return f.Op == OpBinary && len(f.Data) == 1 && f.Data[0] == 4 })}, cause: "canceled", remedy: "--attach", lost: true},
		{name: "nothing arrives", fault: Fault{Down: drop(func(f Frame) bool { return f.Op != OpHandshake })}, cause: "deadline", remedy: "lattice sprite sessions", lost: true, ran: -1},
		{name: "401", fault: Fault{Instead: Answer(401, text, `{"error":"authentication failed"}`)}, cause: "authentication failed", remedy: "SPRITES_TOKEN"},
		{name: "403", fault: Fault{Instead: Answer(403, text, `{"error":"not yours"}`)}, cause: "not yours", remedy: "SPRITES_TOKEN"},
		{name: "404", fault: Fault{Instead: Answer(404, text, `{"error":"sprite not found"}`)}, cause: "sprite not found", remedy: "lattice sprite ls"},
		{name: "409", fault: Fault{Instead: Answer(409, text, `{"error":"restoring"}`)}, cause: "restoring", remedy: "wait"},
		{name: "429 once", fault: Fault{Instead: Answer(429, text, `{"error":"limited","retry_after_seconds":1}`)}, ran: 1},
		{name: "429 always", fault: Fault{Times: -1, Instead: Answer(429, text, `{"error":"limited"}`)}, cause: "limited", remedy: "wait"},
		{name: "431", fault: Fault{Instead: Answer(431, "text/plain", "431 Request Header Fields Too Large")}, cause: "Too Large", remedy: "into a file"},
		{name: "500", fault: Fault{Instead: Answer(500, text, `{"error":"oops"}`)}, cause: "oops", remedy: "try again later"},
		{name: "502", fault: Fault{Instead: Answer(502, page, html)}, cause: "Sign in", remedy: "lattice sprite sessions", lost: true},
		{name: "503", fault: Fault{Instead: Answer(503, text, `{"error":"draining"}`)}, cause: "draining", remedy: "try again later"},
		{name: "507", fault: Fault{Instead: Answer(507, text, `{"error":"disk_low","message":"the disk is nearly full"}`)}, cause: "nearly full", remedy: "free space"},
		{name: "a web page of status 200", fault: Fault{Instead: Answer(200, page, html)}, cause: "something else than the Sprites API", remedy: "SPRITES_API_URL"},
		{name: "a hung handshake", fault: Fault{Instead: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, cause: "deadline", remedy: "lattice sprite sessions", lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			held = nil
			f.begin(t)
			// A refused handshake leaves a connection that is kept, whose end makes HTTP clients try again.
			f.man.Do(Fault{On: Exec, Instead: Answer(400, text, `{}`)})
			if _, err := f.plain.Exec(t.Context(), "s", once); err == nil {
				t.Fatal("the refusal was not seen")
			}
			c.fault.On = Exec
			f.man.Do(c.fault)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if c.cause == "deadline" {
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
			}
			defer cancel()
			var out bytes.Buffer
			e := once
			e.Stdin, e.Stdout = strings.NewReader(""), &out
			if c.cause == "canceled" { // the client leaves as soon as the command is known to run
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				e.OnSession = func(string) { cancel() }
			}
			before := f.man.Count(Exec)
			_, err := f.client.Exec(ctx, "s", e)
			tries := f.man.Count(Exec) - before
			f.man.Behave()
			var lost *sprites.LostError
			switch {
			case c.cause == "" && (err != nil || out.String() != "output\n"):
				t.Errorf("Exec = %v with output %q", err, out.String())
			case c.cause != "" && (err == nil || !strings.Contains(err.Error(), c.cause)):
				t.Errorf("Exec = %v, want %q", err, c.cause)
			case errors.As(err, &lost) != c.lost:
				t.Errorf("Exec = %v, want a LostError: %v", err, c.lost)
			case !strings.Contains(sprites.Remedy(err), c.remedy):
				t.Errorf("Remedy(%v) = %q, want %q", err, sprites.Remedy(err), c.remedy)
			}
			if limited := strings.HasPrefix(c.name, "429"); tries != 1 && !limited {
				t.Errorf("the command was sent %d times", tries)
			}
			if got := strings.Count(f.sh(t, "cat /workspace/ran 2>/dev/null || true"), "ran"); got != c.ran && c.ran >= 0 || got > 1 {
				t.Errorf("the command ran %d times, want %d", got, c.ran)
			}
		})
	}
}

func TestCallsThroughAMiddleman(t *testing.T) {
	f := newFar(t)
	get := func(ctx context.Context, f *far) error { _, err := f.client.Get(ctx, "s"); return err }
	list := func(ctx context.Context, f *far) error { _, err := f.client.List(ctx, ""); return err }
	sessions := func(ctx context.Context, f *far) error { _, err := f.client.Sessions(ctx, "s"); return err }
	write := func(ctx context.Context, f *far) error {
		return f.client.WriteFile(ctx, "s", "/workspace/w", strings.NewReader(strings.Repeat("w", 1<<20)), 0o644)
	}
	stream := func(ctx context.Context, f *far) error {
		return f.client.WriteFile(ctx, "s", "/workspace/w", struct{ *bytes.Buffer }{bytes.NewBufferString("w")}, 0o644)
	}
	read := func(ctx context.Context, f *far) error {
		data, err := f.client.ReadFile(ctx, "s", "/workspace/r", 1<<20)
		if err == nil && string(data) != "0123456789\n" {
			err = errors.New("read " + string(data))
		}
		return err
	}
	remove := func(ctx context.Context, f *far) error {
		return f.client.Files().Remove(ctx, "s", "/workspace/r", false)
	}
	create := func(ctx context.Context, f *far) error {
		_, err := f.client.Create(ctx, sprites.Create{Name: "t"})
		return err
	}
	checkpoint := func(ctx context.Context, f *far) error { _, err := f.client.Checkpoint(ctx, "s", "c"); return err }
	restore := func(ctx context.Context, f *far) error {
		if err := f.plain.WriteFile(ctx, "s", "/workspace/r", strings.NewReader("later"), 0o644); err != nil {
			return err
		}
		return f.client.Restore(ctx, "s", "v1")
	}
	for _, c := range []struct {
		name   string
		do     func(context.Context, *far) error
		fault  Fault
		cause  string // of the error, "" for success
		remedy string
		tries  int    // requests that came by
		check  string // a script that must succeed in the sprite afterwards
	}{
		{name: "get, 502 and 503 on the way", do: get, fault: Fault{On: On("GET", "/s"), Times: 3, Instead: Answer(503, page, html)}, tries: 4},
		{name: "get, 502 for ever", do: get, fault: Fault{On: On("GET", "/s"), Times: -1, Instead: Answer(502, page, html)}, cause: "a proxy's page", remedy: "try again later", tries: 4},
		{name: "get, 401", do: get, fault: Fault{On: On("GET", "/s"), Instead: Answer(401, text, `{"error":"authentication failed"}`)}, cause: "authentication failed", remedy: "SPRITES_TOKEN", tries: 1},
		{name: "get, 403", do: get, fault: Fault{On: On("GET", "/s"), Instead: Answer(403, "text/plain", `no`)}, cause: "no (status 403)", remedy: "SPRITES_TOKEN", tries: 1},
		{name: "get, 404", do: get, fault: Fault{On: On("GET", "/s"), Instead: Answer(404, text, `{"error":"sprite not found"}`)}, cause: "sprite not found", remedy: "lattice sprite ls", tries: 1},
		{name: "get, 409", do: get, fault: Fault{On: On("GET", "/s"), Instead: Answer(409, text, `{"error":"busy"}`)}, cause: "busy", remedy: "wait", tries: 1},
		{name: "get, 500", do: get, fault: Fault{On: On("GET", "/s"), Instead: Answer(500, text, ``)}, cause: "internal server error", remedy: "try again later", tries: 1},
		{name: "get, a web page", do: get, fault: Fault{On: On("GET", "/s"), Times: -1, Instead: Answer(200, page, html)}, cause: "Sign in", remedy: "SPRITES_API_URL", tries: 1},
		{name: "get, a wrong type", do: get, fault: Fault{On: On("GET", "/s"), Times: -1, Instead: Answer(200, text, `[1]`)}, cause: "cannot be read", remedy: "SPRITES_API_URL", tries: 4},
		{name: "get, another sprite", do: get, fault: Fault{On: On("GET", "/s"), Times: -1, Instead: Answer(200, text, `{"name":"x"}`)}, cause: `about sprite "x"`, remedy: "SPRITES_API_URL", tries: 1},
		{name: "get, truncated JSON once", do: get, fault: Fault{On: On("GET", "/s"), After: Replace(200, text, `{"name":"s","sta`)}, tries: 2},
		{name: "get, cut in the body once", do: get, fault: Fault{On: On("GET", "/s"), After: CutAfter(9)}, tries: 2},
		{name: "list, cut", do: list, fault: Fault{On: On("GET", "/sprites"), Times: 2, Instead: Cut}, tries: 3},
		{name: "list, no list", do: list, fault: Fault{On: On("GET", "/sprites"), Instead: Answer(200, text, `{}`)}, cause: "no list of sprites", remedy: "SPRITES_API_URL", tries: 1},
		{name: "sessions, null is an empty list", do: sessions, fault: Fault{On: On("GET", "/exec"), Instead: Answer(200, text, `{"count":0,"sessions":null}`)}, tries: 1},
		{name: "sessions, an empty list that counts one", do: sessions, fault: Fault{On: On("GET", "/exec"), Instead: Answer(200, text, `{"count":1,"sessions":[]}`)}, cause: "counts 1 sessions and lists 0", remedy: "SPRITES_API_URL", tries: 1},
		{name: "sessions, hung", do: func(ctx context.Context, f *far) error {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return sessions(ctx, f)
		}, fault: Fault{On: On("GET", "/exec"), Times: -1, Instead: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, cause: "in time", remedy: "try again", tries: 1},
		{name: "write, answered by nobody, twice", do: write, fault: Fault{On: On("PUT", "/fs/write"), Times: 2, After: CutAfter(-1)}, tries: 3, check: "[ $(wc -c </workspace/w) = 1048576 ]"},
		{name: "write, cut before the end", do: write, fault: Fault{On: On("PUT", "/fs/write"), Instead: Cut}, tries: 2, check: "[ $(wc -c </workspace/w) = 1048576 ]"},
		{name: "write of what cannot be read again, cut", do: stream, fault: Fault{On: On("PUT", "/fs/write"), Instead: Cut}, cause: "broke", remedy: "look whether it was done", tries: 1},
		{name: "write, fewer bytes arrived", do: write, fault: Fault{On: On("PUT", "/fs/write"), Times: -1, After: Replace(200, text, `{"path":"/workspace/w","size":5}`)}, cause: "5 of 1048576 bytes", remedy: "SPRITES_API_URL", tries: 4},
		{name: "write, no content is fine", do: write, fault: Fault{On: On("PUT", "/fs/write"), After: func(w http.ResponseWriter, _ *http.Response, _ []byte) { w.WriteHeader(204) }}, tries: 1},
		{name: "write, a web page is not", do: write, fault: Fault{On: On("PUT", "/fs/write"), Instead: Answer(200, page, html)}, cause: "Sign in", remedy: "SPRITES_API_URL", tries: 1},
		{name: "read, cut in the middle, twice", do: read, fault: Fault{On: On("GET", "/fs/read"), Times: 2, After: CutAfter(4)}, tries: 3},
		{name: "read, cut for ever", do: read, fault: Fault{On: On("GET", "/fs/read"), Times: -1, After: CutAfter(0)}, cause: "broke", remedy: "try again", tries: 4},
		{name: "remove, done but not answered", do: remove, fault: Fault{On: On("DELETE", "/fs/delete"), After: CutAfter(-1)}, tries: 2, check: "! [ -e /workspace/r ]"},
		{name: "remove, a web page", do: remove, fault: Fault{On: On("DELETE", "/fs/delete"), Instead: Answer(200, page, html)}, cause: "Sign in", remedy: "SPRITES_API_URL", tries: 1, check: "[ -e /workspace/r ]"},
		{name: "create, done but not answered", do: create, fault: Fault{On: On("POST", "/sprites"), After: CutAfter(-1)}, cause: "broke", remedy: "look whether it was done", tries: 1},
		{name: "create, 429 with a time", do: create, fault: Fault{On: On("POST", "/sprites"), Instead: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			Answer(429, text, `{"error":"sprite_creation_rate_limited","message":"slow down"}`)(w, r)
		}}, tries: 2},
		{name: "create, 429 with a day", do: create, fault: Fault{On: On("POST", "/sprites"), Instead: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "86400")
			Answer(429, text, `{"error":"slow down"}`)(w, r)
		}}, cause: "slow down", remedy: "wait", tries: 1},
		{name: "create, 503", do: create, fault: Fault{On: On("POST", "/sprites"), Instead: Answer(503, text, `{"error":"draining"}`)}, cause: "draining", remedy: "try again later", tries: 1},
		{name: "checkpoint, an error line under 200", do: checkpoint, fault: Fault{On: On("POST", "/checkpoint"), Instead: Answer(200, "application/x-ndjson", `{"type":"info","data":"ID: v1"}`+"\n"+`{"type":"error","error":"no space"}`+"\n")}, cause: "no space", tries: 1},
		{name: "checkpoint, cut in the stream", do: checkpoint, fault: Fault{On: On("POST", "/checkpoint"), After: CutAfter(40)}, cause: "broke", remedy: "look whether it was done", tries: 1},
		{name: "checkpoint, an end without a word", do: checkpoint, fault: Fault{On: On("POST", "/checkpoint"), After: Replace(200, "application/x-ndjson", `{"type":"info","data":"ID: v1"}`+"\n")}, cause: "before the operation was complete", remedy: "look whether it was done", tries: 1},
		{name: "restore, cut in the stream, twice", do: restore, fault: Fault{On: On("POST", "/restore"), Times: 2, After: CutAfter(10)}, tries: 3, check: "grep -q 0123 /workspace/r"},
		{name: "restore, an error line under 200", do: restore, fault: Fault{On: On("POST", "/restore"), Instead: Answer(200, "application/x-ndjson", `{"type":"error","error":"mount failed"}`)}, cause: "mount failed", tries: 1, check: "grep -q later /workspace/r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.begin(t)
			f.sh(t, "echo 0123456789 >/workspace/r")
			if strings.HasPrefix(c.name, "restore") {
				if _, err := f.plain.Checkpoint(t.Context(), "s", ""); err != nil {
					t.Fatal(err)
				}
			}
			f.man.Do(c.fault)
			before := f.man.Count(c.fault.On)
			err := c.do(t.Context(), f)
			tries := f.man.Count(c.fault.On) - before
			f.man.Behave()
			if c.cause == "" && err != nil || c.cause != "" && (err == nil || !strings.Contains(err.Error(), c.cause)) {
				t.Errorf("= %v, want %q", err, c.cause)
			}
			if !strings.Contains(sprites.Remedy(err), c.remedy) {
				t.Errorf("Remedy(%v) = %q, want %q", err, sprites.Remedy(err), c.remedy)
			}
			if tries != c.tries {
				t.Errorf("%d requests, want %d", tries, c.tries)
			}
			if c.check != "" {
				f.sh(t, c.check)
			}
			if strings.Contains(c.name, "429 with a time") && !slices.Equal(f.waits, []time.Duration{7 * time.Second}) {
				t.Errorf("waited %v, want 7s", f.waits)
			}
		})
	}
}
