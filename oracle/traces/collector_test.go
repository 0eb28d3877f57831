// Package traces has the decoder of the OpenTelemetry Collector read the traces that lattice sends. It is a module of its own,
// because lattice does not depend on the collector.
package traces

import (
	"encoding/json"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/trace"
)

// TestCollectorReadsTraces: the collector reads from what lattice sends a run with its nodes, below them their calls and the
// questions to models, the links from what followed a wait to what came before it, and the attributes of generative AI.
func TestCollectorReadsTraces(t *testing.T) {
	epoch := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	var entries []lattice.Entry
	begin := func(nodes []string, f lattice.Fact) {
		body, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		n := len(entries) + 1
		entries = append(entries, lattice.Entry{Seq: lattice.Seq(n), At: epoch.Add(time.Duration(n) * time.Second), Run: "run_1", Kind: lattice.EntryFact, Type: f.FactType(), Body: body, Started: nodes})
	}
	begin([]string{"plan"}, lattice.RunStarted{RunID: "run_1"})
	begin([]string{"edit"}, lattice.ModelAnswered{CommandID: "model", ModelReply: lattice.ModelReply{Model: "m", Usage: lattice.ModelUsage{InputTokens: 3, OutputTokens: 4}}})
	begin([]string{"push"}, lattice.CallFinished{CommandID: "call", CallID: "a", OK: true, Data: json.RawMessage(`{"agent":"claude","model":"m","usage":{"input":5,"output":2}}`)})
	begin(nil, lattice.CallSuspended{CommandID: "call", CallID: "b", Reason: "asked"})
	begin(nil, lattice.Answered{Decision: lattice.Approve, By: "ann"})
	begin([]string{"test"}, lattice.CallFinished{CommandID: "call", CallID: "b", OK: true})
	begin(nil, lattice.CallFinished{CommandID: "call", CallID: "c", Kind: "tool_error"})
	run := trace.Run{ID: "run_1", Flow: "fix", Status: lattice.Failed, Began: epoch, Ended: epoch.Add(time.Minute)}
	folded := trace.Fold(run, entries)
	text, err := trace.Encode(folded, "lattice", "v1")
	if err != nil {
		t.Fatal(err)
	}
	read, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(text)
	if err != nil || read.ResourceSpans().Len() != 1 || read.SpanCount() != len(folded) {
		t.Fatalf("the collector reads %d spans of %d: %v\n%s", read.SpanCount(), len(folded), err, text)
	}
	resource := read.ResourceSpans().At(0)
	if name, _ := resource.Resource().Attributes().Get("service.name"); name.Str() != "lattice" {
		t.Errorf("the service is %q", name.Str())
	}
	spans := map[pcommon.SpanID]ptrace.Span{}
	byName := map[string]ptrace.Span{}
	var linked []ptrace.Span
	for _, s := range resource.ScopeSpans().At(0).Spans().All() {
		if s.TraceID().IsEmpty() || s.SpanID().IsEmpty() || s.EndTimestamp() < s.StartTimestamp() || s.StartTimestamp().AsTime().Before(epoch) {
			t.Errorf("the span %s has no ids or no time of its own", s.Name())
		}
		spans[s.SpanID()], byName[s.Name()] = s, s
		if s.Links().Len() > 0 {
			linked = append(linked, s)
		}
	}
	for child, parent := range map[string]string{"plan": "RUN fix", "edit": "RUN fix", "push": "RUN fix", "chat m": "plan", "invoke_agent claude": "edit", "wait": "push"} {
		s, ok := byName[child]
		if !ok || s.ParentSpanID() != byName[parent].SpanID() || s.TraceID() != byName["RUN fix"].TraceID() {
			t.Errorf("%s is not below %s", child, parent)
		}
	}
	if len(linked) != 2 { // the wait, and the call that goes on
		t.Errorf("%d spans have links, want 2", len(linked))
	}
	for _, s := range linked {
		if before, ok := spans[s.Links().At(0).SpanID()]; !ok || before.Name() != "call" || before.EndTimestamp() > s.StartTimestamp() {
			t.Errorf("%s is linked to what did not come before it", s.Name())
		}
	}
	if byName["RUN fix"].Status().Code() != ptrace.StatusCodeError || byName["test"].Status().Code() != ptrace.StatusCodeError || byName["push"].Status().Code() == ptrace.StatusCodeError {
		t.Error("the collector does not read which spans failed")
	}
	for span, tokens := range map[string][2]int64{"chat m": {3, 4}, "invoke_agent claude": {5, 2}} {
		attributes := byName[span].Attributes()
		in, _ := attributes.Get("gen_ai.usage.input_tokens")
		out, _ := attributes.Get("gen_ai.usage.output_tokens")
		if in.Type() != pcommon.ValueTypeInt || in.Int() != tokens[0] || out.Int() != tokens[1] {
			t.Errorf("%s has %v tokens", span, attributes.AsRaw())
		}
		if operation, _ := attributes.Get("gen_ai.operation.name"); operation.Str() == "" {
			t.Errorf("%s has no operation: %v", span, attributes.AsRaw())
		}
	}
}
