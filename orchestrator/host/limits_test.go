package host

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// call makes a request, decodes a JSON answer into out unless that is nil, and returns the status.
func (w *world) call(method, path, body string, out any) int {
	w.Helper()
	res := w.answer(method, path, body)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		w.Errorf("%s %s: %q: %v", method, path, data, err)
	}
	return res.StatusCode
}

func (w *world) answer(method, path, body string) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.server+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func TestCreationsAreLimited(t *testing.T) {
	w, pass := lifeWorld(t, core.Limits{Creations: 2, Window: time.Minute})
	w.sprite("a")
	w.sprite("b")
	res := w.answer("POST", "/v1/sprites", `{"name":"c"}`)
	defer res.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 429 || body["error"] != "sprite_creation_rate_limited" || body["limit"] != 2.0 || body["window_seconds"] != 60.0 ||
		body["current_count"] != 2.0 || body["retry_after_seconds"] == nil || body["message"] == nil {
		t.Errorf("third creation = %d, %v", res.StatusCode, body)
	}
	for _, name := range []string{"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Sprite-Version"} {
		if res.Header.Get(name) == "" {
			t.Errorf("the header lacks %s: %v", name, res.Header)
		}
	}
	pass(2 * time.Minute)
	w.sprite("c")
}

func TestRunningSpritesAreLimited(t *testing.T) {
	w, _ := lifeWorld(t, core.Limits{Running: 1})
	w.sprite("a")
	w.sprite("b")
	w.sh("a", "true")
	w.settle("a")
	// A handshake is refused like a call, in JSON.
	_, err := w.client.Exec(t.Context(), "b", sprites.Exec{Cmd: []string{"true"}, Stdout: io.Discard})
	var refused *sprites.APIError
	if !errors.As(err, &refused) || refused.Status != 429 || refused.Code != "concurrent_sprite_limit_exceeded" {
		t.Fatalf("Exec = %v, want 429", err)
	}
	if status := w.call("POST", "/v1/sprites", `{"name":"c"}`, nil); status != 429 {
		t.Errorf("create = %d, want 429", status)
	}
	waited := make(chan int)
	go func() { waited <- w.call("POST", "/v1/sprites", `{"name":"c","wait_for_capacity":true}`, nil) }()
	if got := w.asleep("a"); got != "warm" {
		t.Fatalf("a is %s", got)
	}
	if status := <-waited; status != 201 {
		t.Errorf("create that waits for capacity = %d, want 201", status)
	}
	w.sh("b", "true")
	w.settle("b")
	if status := w.call("POST", "/v1/sprites/a/exec?cmd=true", "", nil); status != 429 {
		t.Errorf("waking one too many = %d, want 429", status)
	}
	if got := w.asleep("b"); got != "warm" {
		t.Fatalf("b is %s", got)
	}
	if text, _ := w.sh("a", "echo back"); text != "back" {
		t.Errorf("a says %q", text)
	}
}
