package leader_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// description validates answers with the published description of the interface.
type description struct {
	t        *testing.T
	compiler *jsonschema.Compiler
}

func newDescription(t *testing.T, text []byte) description {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return description{t, c}
}

// check validates a value with the schema of an answer, or with that of a problem.
func (d description) check(r route.Route, problem bool, value []byte) {
	d.t.Helper()
	at := "openapi.json#/components/schemas/Problem"
	if !problem {
		escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
		at = fmt.Sprintf("openapi.json#/paths/%s/%s/responses/200/content/%s/schema", escape(r.Path), strings.ToLower(r.Method), escape(r.Media))
	}
	s, err := d.compiler.Compile(at)
	if err != nil {
		d.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		d.t.Errorf("%s %s: %s: %v", r.Method, r.Path, value, err)
	}
}

// TestInterface calls every route of a leader with a run that waits. Each answer is as the description says, results and
// problems alike.
func TestInterface(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	id := start(t, l, ask, "")
	if v := watch(t, l, id, ""); v.Status != lattice.Waiting {
		t.Fatalf("the run is %s", v.Status)
	}
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	resp := send(t, server, "GET", api.Root+"/openapi.json", "")
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	d := newDescription(t, text)
	results := map[string]bool{} // routes that answered with a result
	for _, r := range api.Routes(nil) {
		if r.Role == route.Owner || r.Out == nil {
			continue // the hand-over ends the leader; bytes have no schema
		}
		for _, of := range []string{id, "no-such"} {
			if of == id && strings.HasSuffix(r.Path, "/cancel") {
				continue // the run must go on to wait
			}
			body := map[string]string{
				"POST /runs":              `{"flow":` + ask + `}`,
				"POST /runs/{id}/decide":  `{"decision":"approve","by":"p"}`,
				"POST /runs/{id}/rewind":  `{"to":"ask","by":"p"}`,
				"POST /runs/{id}/fork":    `{"at":"ask","n":1,"key":"aaaaaaaaaaaaaaaa"}`,
				"POST /intents":           `{"kind":"none","key":"k"}`,
				"POST /runs/{id}/replay":  `null`,
				"POST /runs/{id}/actions": `{"key":"x","decision":"reject","by":"p"}`,
			}[r.Method+" "+strings.TrimPrefix(r.Path, api.Root)]
			ctx, cancel := context.WithCancel(t.Context())
			resp := sendIn(ctx, t, server, r.Method, strings.ReplaceAll(r.Path, "{id}", of), body)
			problem := resp.StatusCode != http.StatusOK
			if want := map[bool]string{true: "application/problem+json", false: r.Media}[problem]; resp.Header.Get("Content-Type") != want && resp.ContentLength != 0 {
				t.Errorf("%s %s of %s: %s, want %s", r.Method, r.Path, of, resp.Header.Get("Content-Type"), want)
			}
			if !problem {
				results[r.Method+" "+r.Path] = true
			}
			switch lines := bufio.NewScanner(resp.Body); {
			case problem || r.Media == "application/json":
				value, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				d.check(r, problem, value)
			case r.Media == "text/event-stream":
				for lines.Scan() {
					if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
						d.check(r, false, []byte(data))
						break
					}
				}
			default:
				for lines.Buffer(nil, 1<<20); lines.Scan(); {
					d.check(r, false, lines.Bytes())
				}
			}
			cancel()
			resp.Body.Close()
		}
	}
	for _, must := range []string{"GET /runs", "POST /runs", "GET /runs/{id}", "GET /runs/{id}/entries", "GET /runs/{id}/events", "GET /events", "POST /runs/{id}/decide", "GET /runs/{id}/moments", "GET /audit", "POST /store/check", "POST /runs/{id}/replay"} {
		method, path, _ := strings.Cut(must, " ")
		if !results[method+" "+api.Root+path] {
			t.Errorf("%s gave no result, which the test needs", must)
		}
	}
}

func send(t *testing.T, server *httptest.Server, method, path, body string, header ...string) *http.Response {
	t.Helper()
	return sendIn(t.Context(), t, server, method, path, body, header...)
}

func sendIn(ctx context.Context, t *testing.T, server *httptest.Server, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func body[T any](t *testing.T, resp *http.Response) (v T) {
	t.Helper()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestInterfaceRequests: pages follow each other by the header Link, a key counts a request once, and a request that cannot
// be answered says why.
func TestInterfaceRequests(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	request := `{"flow":` + ask + `}`
	ids := map[string]bool{}
	for _, key := range []string{"one", "one", "two", "three"} {
		resp := send(t, server, "POST", api.Root+"/runs", request, "Idempotency-Key", key)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("POST /runs: %s", resp.Status)
		}
		v := body[api.RunView](t, resp)
		ids[v.RunID] = true
		watch(t, l, v.RunID, "")
	}
	if len(ids) != 3 {
		t.Errorf("three keys make the runs %v", ids)
	}
	other := strings.Replace(request, `{"flow"`, `{"work_item_id":"other","flow"`, 1)
	if resp := send(t, server, "POST", api.Root+"/runs", other, "Idempotency-Key", "one"); resp.StatusCode != http.StatusConflict {
		t.Errorf("another request with the same key is answered with %s", resp.Status)
	}
	seen, pages := map[string]bool{}, 0
	for next := api.Root + "/runs?limit=2"; next != ""; pages++ {
		resp := send(t, server, "GET", next, "")
		for _, v := range body[[]api.RunView](t, resp) {
			seen[v.RunID] = true
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	}
	if len(seen) != 3 || pages != 2 {
		t.Errorf("%d pages hold %v, want 2 with all runs", pages, seen)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/runs/run_none", "", 404, "run_not_found"},
		{"GET", "/runs/..%2F", "", 404, "run_not_found"},
		{"GET", "/runs/run_", "", 400, "run_ambiguous"},
		{"GET", "/nothing", "", 404, "no_route"},
		{"DELETE", "/runs", "", 405, "bad_request"},
		{"GET", "/runs?limits=1", "", 400, "bad_request"},
		{"GET", "/runs?limit=x", "", 400, "bad_request"},
		{"POST", "/runs", `{"flow":{},"unknown":1}`, 400, "bad_request"},
		{"POST", "/runs", `null`, 400, "bad_request"},
		{"POST", "/runs", `[]`, 400, "bad_request"},
		{"POST", "/runs", request + request, 400, "bad_request"},
		{"POST", "/runs", `{"flow":"` + strings.Repeat("x", exchange.MaxBody) + `"}`, 413, "bad_request"},
		{"POST", "/runs", `{"flow":{"id":"a","id":"b"}}`, 400, "flow_invalid"},
		{"POST", "/prune", `{"dry_run":true,"dry_run":false}`, 400, "bad_request"},
		{"POST", "/prune", `{"dry_run":true,"Dry_run":false}`, 400, "bad_request"},
		{"POST", "/runs", `{"flow":{},"from":{"sprite":"a","Sprite":"b","checkpoint":"v1"}}`, 400, "bad_request"},
		{"POST", "/runs", `{"flow":{},"limits":{"Ram_mb":512}}`, 400, "bad_request"},
		{"POST", "/prune", `{"dry_run":true,"all":1}`, 400, "bad_request"},
		{"POST", "/intents", "{\"kind\":\"\xff\"}", 400, "bad_request"},
		{"POST", "/prune", `{"dry_run":true,"keep":-1}`, 400, "bad_input"}, // a form is not what a body is read as
		{"GET", "/runs?limit=1&limit=2", "", 400, "bad_request"},
		{"GET", "/runs?open=1", "", 400, "bad_request"},
		{"GET", "/events?types=run.updated,run.update", "", 400, "bad_request"},
		{"GET", "/events?after=1.18446744073709551615", "", 400, "bad_request"}, // the largest number, behind which is the first
		{"GET", "/runs/latest/events?after=18446744073709551615", "", 400, "bad_request"},
		{"GET", "/runs/latest/events?backlog=18446744073709551615", "", 400, "bad_request"},
		{"GET", "/runs/latest/entries?after=18446744073709551615", "", 400, "bad_request"},
		{"GET", "/audit?after=18446744073709551615", "", 400, "bad_request"},
		{"GET", "/runs?flow=%zz", "", 400, "bad_request"},
		{"GET", "/runs/latest/events?after=x", "", 400, "bad_request"},
		// The paths before /api/v1. /v1/lattice is left on the socket, where two processes settle who leads.
		{"GET", "../v1/runs", "", 404, "no_route"},
		{"GET", "../v1/run/latest/log", "", 404, "no_route"},
		{"POST", "../v1/run/latest/decide", "", 404, "no_route"},
		{"POST", "../v1/store/check", "", 404, "no_route"},
		{"POST", "../v1/prune", "", 404, "no_route"},
		{"GET", "../v1/lattices", "", 404, "no_route"},
	} {
		path, former := strings.CutPrefix(tt.path, "..")
		if !former {
			path = api.Root + tt.path
		}
		resp := send(t, server, tt.method, path, tt.body, "Content-Type", "application/x-www-form-urlencoded")
		p := body[exchange.Problem](t, resp)
		if resp.StatusCode != tt.status || p.Fault.Code != tt.code || p.Status != tt.status || p.Fault.Message == "" {
			t.Errorf("%s %s: %s, %+v, want %d %s", tt.method, tt.path, resp.Status, p.Error, tt.status, tt.code)
		}
	}
}

// readEvents reads n server-sent events, as "id type".
func readEvents(t *testing.T, resp *http.Response, n int) (events []string) {
	t.Helper()
	lines, id := bufio.NewScanner(resp.Body), ""
	lines.Buffer(nil, 1<<20)
	for len(events) < n && lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			id = value
		case "event":
			events = append(events, id+" "+value)
			id = ""
		case "data": // the envelope of each event has all members
			var envelope map[string]any
			err := json.Unmarshal([]byte(value), &envelope)
			for _, member := range []string{"type", "ts", "trace_id", "run_id", "sprite", "payload"} {
				if _, ok := envelope[member]; err != nil || !ok {
					t.Errorf("an event without %s: %v %.200s", member, err, value)
				}
			}
		}
	}
	return events
}

const askTwice = `{"execir_version":"1.0","id":"twice","tools":[],"entry_node":"a","nodes":[{"id":"a","op":"HUMAN","prompt":"One?",
	"expected_inputs":{"approved":"boolean"}},{"id":"b","op":"HUMAN","prompt":"Two?","expected_inputs":{"approved":"boolean"}}],"edges":[{"from":"a","to":"b"}]}`

// TestEvents: a reader that comes back with the last id gets the rest, a filter leaves entries out, a reader that is too far
// behind is told which entries it did not get, and the stream goes on when the run does.
func TestEvents(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	id := start(t, l, askTwice, "")
	watch(t, l, id, "")
	if _, err := l.Decide(t.Context(), id, api.DecideRequest{Decision: lattice.Approve, By: "p"}); err != nil {
		t.Fatal(err)
	}
	v := watch(t, l, id, "")
	var all []string
	if err := l.Entries(t.Context(), id, 0, func(e lattice.Entry) error { all = append(all, fmt.Sprint(e.Seq, " run.output")); return nil }); err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	path := api.Root + "/runs/" + id + "/events"
	expect := func(resp *http.Response, want ...string) {
		t.Helper()
		if got := readEvents(t, resp, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("events %q, want %q", got, want)
		}
	}
	view := " run.updated"
	expect(send(t, server, "GET", path, ""), append(all, view)...)
	first, _, _ := strings.Cut(all[0], " ")
	expect(send(t, server, "GET", path, "", "Last-Event-ID", first), append(all[1:], view)...)
	expect(send(t, server, "GET", path+"?types=run.updated", ""), view)
	expect(send(t, server, "GET", path+"?backlog=1", ""), fmt.Sprint(v.LastSeq-1, " system.alert"), all[len(all)-1], view)
	updates := send(t, server, "GET", api.Root+"/events", "")
	if got := readEvents(t, updates, 1); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf("%d.", v.LastSeq)) || !strings.HasSuffix(got[0], view) {
		t.Errorf("events %q, want the view of the run at %d", got, v.LastSeq)
	}

	rest := send(t, server, "GET", path, "", "Last-Event-ID", fmt.Sprint(v.LastSeq))
	expect(rest, view) // it waits, and the stream stays
	if _, err := l.Decide(t.Context(), id, api.DecideRequest{Decision: lattice.Approve, By: "p"}); err != nil {
		t.Fatal(err)
	}
	if got := readEvents(t, rest, 1); len(got) != 1 {
		t.Error("nothing came after the answer")
	}
	if got := readEvents(t, updates, 1); len(got) != 1 {
		t.Error("no update came after the answer")
	}

	// The audit log tells of intents and sprites. What came while a reader was away comes when it resumes.
	kinds := []string{"intent.updated", "sprite.updated"}
	live := map[string]*http.Response{}
	for _, kind := range kinds {
		live[kind] = send(t, server, "GET", api.Root+"/events?types="+kind, "")
	}
	if resp := send(t, server, "POST", api.Root+"/intents", `{"kind":"sprite_task_exec","key":"k","input":{"command":"true"}}`); resp.StatusCode != http.StatusOK {
		t.Fatalf("create an intent: %s %v", resp.Status, body[any](t, resp))
	}
	if resp := send(t, server, "POST", api.Root+"/sprites", `{"name":"box"}`); resp.StatusCode >= 500 {
		t.Fatalf("create a sprite: %s", resp.Status)
	}
	for _, kind := range kinds {
		first := readEvents(t, live[kind], 1)
		if len(first) != 1 || !strings.HasSuffix(first[0], " "+kind) {
			t.Errorf("events %q, want one of %s", first, kind)
		}
		again := readEvents(t, send(t, server, "GET", api.Root+"/events?types="+kind, "", "Last-Event-ID", fmt.Sprint(v.LastSeq)), 1)
		if _, entry, _ := strings.Cut(fmt.Sprint(again), "."); len(first) == 0 || !strings.HasSuffix(fmt.Sprint(first), "."+entry) {
			t.Errorf("a reader at the position of a run gets %q, want %q", again, first)
		}
	}
}
