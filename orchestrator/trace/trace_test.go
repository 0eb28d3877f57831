package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

var epoch = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// journal returns the entries of facts, one each second. started names the nodes that a fact begins.
func journal(t *testing.T, facts ...any) (all []lattice.Entry) {
	t.Helper()
	for _, f := range facts {
		if names, ok := f.([]string); ok {
			all[len(all)-1].Started = names
			continue
		}
		fact := f.(lattice.Fact)
		body, err := json.Marshal(fact)
		if err != nil {
			t.Fatal(err)
		}
		n := len(all) + 1
		all = append(all, lattice.Entry{Seq: lattice.Seq(n), At: epoch.Add(time.Duration(n) * time.Second), Run: "run_1", Kind: lattice.EntryFact, Type: fact.FactType(), Body: body})
	}
	return all
}

// describe returns spans as text, with the names of spans in place of their ids.
func describe(spans []Span) string {
	names := map[string]string{}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	var out strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&out, "%s %.0f-%.0f in %q", s.Name, s.Began.Sub(epoch).Seconds(), s.Ended.Sub(epoch).Seconds(), names[s.Parent])
		for _, l := range s.Links {
			fmt.Fprintf(&out, " after %q", names[l.Span])
		}
		if s.Failed {
			out.WriteString(" failed")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func TestFold(t *testing.T) {
	run := Run{ID: "run_1", Flow: "fix", Status: lattice.Succeeded, Began: epoch, Ended: epoch.Add(time.Minute)}
	for name, tt := range map[string]struct {
		run   Run
		facts []any
		want  string
	}{
		"calls, and a wait between two parts of one": {run, []any{
			lattice.RunStarted{RunID: "run_1"}, []string{"edit"},
			lattice.CallFinished{CommandID: "call", CallID: "a", OK: true, Data: json.RawMessage(`{"agent":"claude","model":"m","usage":{"input":5,"output":2}}`)}, []string{"push"},
			lattice.CallSuspended{CommandID: "call", CallID: "b", Reason: "asked"},
			lattice.Answered{Decision: lattice.Approve, By: "ann"},
			lattice.CallFinished{CommandID: "call", CallID: "b", OK: true},
		}, `RUN fix 0-60 in ""
edit 1-2 in "RUN fix"
invoke_agent claude 1-2 in "edit"
push 2-5 in "RUN fix"
call 2-3 in "push"
wait 3-4 in "push" after "call"
call 4-5 in "push" after "call"
`},
		"an attempt that failed": {Run{ID: "run_1", Status: lattice.Failed, Began: epoch, Ended: epoch}, []any{
			lattice.RunStarted{RunID: "run_1"}, []string{"test"},
			lattice.CallFinished{CommandID: "call", CallID: "a", Kind: "tool_error"}, []string{"test"},
			lattice.CallFinished{CommandID: "call", CallID: "b", OK: true},
		}, `RUN 0-0 in "" failed
test 1-2 in "RUN" failed
call 1-2 in "test" failed
test 2-3 in "RUN"
call 2-3 in "test"
`},
		"a model": {run, []any{
			lattice.RunStarted{RunID: "run_1"}, []string{"plan"},
			lattice.ModelAnswered{CommandID: "model", ModelReply: lattice.ModelReply{Model: "m", Usage: lattice.ModelUsage{InputTokens: 3}}}, []string{"end"},
		}, `RUN fix 0-60 in ""
plan 1-2 in "RUN fix"
chat m 1-2 in "plan"
`},
		"a run that goes on": {Run{ID: "run_1", Status: lattice.Running, Began: epoch}, []any{lattice.RunStarted{RunID: "run_1"}, []string{"edit"}}, ""},
	} {
		spans := Fold(tt.run, journal(t, tt.facts...))
		if got := describe(spans); got != tt.want {
			t.Errorf("%s:\n%swant\n%s", name, got, tt.want)
		}
		seen := map[string]bool{}
		for _, s := range spans {
			if seen[s.ID] || len(s.ID) != 16 || len(s.Trace) != 32 {
				t.Errorf("%s: the span %s has the id %s in trace %s, which is not one of its own", name, s.Name, s.ID, s.Trace)
			}
			seen[s.ID] = true
		}
	}
	forked := Fold(Run{ID: "run_2", ForkedFrom: "run_1", Status: lattice.Canceled}, nil)
	if len(forked) != 1 || forked[0].Links[0] != (Link{tracecontext.TraceID("run_1"), spanID("run", "run_1")}) {
		t.Errorf("a fork has the spans %+v, want a link to the other run", forked)
	}
}

// conventions are the names in the registries of the semantic conventions that spans use, with the type of their values and, for an
// enumeration, its members. cicd.* and error.* are those of version 1.41.0, gen_ai.* those of version 0.1.0 of the
// conventions for generative AI.
var conventions = map[string]struct {
	example any
	members string
}{
	"cicd.pipeline.action.name":     {"", "BUILD RUN SYNC"},
	"cicd.pipeline.name":            {"", ""},
	"cicd.pipeline.run.id":          {"", ""},
	"cicd.pipeline.result":          {"", "success failure timeout skip cancellation error"},
	"cicd.pipeline.task.name":       {"", ""},
	"cicd.pipeline.task.run.id":     {"", ""},
	"cicd.pipeline.task.run.result": {"", "success failure timeout skip cancellation error"},
	"error.type":                    {"", ""},
	"gen_ai.operation.name":         {"", "chat create_agent embeddings execute_tool generate_content invoke_agent retrieval text_completion"},
	"gen_ai.provider.name":          {"", ""},
	"gen_ai.agent.name":             {"", ""},
	"gen_ai.request.model":          {"", ""},
	"gen_ai.response.model":         {"", ""},
	"gen_ai.usage.input_tokens":     {0, ""},
	"gen_ai.usage.output_tokens":    {0, ""},
}

// TestConventions: spans are named, and have the kinds and the attributes that the pinned conventions ask for; attributes of our own
// begin with lattice.
func TestConventions(t *testing.T) {
	spans := Fold(Run{ID: "run_1", Flow: "fix", Status: lattice.Failed, Failure: "tool_error", Began: epoch, Ended: epoch.Add(time.Minute)}, journal(t,
		lattice.RunStarted{RunID: "run_1"}, []string{"edit"},
		lattice.CallFinished{CommandID: "call", CallID: "a", OK: true, Data: json.RawMessage(`{"agent":"claude","model":"m","usage":{"input":5,"output":2}}`)}, []string{"plan"},
		lattice.ModelAnswered{CommandID: "model", ModelReply: lattice.ModelReply{Provider: "openai", Model: "m", Usage: lattice.ModelUsage{InputTokens: 3}}}, []string{"test"},
		lattice.CallFinished{CommandID: "call", CallID: "c", Kind: "tool_error"}))
	required := map[string]struct {
		kind  Kind
		names string
	}{
		"RUN fix":             {Server, "cicd.pipeline.action.name cicd.pipeline.name cicd.pipeline.run.id cicd.pipeline.result error.type"},
		"edit":                {0, "cicd.pipeline.task.name cicd.pipeline.task.run.id cicd.pipeline.task.run.result"},
		"test":                {0, "cicd.pipeline.task.name cicd.pipeline.task.run.id cicd.pipeline.task.run.result error.type"},
		"invoke_agent claude": {0, "gen_ai.operation.name gen_ai.agent.name gen_ai.usage.input_tokens gen_ai.usage.output_tokens"},
		"chat m":              {Client, "gen_ai.operation.name gen_ai.provider.name gen_ai.request.model gen_ai.usage.input_tokens"},
	}
	for _, s := range spans {
		has := map[string]bool{}
		for _, a := range s.Attributes {
			has[a.Key] = true
			c, known := conventions[a.Key]
			switch {
			case strings.HasPrefix(a.Key, "lattice."):
			case !known:
				t.Errorf("%s has the attribute %s, which no convention knows", s.Name, a.Key)
			case fmt.Sprintf("%T", a.Value) != fmt.Sprintf("%T", c.example):
				t.Errorf("%s has the value %v of type %T for %s, want %T", s.Name, a.Value, a.Value, a.Key, c.example)
			case c.members != "" && !slices.Contains(strings.Fields(c.members), a.Value.(string)):
				t.Errorf("%s has the value %v for %s, want one of %s", s.Name, a.Value, a.Key, c.members)
			}
		}
		want := required[s.Name]
		for _, name := range strings.Fields(want.names) {
			if !has[name] {
				t.Errorf("%s lacks %s", s.Name, name)
			}
		}
		if want.names != "" && s.Kind != want.kind {
			t.Errorf("%s is of kind %d, want %d", s.Name, s.Kind, want.kind)
		}
		delete(required, s.Name)
	}
	if len(required) > 0 {
		t.Errorf("there are no spans %v", required)
	}
}

// The span of a call is the one that its sprite was told.
func TestParentIsSpanOfCall(t *testing.T) {
	spans := Fold(Run{ID: "run_1"}, journal(t, lattice.RunStarted{RunID: "run_1"}, []string{"n"}, lattice.CallFinished{CommandID: "call", CallID: "a", OK: true}))
	want := "00-" + spans[1].Trace + "-" + spans[1].ID + "-01"
	if got := tracecontext.Parent("run_1", "a"); got != want || len(got) != 55 {
		t.Errorf("TRACEPARENT is %s, and the span of the call %s", got, want)
	}
}

// Encode writes the JSON form of OTLP: ids in hexadecimal digits, times and integers as text, enumerations as numbers.
func TestEncode(t *testing.T) {
	text, err := Encode([]Span{{Trace: "t", ID: "s", Parent: "p", Name: "n", Kind: Client, Began: epoch, Ended: epoch, Failed: true, Links: []Link{{"t2", "s2"}}, Attributes: []Attribute{{"a", "x"}, {"b", 0}}}}, "lattice", "v1")
	const want = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"lattice"}},{"key":"service.version","value":{"stringValue":"v1"}}]},` +
		`"scopeSpans":[{"scope":{"name":"github.com/spritekit/lattice","version":"v1","attributes":[{"key":"lattice.semconv.gen_ai.version","value":{"stringValue":"0.1.0"}}]},` +
		`"spans":[{"traceId":"t","spanId":"s","parentSpanId":"p","name":"n","kind":3,"startTimeUnixNano":"1785240000000000000","endTimeUnixNano":"1785240000000000000",` +
		`"attributes":[{"key":"a","value":{"stringValue":"x"}},{"key":"b","value":{"intValue":"0"}}],"links":[{"traceId":"t2","spanId":"s2"}],"status":{"code":2}}]}]}]}`
	if err != nil || string(text) != want {
		t.Errorf("Encode = %s, %v; want %s", text, err, want)
	}
}

// Nothing is sent unless the environment names a collector.
func TestConfigure(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		url  string // "" for none
		code string
	}{
		"nothing":       {nil, "", ""},
		"a base":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces", ""},
		"of traces":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x"}, "https://d/x", ""},
		"turned off":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, "", ""},
		"no traces":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		"over gRPC":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "trace_protocol"},
		"without a URL": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"}, "", "trace_endpoint"},
	} {
		e, err := Configure(func(name string) string { return tt.env[name] }, "v1")
		if (err != nil) != (tt.code != "") || (e != nil) != (tt.url != "") || e != nil && e.URL != tt.url {
			t.Errorf("%s: %+v, %v; want %q and the code %q", name, e, err, tt.url, tt.code)
		}
	}
}

func TestSend(t *testing.T) {
	answer, got := http.StatusOK, ""
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("X-Key") + " " + string(body[:17])
		w.WriteHeader(answer)
	}))
	defer collector.Close()
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"}
	e, err := Configure(func(name string) string { return env[name] }, "v1")
	if err == nil {
		err = e.Send(t.Context(), []Span{{Name: "n"}})
	}
	if want := `POST /v1/traces application/json a b {"resourceSpans":`; err != nil || got != want {
		t.Errorf("the collector got %q, %v; want %q", got, err, want)
	}
	answer = http.StatusBadRequest
	if err := e.Send(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("a refusal of the collector is %v", err)
	}
}
