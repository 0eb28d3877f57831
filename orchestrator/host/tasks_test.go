package host

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"golang.org/x/time/rate"
)

// slowClient is a client that does not read the answer before a channel is closed.
type slowClient struct {
	header http.Header
	first  func()
}

func (c *slowClient) Header() http.Header { return c.header }
func (c *slowClient) WriteHeader(int)     { c.first() }

func (c *slowClient) Write(p []byte) (int, error) {
	c.first()
	return len(p), nil
}

// TestAnswersAboutTasksWaitWithoutLocks checks that a sprite that asks its own socket about tasks, and does not read the answers, does not block calls about its state.
func TestAnswersAboutTasksWaitWithoutLocks(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	inside := &fleet.Inside{Requests: rate.NewLimiter(rate.Inf, 1)}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/tasks", `{"name":"build"}`},
		{"POST", "/v1/tasks", `{"name":"build"}`}, // there is one already
		{"PUT", "/v1/tasks/other", `{"expire":"1m"}`},
		{"GET", "/v1/tasks", ""},
		{"GET", "/v1/tasks/build", ""},
		{"GET", "/v1/tasks/none", ""},
		{"DELETE", "/v1/tasks/build", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var asked sync.WaitGroup
		w.host.insideRoutes(inside, rec.ID, "s").ServeHTTP(&slowClient{http.Header{}, sync.OnceFunc(func() {
			told := make(chan struct{})
			asked.Go(func() {
				w.host.fleet.State(rec)
				close(told)
			})
			select {
			case <-told:
			case <-time.After(2 * time.Second):
				t.Errorf("%s %s %s: while the answer waits for its reader, the state of the sprite cannot be had", c.method, c.path, c.body)
			}
		})}, r)
		asked.Wait()
	}
}
