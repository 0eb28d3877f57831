package leader_test

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/store"
)

const readMany = `{"execir_version":"1.0","id":"many","tools":["fs.list"],"entry_node":"m","nodes":[{"id":"m","op":"LOOP","max_iterations":2000,
	"until":{"op":"eq","left":"$index","right":1999},"body":{"entry_node":"n","nodes":[{"id":"n","op":"TOOL_CALL","tool":"fs.list","args":{"path":"."}}]}}],
	"limits":{"max_steps":9000},"edges":[]}`

// TestStandingOfAnInterruptedRun holds that a run which was cut off between two snapshots is shown where its facts have led
// it, by whoever looks.
func TestStandingOfAnInterruptedRun(t *testing.T) {
	home := home.Home(t.TempDir())
	l, end := lead(t, home)
	id := start(t, l, readMany, "")
	for calls := 0; calls < 30; {
		calls = 0
		if err := l.Entries(t.Context(), id, 0, func(e lattice.Entry) error {
			if e.Type == (lattice.CallFinished{}).FactType() {
				calls++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := l.Stop(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	end()
	s, err := store.OpenReadOnly(home.Store())
	if err != nil {
		t.Fatal(err)
	}
	snapshot, _, err := s.State(id)
	if err != nil {
		t.Fatal(err)
	}
	if behind, err := s.FactBehind(id, snapshot.Seq); err != nil || !behind {
		t.Errorf("FactBehind = %v, %v; the test wants facts behind the snapshot", behind, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	views, err := leader.Peek(home.Store(), 0)
	if err != nil || len(views) != 1 {
		t.Fatalf("Peek = %+v, %v", views, err)
	}
	if got := views[0]; got.Steps != want.Steps || got.LastSeq != want.LastSeq || got.Node != want.Node || !got.UpdatedAt.Equal(want.UpdatedAt) {
		t.Errorf("Peek tells step %d, entry %d, %s; want %d, %d, %s", got.Steps, got.LastSeq, got.UpdatedAt, want.Steps, want.LastSeq, want.UpdatedAt)
	}
	l, _ = lead(t, home)
	if v, err := l.Cancel(t.Context(), id, "p"); err != nil || v.Status != lattice.Canceled {
		t.Errorf("Cancel = %+v, %v", v, err)
	}
}
