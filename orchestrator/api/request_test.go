package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
)

// asked is a leader that records the parameters of the last request.
type asked struct {
	Service
	rows, cols int
}

func (a *asked) Run(_ context.Context, id string) (RunView, error) { return RunView{RunID: id}, nil }

func (a *asked) ServeShell(_ http.ResponseWriter, _ *http.Request, _, _ string, rows, cols int) error {
	a.rows, a.cols = rows, cols
	return nil
}

// TestRequestsAreChecked checks that a request with an unknown or invalid parameter is refused, and that the error names it.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	leader := &asked{}
	handler := Handler(leader, nil)
	for _, tc := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/runs/x", 200, `"run_id":"x"`},
		{"HEAD", "/runs/x", 200, ""},
		{"GET", "/runs/a%2Fb", 200, `"run_id":"a/b"`},
		{"GET", "/runs/latest", 200, `"run_id":""`},
		{"GET", "/runs/x?color=red", 400, `no parameter \"color\"`},
		{"GET", "/runs/x?%zz", 400, "read the query"},
		{"GET", "/runs/x/watch?outline=true&outline=true", 400, "given twice"},
		{"GET", "/runs/x/watch?outline=1", 400, "outline is true or false"},
		{"GET", "/runs/x/watch?outline=", 400, "outline is true or false"},
		{"GET", "/runs/x/watch?after=-1", 400, "after must be"},
		{"GET", "/runs/x/watch?after=9223372036854775808", 400, "after must be"},
		{"GET", "/runs/x/log?offset=-1", 400, "offset must be"},
		{"GET", "/runs/x/log?offset=9223372036854775808", 400, "offset must be"},
		{"GET", "/runs/x/events?backlog=x", 400, "backlog is a number"},
		{"GET", "/runs/x/events?backlog=-1", 400, "backlog is a number"},
		{"GET", "/runs/x/events?after=1e3", 400, "sequence numbers"},
		{"GET", "/runs/x/shell?rows=4096", 400, "rows is a number up to 4095"},
		{"GET", "/runs/x/shell?cols=-1", 400, "cols is a number up to 4095"},
		{"GET", "/runs/x/shell?rows=4095&cols=", 200, ""},
		{"POST", "/runs/x/fork?n=2", 400, `no parameter \"n\"`},
		{"POST", "/runs/x/rewind", 400, "unknown field"},
		{"DELETE", "/runs/x", 405, "DELETE is not a method"},
		{"GET", "/runs/x/fork", 405, "which has POST"},
		{"GET", "/runs/x/nothing", 404, "no_route"},
		{"GET", "/", 404, "openapi.json lists its routes"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(tc.method, route.Root+tc.path, strings.NewReader(`{"too":"node"}`)))
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s %s = %d %s, want %d %q", tc.method, tc.path, w.Code, w.Body, tc.status, tc.says)
		}
		if allow := w.Header().Get("Allow"); (w.Code == http.StatusMethodNotAllowed) != (allow != "") || strings.Contains(allow, tc.method) {
			t.Errorf("%s %s allows %q", tc.method, tc.path, allow)
		}
	}
	if leader.rows != 4095 || leader.cols != 0 {
		t.Errorf("the shell has %d rows and %d columns, want 4095 and the usual", leader.rows, leader.cols)
	}
}

// TestRightsOfRequests checks that a request needs the role of the route that serves it.
func TestRightsOfRequests(t *testing.T) {
	t.Parallel()
	routes := Routes(nil)
	for request, want := range map[string]route.Role{
		"GET /runs/x": route.Viewer, "HEAD /runs/x": route.Viewer, "POST /runs/x/fork": route.Admin, "GET /runs/x/shell": route.Operator, "POST /lattice/handover": route.Owner, "GET /runs/a%2Fb": route.Viewer,
		"DELETE /runs/x": "", "GET /runs/a/b": "", "get /runs/x": "", "HEAD /runs/x/fork": "", "GET /runs/x/": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got, ok := route.Find(routes, method, route.Root+path); got.Role != want || ok != (want != "") {
			t.Errorf("%s is for the role %q, %v, want %q", request, got.Role, ok, want)
		}
	}
	order := route.Roles()
	for i, r := range order {
		for j, o := range order {
			if r.Includes(o) != (i >= j) {
				t.Errorf("%s includes %s: %v", r, o, r.Includes(o))
			}
		}
	}
	if route.Role("").Includes(route.Viewer) || route.Role("").Includes("") || route.Role("root").Includes(route.Viewer) {
		t.Error("an unknown role has rights")
	}
}

// TestKeyOf checks that a key made of the header has the alphabet of ids, and that a key in the body takes precedence.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	key := func(header, body string) string {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set(route.HeaderKey, header)
		return route.Key(r, body)
	}
	first := key("one", "")
	if len(first) != 16 || first != strings.ToLower(first) || first != key("one", "") || first == key("two", "") {
		t.Errorf("the key of a header is %q", first)
	}
	if key("", "") != "" || key("one", "own") != "own" {
		t.Error("a request without a header has a key, or the header wins")
	}
}

// TestPaths checks that each segment of a path is escaped.
func TestPaths(t *testing.T) {
	t.Parallel()
	for segment, want := range map[string]string{"": "latest", "a/b": "a%2Fb", ".": "%2E", "..": "%2E%2E", "...": "...", "a b?#": "a%20b%3F%23", "%2F": "%252F"} {
		if got := runPath(segment, "log"); got != route.Root+"/runs/"+want+"/log" {
			t.Errorf("the path of run %q is %s", segment, got)
		}
	}
}

// TestGaps checks that a reader whose backlog is too long is told of a gap and gets the newest entries.
func TestGaps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ last, after, backlog, want lattice.Seq }{
		{100, 0, 0, 0}, {100, 0, 100, 0}, {100, 0, 99, 1}, {100, 89, 10, 90}, {100, 90, 10, 90}, {100, 100, 1, 100}, {0, 50, 1, 50}, {100, 1<<63 - 1, 1<<63 - 1, 1<<63 - 1}, {100, 95, 1, 99},
	} {
		w := httptest.NewRecorder()
		out, err := sse.Start(w)
		if err != nil {
			t.Fatal(err)
		}
		e := &runEvents{out: out, view: RunView{LastSeq: tc.last}, after: tc.after, backlog: tc.backlog}
		before := w.Body.Len()
		if err := e.skipEntries(); err != nil || e.after != tc.want {
			t.Errorf("behind %d of %d with a backlog of %d: goes on behind %d, %v, want %d", tc.after, tc.last, tc.backlog, e.after, err, tc.want)
		}
		if told := w.Body.Len() > before; told != (tc.after != tc.want) {
			t.Errorf("behind %d of %d with a backlog of %d: told of a gap: %v", tc.after, tc.last, tc.backlog, told)
		}
	}
}

// TestWantedTypes checks that types select updates or entries, and that no types select all.
func TestWantedTypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		types         []string
		update, entry string
		want          bool
	}{
		{nil, "run.output", "INFO", true}, {[]string{"run.output"}, "run.output", "INFO", true}, {[]string{"INFO"}, "run.output", "INFO", true},
		{[]string{"RESULT"}, "run.output", "INFO", false}, {[]string{"INFO"}, "run.updated", "", false}, {[]string{""}, "run.updated", "", false},
	} {
		if got := (&runEvents{types: tc.types}).isWanted(tc.update, tc.entry); got != tc.want {
			t.Errorf("%s %s of %q is wanted: %v", tc.update, tc.entry, tc.types, got)
		}
	}
}
