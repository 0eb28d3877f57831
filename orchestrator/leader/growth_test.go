package leader

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/store"
)

// TestLooksCostTheSame holds that the lists and looks of a leader do the same work among 100 runs and among 2,000: it
// counts allocations, of which each record that is read makes some.
func TestLooksCostTheSame(t *testing.T) {
	home := home.Home(t.TempDir())
	run := runWithActions(t, home)
	l := openLeader(t, home, nil, nil)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	made := 0
	grow := func(to int) {
		t.Helper()
		var group sync.WaitGroup
		for ; made < to; made++ {
			id := fmt.Sprintf("run_%05d", made)
			group.Go(func() {
				r := store.RunRecord{ID: id, Created: time.Now(), Secret: make([]byte, 32), Program: []byte(packs), Sprite: id, WorkItem: id, Options: []byte(`{}`)}
				if err := l.store.Create(t.Context(), r); err != nil {
					t.Error(err)
				}
				noted := lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "ActionNoted", Body: []byte(`{"action":{"key":"k"},"verdict":"ask"}`)}
				decided := lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "ActionDecided", Body: []byte(`{"key":"k","decision":"reject"}`)}
				over := lattice.Entry{Run: id, Kind: lattice.EntryState, Type: "State", Body: []byte(`{"status":"succeeded"}`), Flags: []string{lattice.FlagEnded}}
				if _, err := l.store.Append(t.Context(), id, 0, []lattice.Entry{noted, decided, over}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	rec, err := l.Records.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	looks := map[string]func() error{
		"waiting":            func() error { _, err := l.Actions(t.Context(), "*"); return err },
		"events --work-item": func() error { _, err := l.Runs(t.Context(), api.RunList{WorkItem: rec.WorkItem}); return err },
		"open runs":          func() error { _, err := l.Runs(t.Context(), api.RunList{Open: true}); return err },
		"doctor":             func() error { l.Hello(); _, err := l.Runs(t.Context(), api.RunList{Limit: 1}); return err },
		"spare checkpoints":  func() error { _, err := l.Views.States.EncodeUsers("dev"); return err },
		"sprite free":        func() error { return l.Views.States.CheckSpriteFree(run, "dev") },
		"rewind": func() error {
			p := history.Past{Run: rec, Facts: []lattice.Entry{{Seq: 1}}, Points: []replay.Point{{Moment: lattice.Moment{Seq: 1}, Files: replay.FilesUnchanged}}}
			p.Sprite = "dev"
			return l.Views.States.MarkShared(p)
		},
	}
	costs := map[string]float64{}
	grow(100)
	for name, look := range looks {
		costs[name] = testing.AllocsPerRun(5, func() {
			if err := look(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	grow(2_000)
	for name, look := range looks {
		if many := testing.AllocsPerRun(5, func() { _ = look() }); many > costs[name]*1.2+10 {
			t.Errorf("%s makes %.0f allocations among 100 runs, %.0f among %d", name, costs[name], many, made)
		}
	}
}
