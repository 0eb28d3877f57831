package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

func auditEntry(subject, key string) audit.Entry {
	return audit.Entry{At: time.Unix(1, 0), Kind: audit.ActionPerformed, Subject: subject, Key: key, Body: json.RawMessage(`{"of":"` + key + `"}`)}
}

func listAudit(t *testing.T, s *store.Store, subject string) (out []string) {
	t.Helper()
	if err := s.Audit(subject, 0, func(e audit.Entry) error { out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Key)); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAudit(t *testing.T) { eachDriver(t, testAudit) }

func testAudit(t *testing.T, at func(t testing.TB) string) {
	path := at(t)
	s := open(t, path)
	for _, tt := range []struct {
		subject, key string
		after        uint64
		added        bool
		err          error
	}{
		{"run:a", "1", 0, true, nil}, {"run:a", "2", 0, false, lattice.ErrConflict}, {"run:a", "2", 1, true, nil}, {"run:a", "2", 0, false, nil},
		{"run:b", "3", 0, true, nil}, {"run:b", "4", store.Any, true, nil}, {"run:a", "", 2, true, nil},
	} {
		_, added, err := s.AppendAudit(t.Context(), auditEntry(tt.subject, tt.key), tt.after)
		if added != tt.added || !errors.Is(err, tt.err) {
			t.Errorf("append %v: %v, %v", tt, added, err)
		}
	}
	if got := fmt.Sprint(listAudit(t, s, "run:a"), listAudit(t, s, "run:c"), len(listAudit(t, s, ""))); got != "[1 1 2 2 5 ] [] 5" {
		t.Error(got)
	}
	if _, _, err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if problems, err := s.Check(t.Context(), nil); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
}

// Of many that append with one key, or after one position, exactly one succeeds.
func TestAuditAtOnce(t *testing.T) { eachDriver(t, testAuditAtOnce) }

func testAuditAtOnce(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	var wins [2]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			e := auditEntry("run:a", "same")
			if n%2 == 1 {
				e = auditEntry("run:b", fmt.Sprint(n))
			}
			_, added, err := s.AppendAudit(t.Context(), e, 0)
			if err != nil && !errors.Is(err, lattice.ErrConflict) {
				t.Error(err)
			}
			if added {
				mu.Lock()
				wins[n%2]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wins != [2]int{1, 1} {
		t.Errorf("added %v, want one of each", wins)
	}
}

// An attacker who can write the file changes one byte of each entry in turn and repairs its checksum: Check names the entry.
func TestAuditTampering(t *testing.T) {
	for n := uint64(1); n <= 3; n++ {
		path := filepath.Join(t.TempDir(), "store.db")
		s, err := store.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"one", "two", "six"} {
			if _, _, err := s.AppendAudit(t.Context(), auditEntry("run:a", key), store.Any); err != nil {
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
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, key := tx.Bucket([]byte("audit")), binary.BigEndian.AppendUint64(nil, n)
			v := bytes.Clone(b.Get(key))
			i := bytes.Index(v, []byte(`{"of":"`)) + 7
			v[i] ^= 0x20
			sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
			sum.Write([]byte("audit"))
			sum.Write(key)
			sum.Write(v[5:])
			binary.BigEndian.PutUint32(v[1:], sum.Sum32())
			return b.Put(key, v)
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = store.OpenReadOnly(path); err != nil {
			t.Fatal(err)
		}
		problems, err := s.Check(t.Context(), nil)
		err = errors.Join(err, s.Close())
		if want := fmt.Sprintf("audit entry %d was changed", n); err != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("Check = %v, %v; want %q", problems, err, want)
		}
	}
}

// TestAuditIndexTampering gives each key of the index of the audit log another name: Check finds the entry that it led to.
func TestAuditIndexTampering(t *testing.T) {
	for n := range 4 {
		path := filepath.Join(t.TempDir(), "store.db")
		s, err := store.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"one", "two"} {
			if _, _, err := s.AppendAudit(t.Context(), auditEntry("run:"+key, key), store.Any); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, path, func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("auditindex")).Cursor()
			k, v := c.First()
			for range n {
				k, v = c.Next()
			}
			other, v := bytes.Clone(k), bytes.Clone(v)
			other[16] ^= 1
			return errors.Join(c.Delete(), tx.Bucket([]byte("auditindex")).Put(other, v))
		})
		if s, err = store.OpenReadOnly(path); err != nil {
			t.Fatal(err)
		}
		problems, err := s.Check(t.Context(), nil)
		err = errors.Join(err, s.Close())
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "is not found by its") {
			t.Errorf("key %d of the index: Check = %v, %v; want one entry that is not found", n, problems, err)
		}
	}
}
