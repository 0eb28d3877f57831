package leader_test

import (
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// TestFormerStore opens a store that a lattice wrote which stored the state with each fact and no checksums. Its run, which
// a person was asked in twice and answered once, is shown, told again and brought to its end.
func TestFormerStore(t *testing.T) {
	home := home.Home(t.TempDir())
	f, err := os.Open("testdata/schema1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home.Store(), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := leader.Peek(home.Store(), 0)
	if err != nil || len(before) != 1 || before[0].Status != lattice.Waiting {
		t.Fatalf("Peek = %+v, %v", before, err)
	}
	l, _ := lead(t, home)
	id := before[0].RunID
	sound := func() {
		t.Helper()
		if report, err := l.CheckStore(t.Context(), nil); err != nil || !report.OK {
			t.Errorf("CheckStore = %+v, %v", report, err)
		}
		if told, err := l.Replay(t.Context(), id, nil); err != nil || !told.OK {
			t.Errorf("Replay = %+v, %v", told.Diverged, err)
		}
	}
	sound()
	if _, err := l.Decide(t.Context(), id, api.DecideRequest{Decision: lattice.Approve, By: "p"}); err != nil {
		t.Fatal(err)
	}
	if v := watch(t, l, id, ""); v.Status != lattice.Succeeded {
		t.Errorf("the run is %s: %+v", v.Status, v.Error)
	}
	sound()
	if _, err := l.CompactStore(t.Context(), nil); err != nil {
		t.Error(err)
	}
	sound()
}
