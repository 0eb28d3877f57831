package timeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// TestCandidates: each item of a MAP with copies is a candidate with its last tests, its change and the sum of its cost, whatever is
// called inside; a copy has the name of the epoch in which it was made, and is named while it exists.
func TestCandidates(t *testing.T) {
	c := timeline.Candidates{Run: "run_1", Sprite: "main", Nodes: []string{"tries"}}
	seq := lattice.Seq(0)
	add := func(fact lattice.Fact, started ...string) {
		t.Helper()
		body, err := json.Marshal(fact)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		if err := c.Add(lattice.Entry{Seq: seq, Kind: lattice.EntryFact, Type: fact.FactType(), Body: body, Started: started}); err != nil {
			t.Fatal(err)
		}
	}
	done := func(path, data string) {
		add(lattice.CallFinished{CommandID: "1@" + path, OK: true, Data: json.RawMessage(data)})
	}
	add(lattice.Prepared{CommandID: "1@tries[1]"}, "tries[1]/edit")
	done("tries[1]", `{"cost":{"usd":8},"patch":"+old\n"}`)
	add(lattice.Rewound{}, "tries")
	add(lattice.Prepared{CommandID: "1@tries[1]"}, "tries[1]/edit")
	done("tries[1]", `{"final_text":"x","cost":{"usd":0.25},"usage":{"input":10,"output":2}}`)
	done("tries[1]/again[0]", `{"cost":{"usd":0.5}}`)
	done("tries[1]", `{"status":"failed","counts":{"total":3,"failed":2}}`)
	done("tries[1]", `{"status":"passed","counts":{"total":3,"failed":0}}`)
	done("tries[1]", `{"patch":"+a\n"}`)
	add(lattice.Prepared{CommandID: "1@tries[0]"}, "tries[0]/edit")
	done("others[0]", `{"patch":"+b\n"}`)
	done("", `{"patch":"+c\n"}`)
	name := lattice.CopyName("main", "run_1", 1, "tries[1]")
	got := c.List(func(sprite string) (string, bool) { return "http://x", sprite == name })
	for i := range got {
		got[i].State, got[i].Node, got[i].Message = "", "", ""
	}
	want := []api.Candidate{{Try: 0}, {Try: 1, Sprite: name, URL: "http://x", CostUSD: 0.75, Tokens: 12, Patch: "+a\n", Tests: &api.CandidateTests{Status: "passed", Total: 3}}}
	if !slices.EqualFunc(got, want, func(a, b api.Candidate) bool {
		return fmt.Sprintf("%+v", a.Tests) == fmt.Sprintf("%+v", b.Tests) && a.Patch == b.Patch && a.CostUSD == b.CostUSD && a.Tokens == b.Tokens && a.Sprite == b.Sprite && a.Try == b.Try
	}) {
		t.Errorf("the candidates are %+v, want %+v", got, want)
	}
}
