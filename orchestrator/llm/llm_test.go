package llm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-test-CANARY0123456789abcdef"

// clock is a time that passes only when somebody sleeps.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 {
		c.now = c.now.Add(d)
		c.slept = append(c.slept, d)
	}
	return ctx.Err()
}

var schema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"properties":{"id":{"type":"string"}}}`)

func question() lattice.ModelRequest {
	return lattice.ModelRequest{Class: "SMALL", Try: 1, Template: "t", System: "be brief", User: "which?", SchemaName: "Choice", Schema: schema, MaxOutputTokens: 64}
}

func price(d float64) *float64 { return &d }

// client asks model "m" of the script in one dialect, on a clock of its own.
func client(t *testing.T, p Provider, steps ...llmtest.Step) (*Client, *llmtest.Server, *clock) {
	t.Helper()
	s := llmtest.Serve(t, llmtest.Script{"m": steps})
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	tick := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	c, err := New(Options{Transport: transport, Now: tick.Now, Sleep: tick.Sleep, Classes: []Class{{
		Name: "SMALL", Provider: p, Model: "m", BaseURL: s.URL, Key: func() (string, error) { return canary, nil },
		Structured: StructuredSchema, InputUSD: price(1), OutputUSD: price(10),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c, s, tick
}

func ask(t *testing.T, c *Client, q lattice.ModelRequest) lattice.ModelReply {
	t.Helper()
	r, err := c.Ask(t.Context(), q)
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	return r
}

func each(t *testing.T, test func(t *testing.T, p Provider)) {
	for _, p := range []Provider{OpenAI, Anthropic} {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

func TestAnAnswerComesWithWhatItTook(t *testing.T) {
	for name, step := range map[string]llmtest.Step{"streamed": {}, "whole": {Whole: true}} {
		step.Text, step.In, step.Out = `{"id":"Ä1"}`, 2000, 100
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p Provider) {
				c, s, _ := client(t, p, step)
				want := lattice.ModelReply{Provider: string(p), Model: "m-0001", Text: `{"id":"Ä1"}`, Usage: lattice.ModelUsage{InputTokens: 2000, OutputTokens: 100, CostUSD: 0.003}}
				if diff := cmp.Diff(want, ask(t, c, question())); diff != "" {
					t.Errorf("reply (-want +got):\n%s", diff)
				}
				got := s.Requests()
				if len(got) != 1 || got[0].System != "be brief" || got[0].User != "which?" || got[0].Key != canary {
					t.Errorf("requests = %+v", got)
				}
			})
		})
	}
}

// The bytes of a request are what the vendors' own clients send for the same question.
func TestRequestsOnTheWire(t *testing.T) {
	for p, want := range map[Provider]string{
		OpenAI: `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"which?"}],"max_tokens":64,"temperature":0,` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"Choice","schema":` + string(schema) + `,"strict":true}},"stream":true,"stream_options":{"include_usage":true}}`,
		Anthropic: `{"model":"m","max_tokens":64,"system":"be brief","messages":[{"role":"user","content":"which?"}],"temperature":0,` +
			`"output_config":{"format":{"type":"json_schema","schema":` + string(schema) + `}},"stream":true}`,
	} {
		c, s, _ := client(t, p, llmtest.Step{Text: "{}"})
		ask(t, c, question())
		if got := string(s.Requests()[0].Body); got != want {
			t.Errorf("%s request = %s\nwant %s", p, got, want)
		}
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	tests := map[string]struct {
		step     llmtest.Step
		kind     string
		says     string
		requests int
	}{
		"truncated":          {llmtest.Step{Text: `{"id":`, End: "length"}, expr.FailTruncated, "all of its 64 tokens", 1},
		"refused":            {llmtest.Step{Text: "I cannot", End: "refusal"}, expr.FailRefusal, "refused", 1},
		"stopped oddly":      {llmtest.Step{Text: "x", End: "bored"}, expr.FailProvider, `unknown reason "bored"`, 1},
		"rate limited":       {llmtest.Step{Status: 429, Message: "slow down"}, expr.FailRateLimited, "slow down", maxTries},
		"overloaded":         {llmtest.Step{Status: 529, Message: "overloaded"}, expr.FailProvider, "529", maxTries},
		"bad gateway":        {llmtest.Step{Status: 502}, expr.FailProvider, "502", maxTries},
		"bad key":            {llmtest.Step{Status: 401, Message: "bad key"}, expr.FailProvider, "check the key", 1},
		"no such model":      {llmtest.Step{Status: 404, Message: "no model"}, expr.FailProvider, "base_url", 1},
		"bad request":        {llmtest.Step{Status: 400, Message: "context too long"}, expr.FailProvider, "context too long", 1},
		"redirected":         {llmtest.Step{Status: 307}, expr.FailProvider, "redirects are not followed", 1},
		"cut":                {llmtest.Step{Text: "long enough", Fault: llmtest.Cut}, expr.FailProvider, "read the answer", maxTries},
		"garbage":            {llmtest.Step{Fault: llmtest.Garbage}, expr.FailProvider, "it is no", maxTries},
		"error in a stream":  {llmtest.Step{Text: "long enough", Fault: llmtest.Broken}, expr.FailProvider, "overloaded", maxTries},
		"without end":        {llmtest.Step{Text: "long enough", Fault: llmtest.Endless}, expr.FailProvider, "the response is too long", 1},
		"to wait for a day":  {llmtest.Step{Status: 429, RetryAfter: "86400"}, expr.FailRateLimited, "24h0m0s", 1},
		"closed before time": {llmtest.Step{Status: 500, RetryAfter: "nonsense"}, expr.FailProvider, "500", maxTries},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p Provider) {
				c, s, _ := client(t, p, tt.step)
				got := ask(t, c, question())
				if got.Kind != tt.kind || !strings.Contains(strings.ToLower(got.Message), strings.ToLower(tt.says)) {
					t.Errorf("reply = %s %q, want %s and %q", got.Kind, got.Message, tt.kind, tt.says)
				}
				if n := len(s.Requests()); n != tt.requests {
					t.Errorf("%d requests, want %d", n, tt.requests)
				}
			})
		})
	}
}

func TestABusyServerIsAskedAgainWhenItSays(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		c, s, tick := client(t, p, llmtest.Step{Status: 429, RetryAfter: "7"}, llmtest.Step{Status: 503}, llmtest.Step{Text: "{}"})
		if got := ask(t, c, question()); got.Kind != "" || got.Text != "{}" {
			t.Errorf("reply = %+v", got)
		}
		if want := []time.Duration{7 * time.Second, 2 * time.Second}; !cmp.Equal(tick.slept, want) || len(s.Requests()) != 3 {
			t.Errorf("slept %v with %d requests, want %v with 3", tick.slept, len(s.Requests()), want)
		}
	})
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "x": 0, "NaN": 0, "1e300": 0,
		"Thu, 01 Jan 2026 00:00:09 GMT": 9 * time.Second, "Wed, 31 Dec 2025 00:00:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
}

// All questions together keep the rate, whatever class they are for.
func TestOneRateForAll(t *testing.T) {
	s := llmtest.Serve(t, llmtest.Script{"m": {{Text: "{}"}}})
	transport := &http.Transport{DisableKeepAlives: true}
	tick := &clock{now: time.Unix(0, 0)}
	c, err := New(Options{Transport: transport, PerMinute: 10, Now: tick.Now, Sleep: tick.Sleep, Classes: []Class{
		{Name: "A", Provider: OpenAI, Model: "m", BaseURL: s.URL}, {Name: "B", Provider: Anthropic, Model: "m", BaseURL: s.URL},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, class := range []string{"A", "B"} {
			q := question()
			q.Class = class
			ask(t, c, q)
		}
	}
	if took := tick.Now().Sub(time.Unix(0, 0)); took != 30*time.Second {
		t.Errorf("6 requests at 10 a minute took %v, want 30s", took)
	}
}

func TestAStreamThatStandsStill(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		c, s, _ := client(t, p, llmtest.Step{Text: "long enough", Fault: llmtest.Stall}, llmtest.Step{Text: "{}"})
		c.idle = 50 * time.Millisecond
		if got := ask(t, c, question()); got.Text != "{}" || len(s.Requests()) != 2 {
			t.Errorf("reply = %+v after %d requests", got, len(s.Requests()))
		}
	})
}

func TestAQuestionHasATimeout(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		c, _, _ := client(t, p, llmtest.Step{Text: "long enough", Fault: llmtest.Stall})
		q := question()
		q.TimeoutS = 0.05
		if got := ask(t, c, q); got.Kind != expr.FailTimeout || !strings.Contains(got.Message, "50ms") {
			t.Errorf("reply = %+v", got)
		}
	})
}

// Whoever ends the driver has not got an answer; that is no failure of the model.
func TestACanceledQuestionIsNotFoundOut(t *testing.T) {
	c, _, _ := client(t, OpenAI, llmtest.Step{Text: "long enough", Fault: llmtest.Stall})
	ctx, cancel := context.WithCancel(t.Context())
	c.idle = time.Hour
	go func() { time.Sleep(time.Millisecond); cancel() }() // whenever it hits, the answer is the same
	if _, err := c.Ask(ctx, question()); !errors.Is(err, context.Canceled) {
		t.Errorf("Ask = %v, want %v", err, context.Canceled)
	}
}

func TestAQuestionThatCouldCostTooMuchIsNotAsked(t *testing.T) {
	c, s, _ := client(t, OpenAI, llmtest.Step{Text: "{}"})
	q := question()
	q.BudgetUSD = price(0.0006)
	if got := ask(t, c, q); got.Kind != expr.FailLimit || !strings.Contains(got.Message, "max_cost_usd") || len(s.Requests()) != 0 {
		t.Errorf("reply = %+v after %d requests", got, len(s.Requests()))
	}
	q.BudgetUSD = price(0.01)
	if got := ask(t, c, q); got.Kind != "" {
		t.Errorf("reply = %+v", got)
	}
}

func TestUncountedAnswersAreEstimated(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		c, _, _ := client(t, p, llmtest.Step{Text: `{"id":"C1"}`, Uncounted: true})
		want := lattice.ModelUsage{InputTokens: 4, OutputTokens: 3, CostUSD: 34e-6, Estimated: true}
		if got := ask(t, c, question()).Usage; got != want {
			t.Errorf("usage = %+v, want %+v", got, want)
		}
	})
}

// A server that repeats the key wherever it can gets it into nothing that leaves the client.
func TestTheKeyStaysInItsHeader(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		for _, step := range []llmtest.Step{
			{Text: `{"id":"{key}"}`}, {Text: "x {key}", Whole: true}, {Status: 401, Message: "Incorrect API key provided: {key}"},
			{Status: 500, Message: "{key}"}, {Status: 400, Message: "you sent sk-test-CAN*************cdef"},
		} {
			c, s, _ := client(t, p, step)
			reply := ask(t, c, question())
			text, err := json.Marshal(reply)
			if err != nil || strings.Contains(string(text), "CAN") {
				t.Errorf("%s %v: reply = %s", p, step, text)
			}
			for _, r := range s.Requests() {
				if strings.Contains(string(r.Body), canary) {
					t.Errorf("the body holds the key: %s", r.Body)
				}
			}
		}
	})
}

func TestAClassWithoutItsKey(t *testing.T) {
	missing := errors.New("SOME_KEY is not set here; export it")
	c, err := New(Options{Transport: http.DefaultTransport, Classes: []Class{{Name: "A", Provider: OpenAI, Model: "m", Key: func() (string, error) { return "", missing }}}})
	if err != nil {
		t.Fatal(err)
	}
	q := question()
	q.Class = "A"
	if _, err := c.Ask(t.Context(), q); !errors.Is(err, missing) {
		t.Errorf("Ask = %v, want %v", err, missing)
	}
	for class, says := range map[string]string{"A": "SOME_KEY", "B": "no model class B"} {
		if err := c.Ready(class, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Ready(%s) = %v, want %q", class, err, says)
		}
	}
	if err := c.Ready("A", true); err == nil || !strings.Contains(err.Error(), "prices") {
		t.Errorf("Ready(A, priced) = %v", err)
	}
}

func TestPortableSchemas(t *testing.T) {
	for text, want := range map[string]bool{
		string(schema): true,
		`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`:                                                          false,
		`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"}}}`:                                               false,
		`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"array","items":` + string(schema) + `}}}`: true,
		`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","minLength":1}}}`:                 false,
		`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`:   true,
		`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"anyOf":[{"type":"object"},{"type":"null"}]}}}`:   false,
		`true`: false, `[`: false, `{}`: false,
	} {
		if got := isPortable(json.RawMessage(text)); got != want {
			t.Errorf("portable(%s) = %v, want %v", text, got, want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"data: {}\n\n", "data: [DONE]\n\n", "data: {\"type\":\"message_stop\"}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n", "event: x\ndata: 1\ndata: 2\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range dialects {
			a := &answer{}
			_ = readEvents(strings.NewReader(text), func(data []byte) (bool, error) { err := d.readEvent(a, data); return a.done, err })
			if a.text.Len() > len(text)*6 || a.in < 0 || a.out < 0 {
				t.Errorf("%d bytes made %d of text, %d and %d tokens", len(text), a.text.Len(), a.in, a.out)
			}
			_ = d.readWhole(&answer{}, []byte(text))
		}
	})
}
