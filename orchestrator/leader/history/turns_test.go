package history

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestTurnsOfThePresentCourse folds turns, each named by the position of its event, with facts.
func TestTurnsOfThePresentCourse(t *testing.T) {
	t.Parallel()
	back := func(seq, moment lattice.Seq, node, checkpoint string) lattice.Entry {
		f := lattice.Rewound{Moment: lattice.Moment{Seq: moment, Node: node, Visit: 1}}
		if checkpoint != "" {
			f.Pair = &lattice.Pair{Sprite: "box", CheckpointID: checkpoint}
		}
		return newEntry(t, seq, f)
	}
	lost := newEntry(t, 40, lattice.PowerLost{Seq: 15, State: json.RawMessage(`{}`)})
	lostAtTurn := newEntry(t, 40, lattice.PowerLost{Seq: 5, State: json.RawMessage(`{}`), Pair: lattice.Pair{Sprite: "box", CheckpointID: "v10"}})
	for name, test := range map[string]struct {
		facts []lattice.Entry
		turns []lattice.Seq
		want  string
	}{
		"no rewind":                         {nil, []lattice.Seq{10, 20}, "10 20"},
		"to a turn":                         {[]lattice.Entry{back(30, 5, "edit", "v10")}, []lattice.Seq{10, 20, 40}, "10 40"},
		"to it twice":                       {[]lattice.Entry{back(30, 5, "edit", "v10"), back(50, 31, "edit", "v10")}, []lattice.Seq{10, 20, 40}, "10"},
		"to its step":                       {[]lattice.Entry{back(30, 5, "edit", "v2")}, []lattice.Seq{10, 20, 40}, "40"},
		"to its step after going to a turn": {[]lattice.Entry{back(30, 5, "edit", "v10"), back(50, 31, "edit", "v2")}, []lattice.Seq{10, 20}, ""},
		"to a later step":                   {[]lattice.Entry{back(30, 15, "test", "v9")}, []lattice.Seq{10, 20}, "10"},
		"to a turn of a later step":         {[]lattice.Entry{back(40, 15, "review", "v20")}, []lattice.Seq{10, 20, 30}, "10 20"},
		"without files":                     {[]lattice.Entry{back(30, 5, "edit", "")}, []lattice.Seq{10, 20}, ""},
		"power lost":                        {[]lattice.Entry{lost}, []lattice.Seq{10, 20, 50}, "10 50"},
		"power lost, on to a turn":          {[]lattice.Entry{lostAtTurn}, []lattice.Seq{10, 20, 50}, "10 50"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []Turn
			for _, seq := range test.turns {
				all = append(all, Turn{Event: lattice.Entry{Seq: seq, Sprite: "box"}, since: seq, Said: protocol.AgentTurn{CheckpointID: fmt.Sprintf("v%d", seq)}})
			}
			now, err := foldTurns(test.facts, all)
			got := ""
			for i, turn := range now {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprint(turn.Event.Seq)
			}
			if err != nil || got != test.want {
				t.Errorf("foldTurns = %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func newEntry(t *testing.T, seq lattice.Seq, f lattice.Fact) lattice.Entry {
	t.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return lattice.Entry{Seq: seq, Kind: lattice.EntryFact, Type: f.FactType(), Body: body}
}
