package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestPowerLoss takes the power away at any step of any flow: what was not durable is torn, and yet the run ends with the
// same files, and has done to the world each thing once. In every other run, calls keep turns, and are made again from there.
func TestPowerLoss(t *testing.T) {
	toTurns := 0
	for i, flow := range [][]string{
		{"write", "write", "pack"}, {"write", "world", "write"}, {"+world", "pack"}, {"write", "+idem", "read"}, {"write", "+flaky"},
		{"write", "+ask", "write"}, {"write", "+allow", "write"}, {"write", "+wants", "write"}, {"write", "deny"}, {"write", "+human", "write"},
		{"write", "emit", "wait", "write"}, {"write", "model", "write"}, {"write", "copy", "write"}, {"write", "copyask", "write"},
		{"write", "kept", "write", "kept"}, {"each write"}, {"each +world ask"}, {"write", "each wants human"}, {"write", "at once peek read", "write"},
		{"write", "forks +write idem", "write"}, {"forks ask write", "forks wants"}, {"write", "forks world", "write"}, {"beside world ask", "write"},
		{"loop world flaky", "+write", "pack"}, {"read", "write"}, {"read", "human", "write"}, {"human", "pack"},
		{"write", "free", "write", "human"}, {"+free", "world", "write"}, {"each free"}, {"write", "forks +free write"},
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
			w.disk, w.keeps = 1, fuse/3%2 == 1
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
			checkReplay(t, p, w)
			toTurns += lossesToTurns(t, w)
		}
	}
	if toTurns == 0 {
		t.Error("no run went back to a turn")
	}
}

// lossesToTurns returns how often a run went back to a turn.
func lossesToTurns(t *testing.T, w *world) (n int) {
	t.Helper()
	pairs := slices.Collect(maps.Values(w.turns))
	for _, e := range w.log {
		f, err := lattice.DecodeFact(e.Type, e.Body)
		if lost, ok := f.(lattice.PowerLost); ok && err == nil && slices.Contains(pairs, lost.Pair) {
			n++
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
