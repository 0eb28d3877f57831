package store_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

func listArtifacts(t *testing.T, s *store.Store, run string) (out []string) {
	t.Helper()
	for e, err := range s.Artifacts(run) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Run+string(e.Body))
	}
	return out
}

// The registries list artifacts and intents, also of a file that was written before there were registries.
func TestRegistries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "run_b", "run_a")
	after := map[string]lattice.Seq{}
	for i := range 600 {
		run := []string{"run_b", "run_a"}[i%2]
		e := lattice.Entry{Run: run, At: time.Unix(1, 0), Kind: lattice.EntryEvent, Type: "ARTIFACT", Body: json.RawMessage(fmt.Sprint(i))}
		if i%3 == 0 {
			e.Type = "INFO"
		}
		seq, err := s.Append(t.Context(), run, after[run], []lattice.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		after[run] = seq
	}
	for i := range 4 {
		for _, e := range []audit.Entry{auditEntry("x", ""), {At: time.Unix(1, 0), Kind: audit.Intent, Subject: "y", Key: fmt.Sprintf("intent:int_%d%d", i%2, i), Body: json.RawMessage(`{}`)}} {
			if _, _, err := s.AppendAudit(t.Context(), e, store.Any); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(s *store.Store) {
		t.Helper()
		all, b := listArtifacts(t, s, ""), listArtifacts(t, s, "run_b")
		if len(all) != 400 || !slices.Equal(all[:2], []string{"run_a599", "run_a595"}) || all[399] != "run_b2" {
			t.Errorf("%d artifacts, %v …", len(all), all[:2])
		}
		if len(b) != 200 || !slices.Equal(b, all[200:]) {
			t.Errorf("%d artifacts of run_b", len(b))
		}
		for range s.Artifacts("run_none") {
			break // it reports that there is none
		}
		ids, err := s.Intents("", 3)
		if err != nil || !slices.Equal(ids, []string{"int_13", "int_02", "int_11"}) {
			t.Errorf("Intents = %v, %v", ids, err)
		}
		for prefix, want := range map[string][]string{"int_0": {"int_00", "int_02"}, "int_11": {"int_11"}, "int_2": nil} {
			if ids, err := s.FindIntents(prefix); err != nil || !slices.Equal(ids, want) {
				t.Errorf("FindIntents %s = %v, %v, want %v", prefix, ids, err, want)
			}
		}
	}
	look(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"artifacts", "intents"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	look(s)
	if problems, err := s.Check(t.Context(), nil); err != nil || len(problems) > 0 {
		t.Errorf("Check = %+v, %v", problems, err)
	}
}

// Listing the newest intents, or finding one by a prefix of its id, reads the same number of entries whether there are a thousand
// intents or a hundred thousand.
func TestIntentsOfAHundredThousand(t *testing.T) {
	measure := func(n int) (list, find float64) {
		path := filepath.Join(t.TempDir(), "store.db")
		s, err := store.Open(path)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		id := func(i int) []byte { return fmt.Appendf(nil, "int_%08x", i) }
		for first := 0; first < n; first += 1000 { // one large transaction would take much longer
			if err := db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("intents"))
				for i := first; i < first+1000; i++ {
					seq := binary.BigEndian.AppendUint64(nil, uint64(i+1))
					if err := errors.Join(b.Put(append([]byte{'s'}, seq...), id(i)), b.Put(append([]byte{'i'}, id(i)...), seq)); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = store.Open(path); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		list = testing.AllocsPerRun(10, func() {
			if ids, err := s.Intents("", 50); err != nil || len(ids) != 50 || ids[0] != string(id(n-1)) {
				t.Errorf("Intents = %v, %v", ids, err)
			}
		})
		find = testing.AllocsPerRun(10, func() {
			if ids, err := s.FindIntents("int_00000123"); err != nil || len(ids) != 1 {
				t.Errorf("FindIntents = %v, %v", ids, err)
			}
		})
		return list, find
	}
	list, find := measure(1_000)
	manyList, manyFind := measure(100_000)
	if manyList > 2*list || manyFind > 2*find { // the tree is a level or two deeper
		t.Errorf("of 100,000 intents: %v allocations to list 50 and %v to find one; of 1,000 %v and %v", manyList, manyFind, list, find)
	}
}
