package store_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/store"
)

func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 5).UTC()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			name := []string{"audit", "aud", "audits"}[i%3]
			if _, err := s.AppendRecords(t.Context(), name, at, json.RawMessage(fmt.Sprintf(`{"n":"<%d>"}`, i)), json.RawMessage(` "second" `)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, err := s.AppendRecords(t.Context(), "No/name", at); err == nil {
		t.Error("a ledger has the name No/name")
	}
	for _, again := range []bool{false, true} {
		if again {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = store.Open(path); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string]int{"audit": 34, "aud": 34, "audits": 32, "none": 0} {
			all, err := s.Records(name, 0, 0)
			if err != nil || len(all) != want {
				t.Fatalf("%s: %d records, %v, want %d", name, len(all), err, want)
			}
			for i, r := range all {
				if r.Seq != uint64(i+1) || !r.At.Equal(at) || i%2 == 1 && string(r.Body) != `"second"` {
					t.Errorf("%s: record %d = %+v", name, i, r)
				}
			}
			if page, err := s.Records(name, 5, 3); want > 8 && (err != nil || len(page) != 3 || page[0].Seq != 6) {
				t.Errorf("%s: page %v, %v", name, page, err)
			}
		}
		if problems, err := s.Check(t.Context(), nil); err != nil || len(problems) > 0 {
			t.Errorf("Check = %v, %v", problems, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A record that somebody with access to the file changes, removes or inserts with a valid seal breaks the chain.
func TestLedgerTampering(t *testing.T) {
	for name, tamper := range map[string]func(b *bbolt.Bucket, keys [][]byte) error{
		"copied over another": func(b *bbolt.Bucket, keys [][]byte) error { return b.Put(keys[3], b.Get(keys[2])) },
		"removed":             func(b *bbolt.Bucket, keys [][]byte) error { return b.Delete(keys[3]) },
		"foreign key":         func(b *bbolt.Bucket, _ [][]byte) error { return b.Put([]byte("x"), []byte("y")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			s, err := store.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				if _, err := s.AppendRecords(t.Context(), "audit", time.Unix(int64(i), 0), json.RawMessage(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("ledger"))
				var keys [][]byte
				if err := b.ForEach(func(k, _ []byte) error { keys = append(keys, k); return nil }); err != nil {
					return err
				}
				return tamper(b, keys)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = store.Open(path); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			problems, err := s.Check(t.Context(), nil)
			if err != nil || len(problems) == 0 || problems[0].Code != "ledger" {
				t.Errorf("Check = %v, %v, want a problem of the ledger", problems, err)
			}
			if name == "copied over another" && !strings.Contains(problems[0].Message, "record 4 of audit") {
				t.Errorf("Check names %q, want record 4", problems[0].Message)
			}
		})
	}
}
