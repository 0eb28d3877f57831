package store

import (
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
)

// TestLastAudits reads the entries of one subject of three, backwards.
func TestLastAudits(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, err := s.LastAudits("b", 0, 10); err != nil || len(all) != 0 {
		t.Errorf("an empty log has %v, %v", all, err)
	}
	for i := range 12 { // those of b have the numbers 2, 5, 8 and 11
		e := audit.Entry{Kind: audit.Delivery, Subject: string(rune('a' + i%3)), Body: []byte("{}")}
		if _, _, err := s.AppendAudit(t.Context(), e, Any); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		subject string
		after   uint64
		limit   int
		first   uint64
		count   int
	}{{"b", 0, 10, 11, 4}, {"b", 0, 2, 11, 2}, {"b", 2, 10, 11, 3}, {"b", 10, 10, 11, 1}, {"b", 11, 10, 0, 0}, {"a", 0, 10, 10, 4}, {"c", 0, 10, 12, 4}, {"d", 0, 10, 0, 0}, {"b", 0, 0, 0, 0}} {
		all, err := s.LastAudits(c.subject, c.after, c.limit)
		if err != nil || len(all) != c.count || c.count > 0 && all[0].Seq != c.first {
			t.Errorf("%+v: %v, %v", c, all, err)
		}
		for i, e := range all {
			if want := c.first - uint64(3*i); e.Seq != want || e.Subject != c.subject {
				t.Errorf("%+v: entry %d is %d of %s", c, i, e.Seq, e.Subject)
			}
		}
	}
}
