package store_test

import (
	"slices"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Each entry counts once: not one that the run already has, and not one that was refused. A sprite cannot add types.
func TestCountAppended(t *testing.T) { eachDriver(t, testCountAppended) }

func testCountAppended(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	create(t, s, "run_a")
	invented := event("run_a", "e2")
	invented.Type = "INVENTED_BY_A_SPRITE"
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{event("run_a", "e1"), event("run_a", "e1"), invented, fact("run_a", `{}`), state("run_a", `{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "run_a", 1, []lattice.Entry{fact("run_a", `{}`)}); err == nil {
		t.Fatal("an append after the wrong entry succeeded")
	}
	for range 2 {
		if _, _, err := s.AppendAudit(t.Context(), audit.Entry{Kind: audit.RunStarted, Subject: "run:a", Key: "once"}, store.Any); err != nil {
			t.Fatal(err)
		}
	}
	s.QueueAudit(audit.Entry{Kind: audit.Sprite, Subject: "sprite:a"})
	if _, _, err := s.AppendAudit(t.Context(), audit.Entry{Kind: audit.RunStarted, Subject: "run:b"}, store.Any); err != nil { // takes the queue along
		t.Fatal(err)
	}
	count := func(kind lattice.EntryKind, name string, n uint64) lattice.EntryCount {
		return lattice.EntryCount{EntryClass: lattice.EntryClass{Kind: kind, Type: name}, Count: n}
	}
	want := []lattice.EntryCount{count("audit", "run.started", 2), count("audit", "sprite", 1), count("event", "INFO", 1), count("event", "other", 1), count("fact", "F", 1)}
	if got := s.CountAppended(); !slices.Equal(got, want) {
		t.Errorf("CountAppended() = %v, want %v", got, want)
	}
}
