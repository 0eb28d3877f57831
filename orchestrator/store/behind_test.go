package store

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

func behindEntry(n int) audit.Entry {
	return audit.Entry{At: time.Unix(int64(n), 0), Kind: audit.Sprite, Subject: "sprite:a", Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// writes returns the number of commits that changed the file.
func writes(s *Store) (n int) { return s.db.(*counting).n }

// counting counts the commits of a database.
type counting struct {
	kv.DB
	n int
}

func (c *counting) Update(write func(kv.Tx) error) error {
	err := c.DB.Update(write)
	if err == nil {
		c.n++
	}
	return err
}

func TestEntriesWrittenBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := bolt.Create(path, layOut); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, bolt.Options{Prepare: createBuckets})
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(&counting{DB: db})
	before := writes(s)
	for n := range 3 {
		s.QueueAudit(behindEntry(n))
	}
	if got := writes(s); got != before {
		t.Fatalf("%d commits for entries that are written behind", got-before)
	}
	// An entry that is waited for takes them along, in order and with one commit.
	if _, _, err := s.AppendAudit(t.Context(), audit.Entry{Kind: audit.ActionBegun, Subject: "run:r"}, Any); err != nil {
		t.Fatal(err)
	}
	if got := writes(s); got != before+1 {
		t.Errorf("%d commits, want 1", got-before)
	}
	s.QueueAudit(behindEntry(3))
	if n := listBehind(t, s); n != 5 { // a list of all entries has those that wait
		t.Errorf("%d entries, want 5", n)
	}
	s.QueueAudit(behindEntry(4))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := listBehind(t, s); n != 6 { // as Close has
		t.Errorf("after Close %d entries, want 6", n)
	}
}

// listBehind returns the number of entries. It fails if the chain is broken or entries of sprites are out of order.
func listBehind(t *testing.T, s *Store) (count int) {
	t.Helper()
	prev, last := "", -1
	if err := s.Audit("", 0, func(e audit.Entry) error {
		count++
		if err := e.Verify(uint64(count), prev); err != nil {
			return err
		}
		prev = e.Sum
		var body struct{ N int }
		if e.Kind == audit.Sprite {
			if err := json.Unmarshal(e.Body, &body); err != nil || body.N != last+1 {
				return fmt.Errorf("entry %s after %d: %v", e.Body, last, err)
			}
			last = body.N
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return count
}

func TestEntriesBehindARefusedRequestStay(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.QueueAudit(behindEntry(0))
	if _, _, err := s.AppendAudit(t.Context(), audit.Entry{Kind: audit.ActionBegun, Subject: "run:r"}, 7); err == nil {
		t.Fatal("no conflict")
	}
	if n := listBehind(t, s); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestEntriesBehindAreBounded(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range maxBehind + 5 {
		s.QueueAudit(behindEntry(n))
	}
	missed := ""
	if err := s.Audit("", maxBehind, func(e audit.Entry) error {
		missed += string(e.Body)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if missed != `{"missed":5}` {
		t.Errorf("after the bound: %s", missed)
	}
	s.QueueAudit(behindEntry(0))
	if entries, n := s.behind.peek(); len(entries) != 1 || n != 0 {
		t.Errorf("%d entries wait, %d missed", len(entries), n)
	}
}
