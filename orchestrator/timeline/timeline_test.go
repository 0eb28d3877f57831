package timeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// logOf builds entries a second apart from facts and, for strings, events of the call that the string names.
func logOf(t *testing.T, items ...any) []lattice.Entry {
	t.Helper()
	var out []lattice.Entry
	for _, item := range items {
		e := lattice.Entry{Seq: lattice.Seq(len(out) + 1), At: time.Unix(int64(len(out)), 0)}
		switch v := item.(type) {
		case string:
			e.Kind, e.Type, e.CallID = lattice.EntryEvent, "INFO", v
			if sprite, call, ok := strings.Cut(v, ":"); ok {
				e.Sprite, e.CallID = sprite, call
			}
			e.Body = json.RawMessage(`{"event_type":"INFO","payload":{"message":"from ` + v + `"}}`)
		case lattice.Fact:
			body, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			e.Kind, e.Type, e.Body = lattice.EntryFact, v.FactType(), body
		case begins:
			out[len(out)-1].Started = v
			continue
		}
		out = append(out, e)
	}
	return out
}

// begins names the nodes that the fact before it began.
type begins []string

func TestSuperseded(t *testing.T) {
	t.Parallel()
	lost, restored := lattice.CallLost{CallID: "a"}, lattice.Restored{}
	for _, tt := range []struct {
		name string
		log  []any
		want []lattice.Seq
	}{
		{"nothing lost", []any{"a", "a", lattice.CallFinished{CallID: "a"}}, nil},
		{"lost and restored", []any{"a", "b", lost, restored, "a"}, []lattice.Seq{1}},
		{"lost, then read again where it stands", []any{"a", lost, "a", lattice.CallFinished{CallID: "a"}, restored}, nil},
		{"lost after it waited", []any{"a", lattice.CallSuspended{CallID: "a"}, restored, "a", lost, restored, "a"}, []lattice.Seq{4}},
		{"lost beside one that goes back", []any{
			"a", "b", lattice.CallLost{CallID: "a", CommandID: "e0.1.call@m[0]"}, lattice.Restored{CommandID: "e0.9.restore@m[1]"},
		}, nil},
		{"power lost: the fork goes on from a turn", []any{"a", lattice.CallFinished{}, "a", "fork:b", "fork:b", "other:c",
			lattice.PowerLost{Seq: 2, State: json.RawMessage(`{}`), Sprites: []lattice.SpriteBack{{EventsTo: 2}, {Pair: lattice.Pair{Sprite: "fork"}, EventsTo: 4}}}, "fork:d"}, []lattice.Seq{3, 5, 6}},
		{"lost twice", []any{"a", lost, restored, "a", lost, restored, "a"}, []lattice.Seq{1, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(lattice.Superseded(logOf(t, tt.log...))))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("superseded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	line := New()
	for _, e := range logOf(t,
		lattice.RunStarted{Sprite: "s"}, lattice.Prepared{}, begins{"build"},
		"c1", lattice.CallFinished{CallID: "c1", Fault: nil, Kind: "tool_error"}, begins{"build again"},
		lattice.CallLost{Detail: "the wire"}, lattice.CallFinished{OK: true, Data: json.RawMessage(`{"status":"passed","counts":{"total":3}}`)}, begins{"pick", "ask"},
	) {
		line.Add(e)
	}
	line.Pause([]lattice.Wait{{Prompt: "Go\x1b[31m on?"}})
	var got []string
	for _, s := range line.steps {
		got = append(got, strings.Join(strings.Fields(s.Text(time.Unix(9, 0), false)), " "))
	}
	want := []string{
		"✓ prepare 1.0s", "✗ build 2.0s tool_error", "✓ build again 2.0s passed 3 tests, 0 failed", "✓ pick 0.0s", "⏸ ask 4.0s Go[31m on?",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// The last attempt shows how it ended; a WAIT is not another attempt.
func TestTimelineOfTimers(t *testing.T) {
	t.Parallel()
	line := New()
	failed := lattice.CallFinished{CommandID: "e0.2.call", Fault: &protocol.Fault{Code: "network", Message: "no route"}}
	for _, e := range logOf(t,
		lattice.RunStarted{}, begins{"pause"}, lattice.TimerFired{CommandID: "e0.1.timer"}, begins{"fetch"},
		failed, lattice.TimerFired{CommandID: "e0.3.timer"}, lattice.CallFinished{CommandID: "e0.4.call", OK: true}, begins{"send"},
		failed, lattice.TimerFired{CommandID: "e0.5.timer"}, failed, begins{"each", "each[0]/read"},
		lattice.TimerFired{CommandID: "e0.7.timer"}, begins{"each[0]" + lattice.IterationDropped},
	) {
		line.Add(e)
	}
	var got []string
	for _, s := range line.steps {
		got = append(got, strings.Join(strings.Fields(s.Text(time.Unix(20, 0), false)), " "))
	}
	want := []string{"✓ pause 1.0s", "✓ fetch 3.0s", "✗ send 3.0s network: no route", "▸ each 13.0s 0 done, 1 given up"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// Progress leaves out nodes that only decide, unless one takes long. Lines has all nodes.
func TestProgressLeavesDecisionsOut(t *testing.T) {
	t.Parallel()
	line := New()
	for _, e := range logOf(t,
		lattice.RunStarted{Sprite: "s"}, lattice.Prepared{}, begins{"init", "choose", "build"},
		"c1", lattice.CallFinished{CallID: "c1", OK: true}, begins{"count", "each", "each[0]/p", "each[0]" + lattice.IterationDone, "check"},
		lattice.CommandFailed{Fault: protocol.Fault{Code: "no_such_variable", Message: "no x"}}, begins{"ask"},
		lattice.BoundaryTaken{CommandID: "e0.5.checkpoint"}, begins{"last"},
	) {
		line.Add(e)
	}
	names := func(lines []string) (out []string) {
		for _, l := range lines {
			out = append(out, strings.Fields(l)[1])
		}
		return out
	}
	last := line.now
	if diff := cmp.Diff([]string{"prepare", "build", "each", "each[0]", "check", "ask"}, names(line.Progress(last, false))); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if got := names(line.Progress(last.Add(2*time.Second), false)); got[len(got)-1] != "last" {
		t.Errorf("a step that takes long is not shown: %v", got)
	}
	if got := names(line.Lines(last, false)); len(got) != 10 {
		t.Errorf("%d lines of the whole timeline, want 10: %v", len(got), got)
	}
}

// Iterations are drawn below their MAP, each with the node that it came to; what their calls say finds its place even
// when several are under way.
func TestTimelineOfIterations(t *testing.T) {
	t.Parallel()
	line := New()
	said := func(call, message string) lattice.Entry {
		return lattice.Entry{Kind: lattice.EntryEvent, CallID: call, Body: json.RawMessage(`{"event_type":"INFO","payload":{"message":"` + message + `"}}`)}
	}
	log := logOf(t,
		lattice.RunStarted{Sprite: "s"}, lattice.Prepared{}, begins{"each", "each[0]/read", "each[1]/read", "each[2]/read"},
		lattice.CallFinished{CommandID: "e0.3.call@each[1]", CallID: "c1", Kind: "tool_error"}, begins{"each[2]" + lattice.IterationDropped, "each[1]" + lattice.IterationFailed},
		lattice.CallSuspended{CommandID: "e0.2.call@each[0]", CallID: "c0", Reason: "which?"},
		lattice.BoundaryTaken{CommandID: "e0.5.checkpoint@each[0]"},
		lattice.Answered{Decision: lattice.Answer, By: "ada"},
		lattice.CallFinished{CommandID: "e0.7.call@each[0]", CallID: "c0", OK: true, Data: json.RawMessage(`{"status":"fine"}`)},
		begins{"each[0]/in", "each[0]/in[0]/p", "each[0]/in[0]" + lattice.IterationDone, "each[0]" + lattice.IterationDone, "next"},
	)
	for i, e := range log {
		line.Add(e)
		if i == 1 {
			line.Add(said("c1", "one speaks"))
		}
	}
	var got []string
	for _, l := range line.Lines(time.Unix(9, 0), false) {
		indent := len(l) - len(strings.TrimLeft(l, " "))
		got = append(got, l[:indent]+strings.Join(strings.Fields(l), " "))
	}
	want := []string{
		"✓ prepare 1.0s", "✓ each 5.0s 1 done, 1 failed, 1 given up", "  ✓ each[0] in 5.0s 1 done", "    ✓ in[0] p 0.0s",
		"  ✗ each[1] read 1.0s tool_error", "  - each[2] read 1.0s", "▸ next 3.0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// TestTimelineAfterALossOfPower goes on with the iterations that were under way at the place to which the run goes back.
func TestTimelineAfterALossOfPower(t *testing.T) {
	t.Parallel()
	line := New()
	for _, e := range logOf(t,
		lattice.RunStarted{Sprite: "s"}, lattice.Prepared{}, begins{"each", "each[0]/a", "each[1]/a"},
		lattice.CallFinished{CommandID: "e0.3.call@each[0]", OK: true}, begins{"each[0]" + lattice.IterationDone, "each[2]/a"},
		lattice.PowerLost{Seq: 2, State: json.RawMessage(`{"node":"each"}`), Sprites: []lattice.SpriteBack{{}}},
		lattice.CallFinished{CommandID: "e1.9.call@each[1]", OK: true}, begins{"each[1]" + lattice.IterationDone},
	) {
		line.Add(e)
	}
	got := strings.Join(strings.Fields(strings.Join(line.Lines(time.Unix(9, 0), false), ";")), " ")
	want := "✓ prepare 1.0s;▸ each 8.0s 1 done; ▸ each[0] a 8.0s again, because the power was lost; ✓ each[1] a 3.0s; - each[2] a 1.0s the power was lost"
	if got != want {
		t.Errorf("timeline\n%s, want\n%s", got, want)
	}
}

// Of many iterations those that are done are counted, except for the last few.
func TestTimelineOfManyIterations(t *testing.T) {
	t.Parallel()
	begun := begins{"each"}
	for i := range 20 {
		begun = append(begun, fmt.Sprintf("each[%d]/p", i), fmt.Sprintf("each[%d]%s", i, map[bool]string{true: lattice.IterationFailed, false: lattice.IterationDone}[i == 4]))
	}
	line := New()
	for _, e := range logOf(t, lattice.RunStarted{}, begun) {
		line.Add(e)
	}
	got := line.Lines(time.Unix(0, 0), false)
	if len(got) != 6 || !strings.Contains(got[0], "19 done, 1 failed") || !strings.Contains(got[1], "16 more, done") || !strings.Contains(got[2], "✗ each[4] p") {
		t.Errorf("lines:\n%s", strings.Join(got, "\n"))
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\tc": "a b c", "\x1b]0;title\x07x": "]0;titlex", "a\u202eb": "a<U+202E>b", strings.Repeat("é", 400): strings.Repeat("é", 299) + "…",
	} {
		if got := cli.Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}
