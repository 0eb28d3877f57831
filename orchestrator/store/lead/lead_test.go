package lead

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// The numbers of the processes that lead a store rise, also after it is opened again, compacted or copied, and it keeps its id.
func TestCount(t *testing.T) {
	for _, driver := range []string{"bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			address := filepath.Join(t.TempDir(), "store.db")
			if driver == "postgres" {
				address = postgrestest.NewURL(t)
			}
			var last Lead
			count := func(s *store.Store) {
				t.Helper()
				l, err := Count(t.Context(), s)
				if err != nil || l.Store == "" || last.Store != "" && (l.Store != last.Store || l.Former != last.Former) || l.Number != last.Number+1 {
					t.Fatalf("Count = %+v, %v after %+v", l, err, last)
				}
				last = l
			}
			s := open(t, address)
			count(s)
			count(s)
			if err := RenewIdentity(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			l, err := Count(t.Context(), s)
			if err != nil || l.Former != last.Store || l.Store == last.Store || l.Number != last.Number+1 {
				t.Fatalf("Count = %+v, %v with another id after %+v", l, err, last)
			}
			last = l
			if _, _, err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			count(s)
			other := open(t, filepath.Join(t.TempDir(), "copy.db"))
			if err := other.Import(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
			count(other)
			if problems, err := other.Check(t.Context(), nil); err != nil || len(problems) > 0 {
				t.Errorf("Check of the copy = %v, %v", problems, err)
			}
			if driver == "bolt" {
				address = filepath.Join(t.TempDir(), "again.db")
				if err := s.CopyTo(address); err != nil {
					t.Fatal(err)
				}
				last.Number-- // the copy counted on its own
				count(open(t, address))
			}
			if l, err := Count(t.Context(), open(t, filepath.Join(t.TempDir(), "other.db"))); err != nil || l.Store == last.Store {
				t.Errorf("Count of another store = %+v, %v", l, err)
			}
		})
	}
}

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgrestest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
