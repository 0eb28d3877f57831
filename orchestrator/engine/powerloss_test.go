package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestPowerLoss takes the power away at any step of any flow: what was not durable is torn, and yet the run ends with the
// same files, and has done to the world each thing once. In every other run, calls keep turns, and are made again from there.
func TestPowerLoss(t *testing.T) {
	toTurns, kept, besides := 0, 0, 0
	for i, flow := range [][]string{
		{"write", "write", "pack"}, {"write", "world", "write"}, {"+world", "pack"}, {"write", "+idem", "read"}, {"write", "+flaky"},
		{"write", "+ask", "write"}, {"write", "+allow", "write"}, {"write", "+wants", "write"}, {"write", "deny"}, {"write", "+human", "write"},
		{"write", "emit", "wait", "write"}, {"write", "model", "write"}, {"write", "copy", "write"}, {"write", "copyask", "write"},
		{"write", "kept", "write", "kept"}, {"each write"}, {"each +world ask"}, {"write", "each wants human"}, {"write", "at once peek read", "write"},
		{"write", "forks +write idem", "write"}, {"forks ask write", "forks wants"}, {"write", "forks world", "write"}, {"beside world ask", "write"},
		{"loop world flaky", "+write", "pack"}, {"read", "write"}, {"read", "human", "write"}, {"human", "pack"},
		{"write", "free", "write", "human"}, {"+free", "world", "write"}, {"each free"}, {"write", "forks +free write"},
		{"+agent", "write"}, {"write", "forks agent", "write"}, {"forks +agent world"}, {"at once copyagent read", "write"}, {"forks agent free model ask"},
	} {
		p := flowOf(t, flow)
		calm := newWorld(-1)
		calm.disk = 1
		s, err := play(p, calm)
		if err != nil {
			t.Fatalf("%v undisturbed: %v", flow, err)
		}
		want := timeless(flow, endOf(s, calm))
		checkReplay(t, p, calm)
		for fuse := i % 3; fuse < calm.ticks; fuse += 3 {
			w := newWorld(fuse)
			w.disk, w.keeps, w.settles = 1, fuse/3%2 == 1, fuse/3%4 > 1
			s, err := play(p, w, (fuse*7+i)%23)
			if err != nil {
				t.Fatalf("%v, power lost at %d: %v", flow, fuse, err)
			}
			got := endOf(s, w)
			for key, n := range got.Effects {
				if n != 1 {
					t.Errorf("%v, power lost at %d: effect %s happened %d times", flow, fuse, key, n)
				}
			}
			if keys := notedKeys(t, w.log); len(keys) != 0 {
				t.Errorf("%v, power lost at %d: one request was noted under several keys: %v", flow, fuse, keys)
			}
			if diff := cmp.Diff(want, timeless(flow, got)); diff != "" {
				t.Fatalf("%v, power lost at %d: end (-want +got):\n%s\n%s", flow, fuse, diff, told(w.log))
			}
			if w.onTorn > 0 {
				t.Errorf("%v, power lost at %d: %d calls worked on torn files\n%s", flow, fuse, w.onTorn, told(w.log))
			}
			checkReplay(t, p, w)
			toTurns, kept, besides = toTurns+lossesToTurns(t, w), kept+w.turnsKept, besides+w.besides
		}
	}
	if toTurns == 0 || kept == 0 || besides == 0 {
		t.Errorf("%d runs went back to a turn, %d agents, of which %d beside others", toTurns, kept, besides)
	}
}

// lossesToTurns returns how often a run went back to a turn.
func lossesToTurns(t *testing.T, w *world) (n int) {
	t.Helper()
	for _, e := range w.log {
		f, err := lattice.DecodeFact(e.Type, e.Body)
		lost, ok := f.(lattice.PowerLost)
		for _, turn := range w.turns {
			if ok && err == nil && slices.ContainsFunc(lost.Sprites, func(b lattice.SpriteBack) bool { return b.Pair.CheckpointID == turn.CheckpointID }) {
				n++
				break
			}
		}
	}
	return n
}

// notedKeys returns the requests that wait for nothing and are noted under more than one key, by which people decide.
func notedKeys(t *testing.T, log []lattice.Entry) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for _, e := range log {
		if e.Type != "ActionNoted" {
			continue
		}
		f, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		a := f.(lattice.ActionNoted).Action
		if of := string(a.Parameters); !slices.Contains(keys[of], a.Key) {
			keys[of] = append(keys[of], a.Key)
		}
	}
	maps.DeleteFunc(keys, func(_ string, k []string) bool { return len(k) == 1 })
	return keys
}

// timeless leaves out of an end what may differ: how many events there are, the keys of actions, and what a call wrote
// into its sprite that is not made again because it changed the world.
func timeless(flow []string, e end) end {
	if e.Next != nil { // the id of the run that goes on
		e.Failure, e.Next = nil, nil
	}
	e.Events = 0
	e.Actions = map[string]int{"all": len(e.Actions)}
	maps.DeleteFunc(e.Files, func(name string, _ int) bool {
		for i, kind := range flow {
			if strings.Contains(kind, "world") && strings.Contains(name, fmt.Sprint("n", i)) {
				return true
			}
		}
		return false
	})
	return e
}

func told(log []lattice.Entry) (out []string) {
	for _, e := range log {
		if e.Kind == lattice.EntryFact {
			out = append(out, "\n"+e.Type+" "+string(e.Body[:min(len(e.Body), 160)]))
		}
	}
	return out
}

// TestPowerLossOfOlderVersions: the fact of an older version restores one pair and applies the fact behind the state again.
func TestPowerLossOfOlderVersions(t *testing.T) {
	p := flowOf(t, []string{"write", "pack"})
	c := newWorld(-1)
	c.disk = 1
	if _, err := play(p, c); err != nil {
		t.Fatal(err)
	}
	s, prepared := runstate.New("run_1"), lattice.Entry{}
	for _, e := range c.log {
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if e.Kind != lattice.EntryFact || err != nil {
			continue
		}
		if e.Type == "BoundaryTaken" {
			prepared = e
			break
		}
		if s, _, err = engine.Step(p, s, fact); err != nil {
			t.Fatal(err)
		}
	}
	pair := lattice.Pair{Sprite: "main-1", CheckpointID: "v1"}
	lost := lattice.PowerLost{Disk: "disk 2", Seq: prepared.Seq, Pair: pair, State: encode(t, s), FactKind: prepared.Type, Fact: prepared.Body}
	s, restore, err := engine.Step(p, s, lost)
	if err != nil || len(restore) != 1 || restore[0].Kind != lattice.DoRestore {
		t.Fatalf("PowerLost: %v, %v", restore, err)
	}
	s, calls, err := engine.Step(p, s, lattice.Restored{CommandID: restore[0].ID, Pair: pair})
	if err != nil || len(calls) != 1 || calls[0].Kind != lattice.DoCall || calls[0].Call.Epoch != 1 || s.Recovering != nil {
		t.Errorf("Restored: %v, %v", calls, err)
	}
}
