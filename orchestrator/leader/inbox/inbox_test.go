package inbox

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

const secret = "0123456789abcdef"

var hosts = map[string]Host{
	"main":     {Secret: func() (string, error) { return secret, nil }, Repositories: []forge.Path{{Owner: "acme", Name: "site"}}},
	"recorded": {Secret: func() (string, error) { return secret, nil }, Repositories: []forge.Path{{Owner: "Codertocat", Name: "Hello-World"}}},
	"quiet":    {Secret: func() (string, error) { return "", nil }},
}

// body is the payload of a comment in a repository.
func body(repository string) string {
	return fmt.Sprintf(`{"action":"created","repository":{"id":1,"full_name":%q},"issue":{"number":7},"comment":{"id":5,"body":"hello"},"sender":{"id":2,"login":"ann"}}`, repository)
}

func request(name, id, body, secret string) (*httptest.ResponseRecorder, *http.Request) {
	r := httptest.NewRequest("POST", "/hooks/"+name, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "issue_comment")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(hook.Sign(secret, []byte(body))))
	return httptest.NewRecorder(), r
}

// take opens an inbox whose deliveries are handled by handle.
func take(t *testing.T, path string, handle func(d hook.Delivery) (string, error)) (in *Inbox, end func()) {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = s.Close() })
	t.Cleanup(end)
	return New(hosts, &govern.Ledger{Store: s}, func(_ context.Context, _ string, d hook.Delivery) (string, error) { return handle(d) }, zerolog.Nop()), end
}

// TestOnce delivers the same thing at the same time, and again after a restart.
func TestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var handled []string
	handle := func(d hook.Delivery) (string, error) { handled = append(handled, d.ID); return "done", nil }
	in, end := take(t, path, handle)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			w, r := request("main", "a", body("acme/site"), secret)
			if err := in.ReceiveHook(w, r, "main"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w, r := request("main", "b", body("Acme/Site"), secret)
	if err := in.ReceiveHook(w, r, "main"); err != nil {
		t.Error(err)
	}
	end() // before anything is handled

	in, _ = take(t, path, handle)
	for range 2 {
		if err := in.HandleAll(t.Context(), "main"); err != nil {
			t.Error(err)
		}
	}
	w, r = request("main", "a", body("acme/site"), secret)
	if err := in.ReceiveHook(w, r, "main"); err != nil {
		t.Error(err)
	}
	if err := in.HandleAll(t.Context(), "main"); err != nil || !slices.Equal(handled, []string{"a", "b"}) {
		t.Errorf("handled %v, %v", handled, err)
	}
}

// TestOrder has the second of three deliveries fail: it is tried again before the third one is handled.
func TestOrder(t *testing.T) {
	var handled []string
	fail := true
	in, _ := take(t, filepath.Join(t.TempDir(), "runs.db"), func(d hook.Delivery) (string, error) {
		handled = append(handled, d.ID)
		if d.ID == "b" && fail {
			fail = false
			return "", errors.New("the code host is away")
		}
		return "done " + d.ID, nil
	})
	for _, id := range []string{"a", "b", "c"} {
		w, r := request("main", id, body("acme/site"), secret)
		if err := in.ReceiveHook(w, r, "main"); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.HandleAll(t.Context(), "main"); err == nil {
		t.Error("the failure is lost")
	}
	if err := in.HandleAll(t.Context(), "main"); err != nil || !slices.Equal(handled, []string{"a", "b", "b", "c"}) {
		t.Errorf("handled %v, %v", handled, err)
	}
	all, err := in.Deliveries(t.Context(), "", 2)
	if err != nil || len(all) != 2 || all[0].Outcome != "done c" || all[0].Number != 7 || all[1].ID != "b" {
		t.Errorf("listed %+v, %v", all, err)
	}
}

// A delivery that fails holds up those of its own issue, and no others, also after a restart. Each is handled once.
func TestFailureBlocksItsIssueOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var handled []string
	away := true
	handle := func(d hook.Delivery) (string, error) {
		if d.ID == "a" && away {
			return "", errors.New("the code host is away")
		}
		handled = append(handled, d.ID)
		return "done", nil
	}
	in, end := take(t, path, handle)
	about8 := strings.Replace(body("acme/site"), `"number":7`, `"number":8`, 1)
	for _, d := range [][2]string{{"a", body("acme/site")}, {"b", about8}, {"c", body("acme/site")}, {"d", about8}} {
		w, r := request("main", d[0], d[1], secret)
		if err := in.ReceiveHook(w, r, "main"); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.HandleAll(t.Context(), "main"); err == nil || !slices.Equal(handled, []string{"b", "d"}) {
		t.Errorf("handled %v, %v", handled, err)
	}
	end()

	in, _ = take(t, path, handle)
	if err := in.HandleAll(t.Context(), "main"); err == nil {
		t.Error("the failure is lost")
	}
	away = false
	for range 2 {
		if err := in.HandleAll(t.Context(), "main"); err != nil || !slices.Equal(handled, []string{"b", "d", "a", "c"}) {
			t.Errorf("handled %v, %v", handled, err)
		}
	}
}

func TestRetries(t *testing.T) {
	r, now := retries{}, time.Now()
	if !r.isDue("a", now) || r.untilNext(now) != maxDelay {
		t.Errorf("without a failure: %+v", r)
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if got := r.note("a", errors.New("away"), now); got != want {
			t.Errorf("failure %d: again in %v, want %v", i+1, got, want)
		}
	}
	if r.isDue("a", now.Add(3*time.Second)) || !r.isDue("a", now.Add(4*time.Second)) || !r.isDue("b", now) || r.untilNext(now) != 4*time.Second {
		t.Errorf("after three failures: %+v", r)
	}
	r.note(wholeHost, errors.New("disk"), now)
	if r.untilNext(now.Add(time.Minute)) != 0 || r.untilNext(now) != time.Second {
		t.Errorf("until the log is looked at: %v", r.untilNext(now))
	}
	r.note(wholeHost, nil, now)
	if r.note("a", nil, now); len(r) != 0 {
		t.Errorf("after success: %+v", r)
	}
}

// TestNotKept sends deliveries that are refused, or about nothing that is served.
func TestNotKept(t *testing.T) {
	in, _ := take(t, filepath.Join(t.TempDir(), "runs.db"), func(hook.Delivery) (string, error) { return "", errors.New("it was kept") })
	for _, c := range []struct{ name, repository, secret, code string }{
		{"main", "acme/site", "another secret 0", "hook_signature"},
		{"main", "acme/site", "", "hook_signature"},
		{"quiet", "acme/site", "", "hook_secret"},
		{"other", "acme/site", secret, "forge_not_found"},
		{"main", "acme/another", secret, ""},
		{"main", "../acme/site", secret, ""},
	} {
		w, r := request(c.name, "a", body(c.repository), c.secret)
		err := in.ReceiveHook(w, r, c.name)
		if p := fault.As(err); c.code == "" && err != nil || c.code != "" && (p == nil || p.Code != c.code) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := in.HandleAll(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if _, err := in.Deliveries(t.Context(), "other", 0); fault.As(err) == nil {
		t.Errorf("an unknown code host has deliveries: %v", err)
	}
}

// TestFollow waits for the goroutine to handle a delivery, and ends it.
func TestFollow(t *testing.T) {
	handled := make(chan string)
	in, _ := take(t, filepath.Join(t.TempDir(), "runs.db"), func(d hook.Delivery) (string, error) { handled <- d.ID; return "done", nil })
	following, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { in.Follow(following) })
	stop := func() { cancel(); all.Wait() }
	defer stop()
	for _, id := range []string{"a", "b"} {
		w, r := request("main", id, body("acme/site"), secret)
		if err := in.ReceiveHook(w, r, "main"); err != nil {
			t.Fatal(err)
		}
		if got := <-handled; got != id {
			t.Errorf("%s was handled, not %s", got, id)
		}
	}
}

// TestRecorded replays every payload that GitHub publishes as an example, signed and each twice: one that is used is handled once.
func TestRecorded(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules/@octokit/webhooks-examples/api.github.com/index.json"))
	if err != nil {
		t.Skip("@octokit/webhooks-examples is not in $LATTICE_NPM_CACHE: its payloads are not replayed")
	}
	var all []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	handled := map[hook.Kind]int{}
	in, _ := take(t, filepath.Join(t.TempDir(), "runs.db"), func(d hook.Delivery) (string, error) { handled[d.Kind]++; return "done", nil })
	sent := 0
	for _, kind := range all {
		for n, example := range kind.Examples {
			sent++
			for range 2 {
				w, r := request("recorded", fmt.Sprintf("%s-%d", kind.Name, n), string(example), secret)
				r.Header.Set("X-GitHub-Event", kind.Name)
				if err := in.ReceiveHook(w, r, "recorded"); err != nil {
					t.Fatalf("%s %d: %v", kind.Name, n, err)
				}
			}
		}
	}
	if err := in.HandleAll(t.Context(), "recorded"); err != nil {
		t.Fatal(err)
	}
	if sent < 300 || handled[hook.Comment] < 5 || handled[hook.PullRequest] < 20 || handled[hook.Check] < 5 || handled[hook.Other] > 0 {
		t.Errorf("of %d payloads were handled: %v", sent, handled)
	}
}
