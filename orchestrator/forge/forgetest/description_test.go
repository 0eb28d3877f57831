package forgetest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// TestDescription sends requests that GitHub's description does not admit, and requires that an answer has all that it requires.
func TestDescription(t *testing.T) {
	s := New(forge.GitHub)
	defer s.Close()
	_, token := s.AddUser("ann", "User")
	s.AddRepository("ann/site", t.TempDir())
	s.OpenIssue("ann/site", "ann", "It hangs", "")
	do := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v3"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", "application/vnd.github+json")
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/repos/ann/site/issues/1/comments", `{"body":"hello"}`, 201, `"node_id":"text"`},
		{"POST", "/repos/ann/site/issues/1/comments", `{}`, 422, "missing property 'body'"},
		{"POST", "/repos/ann/site/issues/1/comments", `{"body":1}`, 422, "want string"},
		{"GET", "/repos/ann/site/issues?state=every", "", 422, "parameter state"},
		{"GET", "/repos/ann/site/issues?state=all&per_page=ten", "", 422, "parameter per_page"},
		{"GET", "/repos/ann/site/issues?state=all&limit=ten", "", 200, `"number":1`},
		{"POST", "/repos/ann/site/check-runs", `{"name":"x","head_sha":"0","status":"completed","conclusion":"fine"}`, 422, "conclusion"},
		{"POST", "/repos/ann/site/pulls", `{"title":"x","head":"a"}`, 422, "missing property 'base'"},
		{"GET", "/repos/ann/site", "", 200, `"default_branch":"main"`},
		{"GET", "/repos/ann/gone", "", 404, "Not Found"},
	} {
		status, answer := do(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s %s %s: %d %.300s", c.method, c.path, c.body, status, answer)
		}
	}
}

// TestWrongAnswer has a route answer what the description does not admit.
func TestWrongAnswer(t *testing.T) {
	for status, body := range map[int]string{200: `{"id":"one"}`, 201: `{}`} {
		h := github().checkRoute("GET /user", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write(json.RawMessage(body))
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d %s is taken", status, body)
				}
			}()
			h(httptest.NewRecorder(), httptest.NewRequest("GET", "/user", nil))
		}()
	}
}
