package history

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
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
	goneOn := newEntry(t, 40, lattice.PowerLost{Seq: 35, State: json.RawMessage(`{}`), Sprites: []lattice.SpriteBack{{Pair: lattice.Pair{Sprite: "box"}, EventsTo: 10}}})
	elsewhere := newEntry(t, 40, lattice.PowerLost{Seq: 15, State: json.RawMessage(`{}`), Sprites: []lattice.SpriteBack{{Pair: lattice.Pair{Sprite: "fork"}, EventsTo: 10}}})
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
		"power lost, the sprite at a turn":  {[]lattice.Entry{goneOn}, []lattice.Seq{10, 20, 50}, "10 50"},
		"power lost, another at a turn":     {[]lattice.Entry{elsewhere}, []lattice.Seq{10, 20, 50}, "10 50"},
		"power lost, on to a turn before":   {[]lattice.Entry{lostAtTurn}, []lattice.Seq{10, 20, 50}, "10 50"},
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

// TestTurnsAreReadOnce: the turns of a run are found among its events once; afterwards only the entries behind are read.
func TestTurnsAreReadOnce(t *testing.T) {
	t.Parallel()
	s, err := store.Open(filepath.Join(t.TempDir(), "lattice.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Create(t.Context(), store.RunRecord{ID: "run_a", Created: time.Now(), Program: []byte(`{}`), Options: []byte(`{}`), Secret: make([]byte, 32)}); err != nil {
		t.Fatal(err)
	}
	event := func(payload string) lattice.Entry {
		return lattice.Entry{At: time.Now(), Run: "run_a", Kind: lattice.EntryEvent, Type: "INFO", Body: json.RawMessage(`{"event_type":"INFO","payload":` + payload + `}`)}
	}
	const tick, turn = `{"kind":"tick","message":"x"}`, `{"kind":"agent_turn","message":"x","metadata":{"turn":1,"reason":"ended"}}`
	add := func(after lattice.Seq, entries ...lattice.Entry) lattice.Seq {
		last, err := s.Append(t.Context(), "run_a", after, entries)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	last := add(0, append(slices.Repeat([]lattice.Entry{event(tick)}, 2000), event(turn))...)
	records := &Records{Store: s}
	read := func(turns int, most uint64) {
		t.Helper()
		before := s.CountReads()
		all, err := records.allTurns("run_a")
		if n := s.CountReads() - before; err != nil || len(all) != turns || n > most {
			t.Errorf("%d turns by %d reads, %v, want %d by at most %d", len(all), n, err, turns, most)
		}
	}
	read(1, 5000)
	read(1, 5)
	add(last, event(tick), event(turn))
	read(2, 10)
}

func newEntry(t *testing.T, seq lattice.Seq, f lattice.Fact) lattice.Entry {
	t.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return lattice.Entry{Seq: seq, Kind: lattice.EntryFact, Type: f.FactType(), Body: body}
}
