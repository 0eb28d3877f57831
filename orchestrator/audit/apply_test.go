package audit_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
)

type entries []audit.Entry

func (all entries) AuditEntries(_ context.Context, subject string, after uint64, yield func(audit.Entry) error) error {
	for _, e := range all {
		if e.Subject == subject && e.Seq > after {
			if err := yield(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Concurrent callers apply each entry of the subject once and in order, also those that were appended later.
func TestApplyNew(t *testing.T) {
	t.Parallel()
	var log entries
	var mu sync.Mutex
	var last uint64
	var got, want []int
	for round := range 3 {
		for i := range 50 {
			n := round*50 + i
			subject := []string{"ours", "another"}[n%2]
			body, _ := json.Marshal(n)
			log = append(log, audit.Entry{Seq: uint64(n + 1), Subject: subject, Body: body})
			if subject == "ours" {
				want = append(want, n)
			}
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := audit.ApplyNew(t.Context(), log, "ours", &mu, &last, func(_ audit.Entry, n int) { got = append(got, n) }); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if !slices.Equal(got, want) || last != log[len(log)-2].Seq {
			t.Fatalf("round %d: applied %v up to %d, want %v", round, got, last, want)
		}
	}
	log = append(log, audit.Entry{Seq: 200, Subject: "ours", Body: json.RawMessage(`"text"`)})
	err := audit.ApplyNew(t.Context(), log, "ours", &mu, &last, func(audit.Entry, int) { t.Error("a fact of another type was applied") })
	if err == nil || !strings.Contains(err.Error(), "read ours: audit entry 200") || last == 200 {
		t.Errorf("a fact of another type: %v, last %d", err, last)
	}
}
