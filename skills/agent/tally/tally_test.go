package tally

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

// TestRepeatedEvents checks that starts and ends which an agent reports again and again are not collected.
func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	sum := New()
	for _, status := range []string{"pending", "failed", "connected"} {
		server := map[string]any{"name": "spritekit", "status": status}
		sum.Add(adapter.Event{Kind: adapter.KindStart, Fields: map[string]any{"session": "s", "mcp": []any{server, map[string]any{"name": strings.Repeat("n", 1000)}}}})
		sum.Add(adapter.Event{Kind: adapter.KindToolCall, Fields: map[string]any{"name": strings.Repeat("t", 1000) + status}})
		sum.Add(adapter.Event{Kind: adapter.KindEnd, Fields: map[string]any{"reason": status}})
	}
	sum.Add(adapter.Event{Kind: adapter.KindStart, Fields: map[string]any{"session": "s"}}) // lists no tasks
	if diff := cmp.Diff([]Server{{"spritekit", "connected"}, {strings.Repeat("n", maxName), ""}}, sum.Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Ending{{Reason: "connected"}}, sum.Ends); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{strings.Repeat("t", maxName): 3}, sum.Calls.ByName); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// TestHugeNumbers checks that costs and tokens that no agent has are counted as numbers that JSON can hold, none below 0.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cost, tokens float64
		want         float64
	}{
		"huge":     {1e308, 1e308, 3 * MaxUSD},
		"negative": {-1e308, -5, 0},
		"usual":    {0.5, 10, 1.5},
	} {
		sum := New()
		for range 3 {
			sum.Add(adapter.Event{Kind: adapter.KindUsage, Fields: map[string]any{"cost": test.cost, "input": test.tokens}})
		}
		u := sum.UsageSince(Usage{})
		cost := sum.CostSince(0, u, nil)
		if _, err := json.Marshal(SoFar{Usage: u, Cost: cost}); err != nil || cost.USD != test.want || u.Input < 0 {
			t.Errorf("%s: %+v and %+v, %v, want %g dollars", name, u, cost, err, test.want)
		}
	}
	huge := 1e300
	for _, p := range []Prices{{Input: huge}, {Output: huge}, {Cached: &huge}, {Input: -1}} {
		if p.Valid() {
			t.Errorf("the prices %+v are valid", p)
		}
	}
}

func TestEventsInOurWords(t *testing.T) {
	t.Parallel()
	type totals struct {
		Session, Final string
		Turns          int
		Calls, Failed  int
		Usage          Usage
		Cost           float64
		Ends           int
	}
	tests := map[string]totals{
		"claude":   {"498c8213-208d-452c-9ccd-27a4bbcb192d", "all done", 2, 1, 0, Usage{Input: 2000, Output: 100}, 0.01, 1},
		"codex":    {"01a1fd8c-7802-79a2-a6a0-dca1a3edd643", "all done", 3, 1, 0, Usage{Input: 2000, Output: 100}, 0, 1},
		"gemini":   {"g-1", "all done", 1, 1, 1, Usage{Input: 2000, Cached: 500, Output: 100}, 0, 1},
		"opencode": {"ses_1", "all done", 2, 1, 0, Usage{Input: 2000, Cached: 100, Output: 100, Reasoning: 10}, 0.009, 1},
		"openclaw": {"oc-1", "all done", 2, 1, 0, Usage{Input: 2000, Cached: 200, Output: 100}, 0.01, 1},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			files, _ := filepath.Glob("../testdata/" + name + ".json*")
			if len(files) != 1 {
				t.Fatalf("recordings: %v", files)
			}
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			a, err := adapter.Find(name, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			sum := New()
			for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
				var value any
				if err := d.Decode(&value); err != nil {
					t.Fatal(err)
				}
				for _, s := range adapter.Apply(a.Events, value) {
					sum.Add(s)
				}
			}
			u := sum.UsageSince(Usage{})
			got := totals{sum.Session, sum.Final, sum.Turns, sum.Calls.Total, sum.Calls.Failed, u, math.Round(sum.CostSince(0, u, nil).USD*1e6) / 1e6, len(sum.Ends)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
		})
	}
}
