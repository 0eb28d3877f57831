package hook

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/spritekit/fault"
)

const secret = "0123456789abcdef"

// deliver returns a request as GitHub sends it.
func deliver(kind, id string, body []byte, secret string) *http.Request {
	r := httptest.NewRequest("POST", "/hooks/main", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", kind)
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(Sign(secret, body)))
	return r
}

// TestRecorded reads every payload that GitHub publishes as an example.
func TestRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules/@octokit/webhooks-examples/api.github.com/index.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Skip("@octokit/webhooks-examples is not in $LATTICE_NPM_CACHE: its payloads are not read")
	}
	var all []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	count := map[Kind]int{}
	for _, kind := range all {
		for i, body := range kind.Examples {
			d, err := Read(deliver(kind.Name, "id-1", body, secret), secret)
			if err != nil {
				t.Fatalf("%s %d: %v", kind.Name, i, err)
			}
			count[d.Kind]++
			if d.Kind == Other && kinds[kind.Name] != "" && kinds[kind.Name] != Check { // a check may not have ended
				t.Errorf("%s %d: it cannot be read", kind.Name, i)
			}
			if d.Kind == Other || d.Kind == Ping || d.Kind == Installation {
				continue
			}
			if d.Repo == (forge.Path{}) || d.RepoID == 0 || d.Sender.ID == 0 && d.Kind != Push {
				t.Errorf("%s %d: no repository or no sender: %+v", kind.Name, i, d)
			}
			thread := d.Kind != Push && d.Kind != Check
			if thread && (d.Number == 0 || d.Author.ID == 0 || d.Created.IsZero()) {
				t.Errorf("%s %d: no number, author or time: %+v", kind.Name, i, d)
			}
			if (d.Kind == PullRequest || d.Kind == Review || d.Kind == ReviewComment || d.Kind == Push || d.Kind == Check) && len(d.Head) != 40 {
				t.Errorf("%s %d: no commit: %+v", kind.Name, i, d)
			}
			if (d.Kind == Comment || d.Kind == Review || d.Kind == ReviewComment) && d.Item == 0 {
				t.Errorf("%s %d: no id: %+v", kind.Name, i, d)
			}
		}
	}
	for kind, least := range map[Kind]int{Issue: 29, Comment: 9, PullRequest: 29, Review: 4, ReviewComment: 5, Push: 7, Check: 9, Installation: 7, Ping: 4, Other: 200} {
		if count[kind] < least {
			t.Errorf("%d payloads are of the kind %s, not %d", count[kind], kind, least)
		}
	}
}

// TestRefused sends deliveries that are not to be believed.
func TestRefused(t *testing.T) {
	t.Parallel()
	body := []byte(`{"action":"created"}`)
	cases := map[string]struct {
		code   string
		change func(r *http.Request)
	}{
		"unsigned":        {"hook_signature", func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }},
		"another secret":  {"hook_signature", func(r *http.Request) { *r = *deliver("push", "id-1", body, "fedcba9876543210") }},
		"no secret":       {"hook_signature", func(r *http.Request) { *r = *deliver("push", "id-1", body, "") }},
		"sha1":            {"hook_signature", func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha1=00") }},
		"cut signature":   {"hook_signature", func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", r.Header.Get("X-Hub-Signature-256")[:40]) }},
		"not hexadecimal": {"hook_signature", func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=zz") }},
		"another body":    {"hook_signature", func(r *http.Request) { r.Body = http.NoBody }},
		"a form":          {"hook_content", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }},
		"compressed":      {"hook_content", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }},
		"no id":           {"hook_content", func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }},
		"a strange id":    {"hook_content", func(r *http.Request) { r.Header.Set("X-GitHub-Delivery", "a b") }},
		"too large": {"hook_size", func(r *http.Request) {
			r.Body = http.MaxBytesReader(nil, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat(" ", MaxBody+1))).Body, MaxBody+2)
		}},
	}
	for name, c := range cases {
		r := deliver("push", "id-1", body, secret)
		c.change(r)
		_, err := Read(r, secret, "")
		if p := fault.As(err); p == nil || p.Fault.Code != c.code {
			t.Errorf("%s: %v, not %s", name, err, c.code)
		}
	}
	if _, err := Read(deliver("push", "id-1", body, "short"), "short"); err == nil {
		t.Error("a short secret lets a delivery in")
	}
	if _, err := Read(deliver("push", "id-1", body, secret), "the next secret of 16", secret); err != nil {
		t.Errorf("the second of two secrets: %v", err)
	}
}

// TestGitea reads payloads in the form of Gitea, which names reviews in a header and has no number for them.
func TestGitea(t *testing.T) {
	t.Parallel()
	cases := []struct {
		event, kind, body string
		want              Event
	}{
		{"pull_request", "pull_request_sync", `{"action":"synchronized","number":3,"pull_request":{"number":3,"head":{"sha":"aa","ref":"sprite/x","repo":{"id":7}},"base":{"ref":"main","repo":{"id":7}}},"repository":{"id":7,"full_name":"o/r","owner":{"login":"o"}},"sender":{"id":2,"login":"ann"}}`,
			Event{Kind: PullRequest, Action: Synchronized, Number: 3, Pull: true, Head: "aa", HeadRef: "sprite/x", BaseRef: "main", Sender: forge.User{ID: 2, Login: "ann"}}},
		{"pull_request_approved", "pull_request_review_approved", `{"action":"reviewed","number":3,"commit_id":"aa","pull_request":{"number":3,"head":{"sha":"bb","repo":{"id":9}},"base":{"repo":{"id":7}}},"review":{"type":"pull_request_review_approved","content":"good"},"repository":{"id":7,"full_name":"o/r"},"sender":{"id":2,"login":"ann"}}`,
			Event{Kind: Review, Action: Submitted, Number: 3, Pull: true, Head: "bb", Reviewed: "aa", State: "approved", Text: "good", Fork: true, Sender: forge.User{ID: 2, Login: "ann"}, Author: forge.User{ID: 2, Login: "ann"}}},
		{"pull_request_comment", "pull_request_review_comment", `{"action":"reviewed","number":3,"pull_request":{"number":3,"head":{"sha":"bb","repo":{"id":7}},"base":{"repo":{"id":7}}},"review":{"type":"pull_request_review_comment","content":"why?"},"repository":{"id":7,"full_name":"o/r"},"sender":{"id":2,"login":"ann"}}`,
			Event{Kind: Review, Action: Submitted, Number: 3, Pull: true, Head: "bb", State: "commented", Text: "why?", Sender: forge.User{ID: 2, Login: "ann"}, Author: forge.User{ID: 2, Login: "ann"}}},
		{"issue_comment", "pull_request_comment", `{"action":"created","issue":{"number":3,"repository":{"id":7,"owner":"o"},"pull_request":{"merged":false}},"comment":{"id":11,"body":"/lattice status","user":{"id":2,"login":"ann"}},"is_pull":true,"repository":{"id":7,"full_name":"o/r"},"sender":{"id":2,"login":"ann"}}`,
			Event{Kind: Comment, Action: Created, Number: 3, Pull: true, Item: 11, Text: "/lattice status", Sender: forge.User{ID: 2, Login: "ann"}, Author: forge.User{ID: 2, Login: "ann"}}},
		{"status", "status", `{"id":5,"sha":"aa","context":"ci/build","state":"failure","commit":{"id":"aa"},"repository":{"id":7,"full_name":"o/r"},"sender":{"id":2,"login":"ann"}}`,
			Event{Kind: Check, Item: 5, Head: "aa", Title: "ci/build", State: "failure", Sender: forge.User{ID: 2, Login: "ann"}}},
	}
	for _, c := range cases {
		r := deliver(c.event, "id-1", []byte(c.body), secret)
		r.Header.Set("X-Gitea-Event-Type", c.kind)
		r.Header.Set("X-Gitea-Signature", hex.EncodeToString(Sign(secret, []byte(c.body))))
		r.Header.Del("X-Hub-Signature-256")
		d, err := Read(r, secret)
		if err != nil {
			t.Fatal(err)
		}
		c.want.Name, c.want.Repo, c.want.RepoID = c.kind, forge.Path{Owner: "o", Name: "r"}, 7
		if d.Event != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.kind, d.Event, c.want)
		}
	}
}

// TestUnusedChecks: a check that has not ended leads to nothing, and neither does one of lattice, which would else follow itself.
func TestUnusedChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       Kind
	}{
		{"status", `{"context":"ci","state":"pending"}`, Other},
		{"status", `{"context":"ci","state":"error"}`, Check},
		{"status", `{"context":"lattice/pull-request","state":"error"}`, Other},
		{"check_run", `{"check_run":{"name":"ci","status":"queued","conclusion":null}}`, Other},
		{"check_run", `{"check_run":{"name":"ci","status":"completed","conclusion":"timed_out"}}`, Check},
		{"check_run", `{"check_run":{"name":"lattice/pull-request","status":"completed","conclusion":"neutral"}}`, Other},
	} {
		if e := Parse(c.name, []byte(c.body)); e.Kind != c.want {
			t.Errorf("%s %s is of the kind %s, not %s", c.name, c.body, e.Kind, c.want)
		}
	}
}

// TestHostile parses texts that are too long, not UTF-8, of other types, and of unknown kinds.
func TestHostile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxText-3) + "\n/lattice approve"
	body, err := json.Marshal(map[string]any{"action": "created", "comment": map[string]any{"id": 1, "body": long}})
	if err != nil {
		t.Fatal(err)
	}
	if e := Parse("issue_comment", body); !e.Cut || strings.Contains(e.Text, "/lattice") {
		t.Errorf("the text was not cut before the line that does not fit: %d bytes", len(e.Text))
	}
	for name, body := range map[string]string{"issue_comment": `{"comment":[]}`, "push": `{`, "sponsorship": `{}`, "pull_request_review": `{"action":"submitted"}`, strings.Repeat("é", 200): `{}`} {
		if e := Parse(name, []byte(body)); e.Kind != Other || len(e.Name) > 64 {
			t.Errorf("%.20s %s is read as %+v", name, body, e)
		}
	}
	for _, at := range []string{`0`, `null`, `"yesterday"`, `"2018-04-25 20:42:10"`, `{}`} {
		if e := Parse("issues", []byte(`{"issue":{"number":1,"created_at":`+at+`}}`)); e.Kind != Issue || !e.Created.IsZero() {
			t.Errorf("created_at %s is read as %v", at, e.Created)
		}
	}
}
