package tally

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

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
