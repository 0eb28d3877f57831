package host

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// lifeWorld is a world whose clock is set by the test, and whose timers never fire by themselves.
func lifeWorld(t *testing.T, limits core.Limits) (w *world, pass func(time.Duration)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h, err := open(core.Config{
		Dir: dir, Self: self, Log: zerolog.Nop(), WarmAfter: time.Hour, ColdAfter: 24 * time.Hour, Limits: limits,
	}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	h.core.Now = func() time.Time { return time.Now().UTC().Add(time.Duration(passed.Load())) }
	h.core.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	server := httptest.NewServer(h.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	w = &world{t, dir, h, sprites.New(server.URL, "", server.Client()), server.URL}
	return w, func(d time.Duration) { passed.Add(int64(d)) }
}

// asleep returns what the timer would do, done now.
func (w *world) asleep(name string) string {
	w.Helper()
	rec, err := w.host.core.Store.Sprite(name)
	if err != nil {
		w.Fatal(err)
	}
	s, err := w.host.fleet.Runtime(rec)
	if err != nil {
		w.Fatal(err)
	}
	s.SleepIfIdle()
	return w.status(name)
}

func (w *world) status(name string) string {
	w.Helper()
	got, err := w.client.Get(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	return got.Status
}

// detached starts a command and leaves it.
func (w *world) detached(name string, grace time.Duration, script string) (session string) {
	w.Helper()
	ctx, cut := context.WithCancel(w.Context())
	var said strings.Builder
	stdin, keyboard := io.Pipe()
	defer keyboard.Close()
	_, err := w.client.Exec(ctx, name, sprites.Exec{
		Cmd: []string{"sh", "-c", "echo ready; " + script}, MaxRunAfterDisconnect: grace, Stdin: stdin,
		OnSession: func(id string) { session = id }, Stdout: writer(func(p []byte) {
			if said.Write(p); strings.Contains(said.String(), "ready") {
				cut()
			}
		}),
	})
	if err == nil {
		w.Fatal("the command ended")
	}
	w.settle(name)
	return session
}

// settle waits until nobody is attached to the sprite's sessions any more.
func (w *world) settle(name string) {
	w.Helper()
	rec, err := w.host.core.Store.Sprite(name)
	if err != nil {
		w.Fatal(err)
	}
	s, err := w.host.fleet.Runtime(rec)
	if err != nil {
		w.Fatal(err)
	}
	_, _, leave, err := w.host.fleet.Enter(w.Context(), name, fleet.Alone)
	if err != nil {
		w.Fatal(err)
	}
	leave()
	for w.Context().Err() == nil { // the server hears of a client's leaving in its own time
		if s.Uses() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestIdleSpritesGetWarmAndCold(t *testing.T) {
	w, pass := lifeWorld(t, core.Limits{})
	w.sprite("s")
	if got := w.status("s"); got != "cold" {
		t.Errorf("a new sprite is %s, want cold", got)
	}
	w.sh("s", "true")
	w.settle("s")
	before, err := w.client.Get(t.Context(), "s")
	if err != nil || before.Status != "running" || before.LastRunningAt == nil || before.LastWarmingAt != nil {
		t.Errorf("after a command: %+v, %v", before, err)
	}
	pass(time.Minute)
	if got := w.asleep("s"); got != "warm" {
		t.Errorf("after a silence: %s, want warm", got)
	}
	if got, err := w.client.Get(t.Context(), "s"); err != nil || got.LastWarmingAt == nil || !got.LastWarmingAt.After(*got.LastRunningAt) {
		t.Errorf("warm: %+v, %v", got, err)
	}
	if text, _ := w.sh("s", "echo awake"); text != "awake" || w.status("s") != "running" {
		t.Errorf("a warm sprite says %q and is %s", text, w.status("s"))
	}
	w.settle("s")
	w.asleep("s")
	if got := w.asleep("s"); got != "cold" {
		t.Errorf("after a long silence: %s, want cold", got)
	}
	if text, _ := w.sh("s", "echo again"); text != "again" || w.status("s") != "running" {
		t.Errorf("a cold sprite says %q and is %s", text, w.status("s"))
	}
}

func TestWhatKeepsASpriteAwake(t *testing.T) {
	w, pass := lifeWorld(t, core.Limits{})
	for name, c := range map[string]struct {
		grace time.Duration
		after []string // each look an hour and more later
	}{
		"time":   {100 * time.Hour, []string{"running", "running"}},
		"always": {-1, []string{"warm", "warm", "warm"}}, // frozen, and not ended
	} {
		w.sprite(name)
		id := w.detached(name, c.grace, "read x; exit 7")
		for i, want := range c.after {
			pass(2 * time.Hour)
			if got := w.asleep(name); got != want {
				t.Errorf("%s: look %d: %s, want %s", name, i, got, want)
			}
		}
		if list, err := w.client.Sessions(t.Context(), name); err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("%s: sessions = %+v, %v", name, list, err)
		}
		code, err := w.client.Attach(t.Context(), name, id, sprites.Exec{Stdin: strings.NewReader("x\n")})
		if code != 7 || err != nil {
			t.Errorf("%s: Attach = %d, %v, want 7", name, code, err)
		}
		w.settle(name)
	}

	w.sprite("serving")
	w.sh("serving", "true")
	w.settle("serving")
	rec, err := w.host.core.Store.Sprite("serving")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.host.fleet.Runtime(rec)
	if err != nil {
		t.Fatal(err)
	}
	release, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if got := w.asleep("serving"); got != "running" {
		t.Errorf("held: %s, want running", got)
	}
	release()
	if status := w.call("PUT", "/v1/sprites/serving/services/web?duration=0s", `{"cmd":"sleep","args":["600"]}`, nil); status != 200 {
		t.Fatalf("PUT service = %d", status)
	}
	w.settle("serving")
	for range 3 {
		if got := w.asleep("serving"); got != "warm" {
			t.Errorf("with a service: %s, want warm", got)
		}
	}
	w.call("POST", "/v1/sprites/serving/services/web/stop", "", nil)
	w.settle("serving")
	w.asleep("serving")
	if got := w.asleep("serving"); got != "cold" {
		t.Errorf("with a service that was stopped: %s, want cold", got)
	}
}

// inside speaks through the sprite's own socket, and returns the status and the answer.
func (w *world) inside(name, method, path, body string) string {
	w.Helper()
	out, code := w.sh(name, `curl -sS -w '%{http_code}' -X `+method+` --unix-socket /.sprite/api.sock http://sprite`+path+` -d '`+body+`'`)
	if code != 0 {
		w.Fatalf("curl: %s", out)
	}
	return out
}

func TestTasksKeepASpriteAwake(t *testing.T) {
	w, pass := lifeWorld(t, core.Limits{})
	w.sprite("s")
	if out, _ := w.sh("s", "command -v curl"); out == "" {
		t.Skip("curl is not installed: the sprite's own socket is not tried")
	}
	for _, c := range []struct{ method, path, body, status, says string }{
		{"GET", "/v1/tasks", "", "200", `{"tasks":[]}`},
		{"POST", "/v1/tasks", `{"name":"build","expire":"1h"}`, "201", `"expire":"1h0m0s"`},
		{"POST", "/v1/tasks", `{"name":"build"}`, "409", "task_exists"},
		{"POST", "/v1/tasks", `{"name":"long","expire":"61m"}`, "400", "1h0m0s at most"},
		{"POST", "/v1/tasks", `{"expire":5}`, "400", "name"},
		{"GET", "/v1/tasks/build", "", "200", `"name":"build"`},
		{"GET", "/v1/tasks/none", "", "404", "task not found"},
		{"PUT", "/v1/tasks/other", `{"expire":90}`, "200", `"expire":"1m30s"`},
		{"PUT", "/v1/tasks/other", `{"name":"another"}`, "400", "path"},
		{"DELETE", "/v1/tasks/other", "", "204", ""},
		{"DELETE", "/v1/tasks/other", "", "404", ""},
		{"GET", "/v1/sprites", "", "404", "nothing else"},
	} {
		got := w.inside("s", c.method, c.path, c.body)
		if !strings.HasSuffix(got, c.status) || !strings.Contains(got, c.says) {
			t.Errorf("%s %s %s = %s, want %s and %s", c.method, c.path, c.body, got, c.status, c.says)
		}
	}
	w.settle("s")
	pass(30 * time.Minute)
	if got := w.asleep("s"); got != "running" {
		t.Errorf("with a task: %s, want running", got)
	}
	pass(31 * time.Minute)
	if got := w.asleep("s"); got != "warm" {
		t.Errorf("with a task that has expired: %s, want warm", got)
	}
}

func TestASpriteFindsItsWay(t *testing.T) {
	w, _ := lifeWorld(t, core.Limits{})
	w.sprite("s")
	out, code := w.sh("s", "cat /.sprite/version.txt; grep -c api.sock /.sprite/llm.txt; test -d /.sprite/logs && test -d /.sprite/policy && ! echo x 2>/dev/null >/.sprite/llm.txt")
	if want := strings.TrimPrefix(wire.Version, "v") + "\n4"; out != want || code != 0 {
		t.Errorf("= %d, %q, want %q", code, out, want)
	}
}

func TestRestart(t *testing.T) {
	w, _ := lifeWorld(t, core.Limits{})
	w.sprite("s")
	id := w.detached("s", -1, "echo kept >/workspace/f; echo ready; sleep 600")
	w.sh("s", "until test -s f; do sleep 0.01; done")
	var out map[string]any
	if status := w.call("POST", "/v1/sprites/s/restart", "", &out); status != 200 || out["sprite_name"] != "s" || out["machine_id"] == nil || out["message"] == nil {
		t.Errorf("restart = %d, %v", status, out)
	}
	if list, err := w.client.Sessions(t.Context(), "s"); err != nil || len(list) != 0 {
		t.Errorf("session %s outlived the restart: %+v, %v", id, list, err)
	}
	if text, _ := w.sh("s", "cat f"); text != "kept" {
		t.Errorf("f = %q", text)
	}
	out = nil
	if status := w.call("GET", "/v1/sprites/s/check", "", &out); status != 200 || out["status"] != "healthy" || out["sprite_id"] == nil || out["checked_at"] == nil {
		t.Errorf("check = %d, %v", status, out)
	}
	if status := w.call("POST", "/v1/sprites/s/upgrade", "", nil); status != 204 {
		t.Errorf("upgrade = %d", status)
	}
	for _, path := range []string{"restart", "upgrade"} {
		if status := w.call("POST", "/v1/sprites/none/"+path, "", nil); status != 404 {
			t.Errorf("%s of a missing sprite = %d", path, status)
		}
	}
}
