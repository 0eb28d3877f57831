package engine_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// copied is a world of its own that has lived through the same.
func (w *world) copied() *world {
	c := newWorld(-1)
	c.sprite, c.checkpoints, c.copies = w.sprite.clone(), slices.Clone(w.checkpoints), maps.Clone(w.copies)
	c.effects, c.actions, c.dedupe = maps.Clone(w.effects), maps.Clone(w.actions), maps.Clone(w.dedupe)
	c.log, c.snapshot, c.snapshotSeq, c.last, c.clock = slices.Clone(w.log), w.snapshot, w.snapshotSeq, w.last, w.clock
	return c
}

func (w *world) facts() []lattice.Entry {
	return slices.DeleteFunc(slices.Clone(w.log), func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact })
}

func points(t tester, p *ir.Program, w *world) []replay.Point {
	t.Helper()
	found, err := replay.Points(p, "run_1", w.facts())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func stateAt(t tester, p *ir.Program, w *world, at replay.Point) json.RawMessage {
	t.Helper()
	s, err := replay.StateAt(p, "run_1", w.facts(), at)
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, s)
}

// kept is what going back and on again must give once more. Calls of the new course have ids of their own.
func kept(s runstate.State, w *world) end {
	e := endOf(s, w)
	e.Effects, e.Actions, e.Events = nil, nil, 0
	return e
}

// TestTravelAnywhere: from every moment of any flow, going back and on again, and going on in a copy, end as the run did.
func TestTravelAnywhere(t *testing.T) {
	kinds := []string{"read", "idem", "write", "world", "flaky", "ask", "allow", "wants", "deny", "human", "model", "pack", "+write", "+ask", "+read", "+agent", "forks agent",
		"each write", "each read", "at once read idem", "each +world ask", "forks write +write idem", "loop write +read", "loop ask", "beside read write"}
	rapid.Check(t, func(rt *rapid.T) {
		flow := append(rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 5).Draw(rt, "flow"), "pack")
		p, w := flowOf(rt, flow), newWorld(-1)
		s, err := play(p, w, rapid.IntRange(0, 30).Draw(rt, "killed at"))
		if err != nil {
			rt.Fatalf("%v: %v", flow, err)
		}
		want := kept(s, w)
		for range 2 { // the second from a run that was rewound before
			all := points(rt, p, w)
			at := all[rapid.IntRange(0, len(all)-1).Draw(rt, "point")]
			if at.Files == replay.FilesLost {
				continue
			}
			state := stateAt(rt, p, w, at)
			back := w.copied()
			r := load(rt, p, "run_1", back)
			epoch := r.State().Epoch
			if err := r.Rewind(rt.Context(), lattice.Rewound{Moment: at.Moment, Pair: at.Pair, State: state, By: "ada"}); err != nil {
				rt.Fatalf("%v: rewind to %+v: %v", flow, at, err)
			}
			if got := r.State().Epoch; got != epoch+1 {
				rt.Errorf("epoch is %d, want %d", got, epoch+1)
			}
			s, err := play(p, back, rapid.IntRange(0, 20).Draw(rt, "killed again at"))
			if err != nil {
				rt.Fatalf("%v: rewound to %+v: %v", flow, at, err)
			}
			if diff := cmp.Diff(want, kept(s, back)); diff != "" {
				rt.Fatalf("%v: rewound to %+v: end (-want +got):\n%s", flow, at, diff)
			}
			replayed(rt, p, back)
			again := points(rt, p, back)
			if i := slices.IndexFunc(again, func(pt replay.Point) bool { return pt.Place() == at.Place() }); i < 0 || again[i].Files == replay.FilesLost {
				rt.Fatalf("%v: rewound to %+v: the moment is gone: %+v", flow, at, again)
			}
			w = back
		}
	})
}

// TestForkAnywhere is the same of copies, whose values can be set.
func TestForkAnywhere(t *testing.T) {
	kinds := []string{"read", "write", "world", "ask", "human", "pack", "+write", "each write", "loop write +read"}
	rapid.Check(t, func(rt *rapid.T) {
		flow := append(rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 4).Draw(rt, "flow"), "pack")
		p, w := flowOf(rt, flow), newWorld(-1)
		s, err := play(p, w)
		if err != nil {
			rt.Fatalf("%v: %v", flow, err)
		}
		want := kept(s, w)
		all := points(rt, p, w)
		at := all[rapid.IntRange(0, len(all)-1).Draw(rt, "point")]
		if at.Files == replay.FilesLost {
			return
		}
		other := w.copied()
		other.log, other.snapshot, other.last, other.dedupe = nil, nil, 0, map[string]bool{}
		if at.Pair != nil {
			other.sprite = spriteFiles{map[string]int{}, map[string]lattice.Outcome{}} // comes by the fork
		}
		r := load(rt, p, "run_2", other)
		fork := lattice.RunForked{RunID: "run_2", WorkItem: "w2", Program: p.Digest, Sprite: "main-2", From: "run_1", Moment: at.Moment, Pair: at.Pair,
			State: stateAt(rt, p, w, at), Ctx: json.RawMessage(`{"own":1}`)}
		mine := map[string]any{"deep": []any{json.Number("7")}}
		set := []lattice.Assignment{{Path: "$vars.mine.deep", Value: json.RawMessage(`[7]`)}}
		loop, _, inside := strings.Cut(at.Path, "[")
		loop, _, _ = strings.Cut(loop, "#") // which visit it is
		if !inside || p.Node(loop).Op != ir.OpMap {
			fork.Set = set
		} else {
			inMap := fork
			inMap.Set = set
			if _, _, err := engine.Step(p, runstate.New("run_2"), inMap); !errors.Is(err, engine.ErrAnswer) {
				rt.Errorf("%v: a variable that the items of a MAP may use is set: %v", flow, err)
			}
			mine = nil
		}
		if at.Files == replay.FilesUnchanged {
			fork.Pair = &lattice.Pair{Sprite: "main-1", CheckpointID: other.checkpoint("main-1").CheckpointID}
		}
		if err := r.BeginFork(rt.Context(), fork); err != nil {
			rt.Fatalf("%v: fork at %+v: %v", flow, at, err)
		}
		s, err = playAs(p, "run_2", other, rapid.IntRange(0, 20).Draw(rt, "killed at"))
		if err != nil {
			rt.Fatalf("%v: forked at %+v: %v", flow, at, err)
		}
		got := kept(s, other)
		if set, _ := s.Vars["mine"].(map[string]any); cmp.Diff(mine, set) != "" {
			rt.Errorf("$vars.mine = %v", set)
		}
		got.Vars, got.Output = maps.Clone(got.Vars), nil
		delete(got.Vars, "mine")
		plain := want
		plain.Output = nil
		if diff := cmp.Diff(plain, got); diff != "" {
			rt.Fatalf("%v: forked at %+v: end (-want +got):\n%s", flow, at, diff)
		}
		if s.Ctx["own"] == nil || s.Sprite != "main-2" || s.RunID != "run_2" || s.WorkItem != "w2" {
			rt.Errorf("the fork is %s in %s for %s with $ctx %v", s.RunID, s.Sprite, s.WorkItem, s.Ctx)
		}
	})
}

// TestForkRefuses what could not have been.
func TestForkRefuses(t *testing.T) {
	p, w := flowOf(t, []string{"write", "pack"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	at := points(t, p, w)[1]
	good := lattice.RunForked{RunID: "run_2", Program: p.Digest, Sprite: "main-2", From: "run_1", Moment: at.Moment, State: stateAt(t, p, w, at)}
	for name, spoil := range map[string]func(f *lattice.RunForked){
		"another program": func(f *lattice.RunForked) { f.Program = "sha256:other" },
		"an unknown node": func(f *lattice.RunForked) { f.Moment.Node = "nowhere" },
		"no state":        func(f *lattice.RunForked) { f.State = nil },
		"an ended run":    func(f *lattice.RunForked) { f.State = w.snapshot },
		"a read-only path": func(f *lattice.RunForked) {
			f.Set = []lattice.Assignment{{Path: "$ctx.x", Value: json.RawMessage(`1`)}}
		},
		"no path":  func(f *lattice.RunForked) { f.Set = []lattice.Assignment{{Path: "x", Value: json.RawMessage(`1`)}} },
		"no value": func(f *lattice.RunForked) { f.Set = []lattice.Assignment{{Path: "$vars.x"}} },
		"through a number": func(f *lattice.RunForked) {
			f.Set = []lattice.Assignment{{Path: "$vars.n0.n.x", Value: json.RawMessage(`1`)}}
		},
		"another run's fact": func(f *lattice.RunForked) { f.RunID = "run_3" },
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			spoil(&f)
			s, _, err := engine.Step(p, runstate.New("run_2"), f)
			if err == nil || s.Status != lattice.Pending {
				t.Errorf("Step = %s, %v; want an error", s.Status, err)
			}
		})
	}
	if _, _, err := engine.Step(p, runstate.New("run_2"), good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestPointsName what people have to know: where the files are, and what would not be undone.
func TestPointsName(t *testing.T) {
	p, w := flowOf(t, []string{"read", "write", "world", "allow", "read"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Node    string
		Files   replay.Files
		Effects int
	}
	var got []row
	for _, pt := range points(t, p, w) {
		got = append(got, row{pt.Node, pt.Files, len(pt.Effects)})
	}
	want := []row{{"n0", replay.FilesAt, 2}, {"n1", replay.FilesAt, 2}, {"n2", replay.FilesAt, 2}, {"n3", replay.FilesAt, 1}, {"n4", replay.FilesUnchanged, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// TestPointsOfACutOffWayBack: going back that was cut off before the files were there has forgotten nothing of what was done
// outside; once the node has begun again, that is known.
func TestPointsOfACutOffWayBack(t *testing.T) {
	p, w := flowOf(t, []string{"write", "world", "allow"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	at := points(t, p, w)[1]
	if err := load(t, p, "run_1", w).Rewind(t.Context(), lattice.Rewound{Moment: at.Moment, Pair: at.Pair, State: stateAt(t, p, w, at)}); err != nil {
		t.Fatal(err)
	}
	if now := points(t, p, w); len(now) != 2 || len(now[1].Effects) != 2 || at.Pair == nil {
		t.Errorf("before the files are there: %+v", now)
	}
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	if now := points(t, p, w); len(now) != 3 || len(now[0].Effects) != 4 || len(now[1].Effects) != 2 {
		t.Errorf("behind it: %+v", now)
	}
}

// TestReplayNames the entry that was changed, whatever about it.
func TestReplayNames(t *testing.T) {
	p, w := flowOf(t, []string{"write", "+ask", "each read", "human", "pack"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	replayed(t, p, w)
	for i, e := range w.facts() {
		for name, spoil := range map[string]func(e *lattice.Entry) bool{
			"result": func(e *lattice.Entry) bool { return mutate(e, "data", map[string]any{"n": 99}) },
			"inputs": func(e *lattice.Entry) bool { return mutate(e, "inputs", map[string]any{"go": false}) },
			"call":   func(e *lattice.Entry) bool { return mutate(e, "call_id", "call_planted") },
			"member": func(e *lattice.Entry) bool { mutate(e, "command_id", "x"); return mutate(e, "by", "mallory") },
			"edge":   func(e *lattice.Entry) bool { e.Started = append(slices.Clone(e.Started), "n3"); return true },
			"digest": func(e *lattice.Entry) bool { e.StateSum = lattice.StateSum([]byte("x")); return true },
			"type":   func(e *lattice.Entry) bool { e.Type = "Nonsense"; return true },
		} {
			facts := w.facts()
			if !spoil(&facts[i]) {
				continue
			}
			got, err := replay.Verify(p, "run_1", []byte("secret"), replay.History{Facts: facts, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq})
			if err != nil {
				t.Fatal(err)
			}
			if got.Diverged == nil || got.Diverged.Seq != e.Seq {
				t.Errorf("%s of entry %d (%s) changed: %+v", name, e.Seq, e.Type, got.Diverged)
			}
		}
		if twice, err := replay.Verify(p, "run_1", nil, replay.History{Facts: slices.Insert(w.facts(), i, e), Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || twice.Diverged == nil || twice.Diverged.Seq != e.Seq {
			t.Errorf("entry %d (%s) twice: %+v, %v", e.Seq, e.Type, twice.Diverged, err)
		}
		gone := slices.Delete(w.facts(), i, i+1)
		if got, err := replay.Verify(p, "run_1", nil, replay.History{Facts: gone, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || got.Diverged == nil {
			t.Errorf("entry %d (%s) removed: %+v, %v", e.Seq, e.Type, got.Diverged, err)
		}
	}
	if got, err := replay.Verify(p, "run_1", nil, replay.History{Facts: w.facts(), Snapshot: []byte(`{"run_id":"run_1"}`), SnapshotSeq: w.snapshotSeq}); err != nil || got.Diverged == nil || got.Diverged.What != "snapshot" {
		t.Errorf("another snapshot: %+v, %v", got.Diverged, err)
	}
	if _, err := replay.Verify(flowOf(t, []string{"read"}), "run_1", nil, replay.History{Facts: w.facts()}); err != nil {
		t.Error(err)
	}
}

// TestReplayNamesWhatTheStateForgets: a result that no later node reads, and what a way back has left behind.
func TestReplayNamesWhatTheStateForgets(t *testing.T) {
	p, w := flowOf(t, []string{"read", "write", "pack"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	at := points(t, p, w)[0]
	if err := load(t, p, "run_1", w).Rewind(t.Context(), lattice.Rewound{Moment: at.Moment, Pair: at.Pair, State: stateAt(t, p, w, at)}); err != nil {
		t.Fatal(err)
	}
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	replayed(t, p, w)
	for i, e := range w.facts() {
		gone := slices.Delete(w.facts(), i, i+1)
		if got, err := replay.Verify(p, "run_1", nil, replay.History{Facts: gone, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || got.Diverged == nil {
			t.Errorf("entry %d (%s) removed: %+v, %v", e.Seq, e.Type, got.Diverged, err)
		}
		unread := w.facts()
		if mutate(&unread[i], "exit", 7) {
			if got, err := replay.Verify(p, "run_1", nil, replay.History{Facts: unread, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || got.Diverged == nil || got.Diverged.Seq != e.Seq {
				t.Errorf("exit code of entry %d (%s) changed: %+v, %v", e.Seq, e.Type, got.Diverged, err)
			}
		}
		other := w.facts()
		other[i].Run = "run_2"
		if got, err := replay.Verify(p, "run_1", nil, replay.History{Facts: other, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || got.Diverged == nil || got.Diverged.Seq != e.Seq {
			t.Errorf("entry %d (%s) of another run: %+v, %v", e.Seq, e.Type, got.Diverged, err)
		}
	}
}

// mutate changes a member that the fact has.
func mutate(e *lattice.Entry, member string, value any) bool {
	var body map[string]json.RawMessage
	if json.Unmarshal(e.Body, &body) != nil || len(body[member]) == 0 {
		return false
	}
	raw, _ := json.Marshal(value)
	if string(raw) == string(body[member]) {
		return false
	}
	body[member] = raw
	e.Body, _ = json.Marshal(body)
	return true
}

func replayed(t tester, p *ir.Program, w *world) {
	t.Helper()
	got, err := replay.Verify(p, "run_1", []byte("secret"), replay.History{Facts: w.facts(), Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq})
	if err != nil || got.Diverged != nil {
		t.Fatalf("replay: %+v, %v", got.Diverged, err)
	}
	if got.StateSum != lattice.StateSum(w.snapshot) {
		t.Fatalf("replay ends at %s, the snapshot is %s", got.StateSum, lattice.StateSum(w.snapshot))
	}
}

func load(t tester, p *ir.Program, run string, w *world) *driver.Runner {
	t.Helper()
	r, err := driver.Load(w.deps(), p, run, []byte("secret"), replay.History{Facts: w.facts(), Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq, Last: w.last})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReplayNamesPlaces: entries that are missing, too many or elsewhere are named as that, beside what was recorded and,
// but for those that are missing, by the links between entries alone.
func TestReplayNamesPlaces(t *testing.T) {
	p, w := flowOf(t, []string{"write", "+ask", "each read", "human", "pack"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	recorded := w.facts()
	if d := replay.Differs(recorded, w.facts()); d != nil {
		t.Fatalf("the same journal differs: %+v", d)
	}
	for i, e := range recorded {
		journals := map[string][]lattice.Entry{"missing": slices.Delete(w.facts(), i, i+1), "extra": slices.Insert(w.facts(), i, e)}
		if i+1 < len(recorded) {
			swapped := w.facts()
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			journals["order"] = swapped
		}
		for what, journal := range journals {
			if d := replay.Differs(recorded, journal); d == nil || d.What != what {
				t.Errorf("entry %d (%s) %s: Differs = %+v", e.Seq, e.Type, what, d)
			}
			told, err := replay.Verify(p, "run_1", []byte("secret"), replay.History{Facts: journal, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq})
			if err != nil || told.Diverged == nil || what != "missing" && told.Diverged.What != what {
				t.Errorf("entry %d (%s) %s: Replay = %+v, %v", e.Seq, e.Type, what, told.Diverged, err)
			}
		}
	}
	cut := w.facts()[:3]
	if d := replay.Differs(recorded, cut); d == nil || d.What != "missing" || d.Seq != recorded[3].Seq {
		t.Errorf("cut journal: %+v", d)
	}
}
