package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/enginetest"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgrestest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A flow has the same journal in a file and in a database, entry by entry, without sequence numbers and times. The comparison finds a
// driver that exchanges two facts, wherever they are. The test of orchestrator/temporal compares a third driver in the same way.
func TestSameJournalWithEachDriver(t *testing.T) {
	drive := func(ctx context.Context, r *driver.Runner) (driver.Stop, error) { return r.Run(ctx) }
	for name, flow := range enginetest.Flows() {
		t.Run(name, func(t *testing.T) {
			file := enginetest.RunToEnd(t, filepath.Join(t.TempDir(), "store.db"), flow, nil, drive)
			want := enginetest.ReadJournal(t, file)
			facts := len(enginetest.FindFacts(want))
			if facts < 4 {
				t.Fatalf("%d facts say little", facts)
			}
			for at := range facts - 1 {
				if cmp.Equal(want, enginetest.ReadJournal(t, enginetest.Reordering{Reader: file, At: at})) {
					t.Errorf("facts %d and %d are exchanged, and the journals are compared as equal", at, at+1)
				}
			}
			t.Logf("%d entries, %d facts", len(want), facts)
			database := enginetest.RunToEnd(t, postgrestest.NewURL(t), flow, nil, drive)
			if diff := cmp.Diff(want, enginetest.ReadJournal(t, database)); diff != "" {
				t.Errorf("the journal in PostgreSQL differs from that in a file (-file +PostgreSQL):\n%s", diff)
			}
		})
	}
}
