package leader_test

import (
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestAlone: of runs that start at the same moment and want to be alone, one starts. Its name is free again when it has ended.
func TestAlone(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	request := api.RunRequest{Flow: []byte(ask), Alone: true, Options: api.Options{WorkItem: "parser"}}
	var runs [8]api.RunView
	var errs [8]error
	var group sync.WaitGroup
	for i := range runs {
		group.Go(func() { runs[i], errs[i] = l.Start(t.Context(), request) })
	}
	group.Wait()
	started := ""
	for i, err := range errs {
		switch {
		case err == nil && started == "":
			started = runs[i].RunID
		case err == nil:
			t.Errorf("%s and %s both started", started, runs[i].RunID)
		case fault.As(err).Code != "loop_exists":
			t.Errorf("Start = %v, want loop_exists", err)
		}
	}
	if started == "" {
		t.Fatal("none started")
	}
	watch(t, l, started, "")
	if _, err := l.Start(t.Context(), request); err == nil {
		t.Error("another run started next to one that waits")
	}
	other := request
	other.WorkItem = "printer"
	if _, err := l.Start(t.Context(), other); err != nil {
		t.Errorf("a run with another name: %v", err)
	}
	if _, err := l.Cancel(t.Context(), started, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Start(t.Context(), request); err != nil {
		t.Errorf("the name of an ended run: %v", err)
	}
}
