package store_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

func idsOf(runs []store.RunRecord) (ids []string) {
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestListsOfRuns(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	create(t, s, "run_c", "run_a", "run_b") // ids are drawn, and say nothing about age
	want := func(what string, got []store.RunRecord, err error, ids ...string) {
		t.Helper()
		if err != nil || !slices.Equal(idsOf(got), ids) {
			t.Errorf("%s = %v, %v, want %v", what, idsOf(got), err, ids)
		}
	}
	all, err := s.Recent("", 0)
	want("Recent", all, err, "run_b", "run_a", "run_c")
	page, err := s.Recent("run_b", 1)
	want("Recent behind run_b", page, err, "run_a")
	page, err = s.Recent("run_c", 1)
	want("Recent behind the oldest", page, err)
	if _, err := s.Recent("run_x", 1); err == nil {
		t.Error("Recent goes on behind a run that is not there")
	}
	over := state("run_a", `{"status":"succeeded"}`)
	over.Flags = []string{lattice.FlagEnded}
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`), over}); err != nil {
		t.Fatal(err)
	}
	unended, err := s.Open()
	want("Open", unended, err, "run_b", "run_c")
	if _, err := s.Append(t.Context(), "run_a", 1, []lattice.Entry{fact("run_a", `{}`), state("run_a", `{"status":"running"}`)}); err != nil {
		t.Fatal(err)
	}
	unended, err = s.Open()
	want("Open behind a rewind", unended, err, "run_b", "run_a", "run_c")
	if last, err := s.Last(); err != nil || last.ID != "run_b" || len(last.Program) == 0 {
		t.Errorf("Last = %+v, %v", last, err)
	}
}

// TestListsOfFormerStores holds that a store without indexes is listed as it is, and gets them when it is opened for
// writing.
func TestListsOfFormerStores(t *testing.T) {
	f, err := os.Open("testdata/schema1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(s *store.Store) {
		t.Helper()
		sound(t, s)
		recent, err := s.Recent("", 1)
		unended, failed := s.Open()
		if err != nil || failed != nil || !slices.Equal(idsOf(recent), []string{"run_b"}) || len(unended) != 2 {
			t.Errorf("Recent = %v, %v; Open = %v, %v", idsOf(recent), err, idsOf(unended), failed)
		}
	}
	s, err := store.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	look(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look(open(t, path))
}

// TestListsCostTheSame holds that the newest runs, the open ones and a single one are found with the same work among 100
// runs and among 1,000.
func TestListsCostTheSame(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	made := 0
	grow := func(to int) {
		for ; made < to; made++ {
			id := fmt.Sprintf("run_%05d", (made*7919)%100_003)
			run := store.RunRecord{ID: id, Created: time.Unix(int64(made), 0), Secret: secret, Program: []byte(`{}`)}
			over := state(id, `{"status":"succeeded"}`)
			over.Flags = []string{lattice.FlagEnded}
			if err := s.Create(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			if made < 3 {
				continue
			}
			if _, err := s.Append(t.Context(), id, 0, []lattice.Entry{fact(id, `{}`), over}); err != nil {
				t.Fatal(err)
			}
		}
	}
	costs := func() [3]float64 {
		return [3]float64{
			testing.AllocsPerRun(10, func() { _, _ = s.Recent("", 20) }),
			testing.AllocsPerRun(10, func() { _, _ = s.Open() }),
			testing.AllocsPerRun(10, func() { _, _ = s.Last() }),
		}
	}
	grow(100)
	few := costs()
	grow(1_000)
	for i, name := range []string{"Recent", "Open", "Last"} {
		if many := costs()[i]; many > few[i]*1.2+5 {
			t.Errorf("%s makes %.0f allocations among 100 runs, %.0f among %d", name, few[i], many, made)
		}
	}
}
