package store_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

func idsOf(runs []store.RunRecord) (ids []string) {
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestListsOfRuns(t *testing.T) { eachDriver(t, testListsOfRuns) }

func testListsOfRuns(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
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
	last, err := s.Recent("", 1)
	want("Recent", last, err, "run_b")
}

// unpackFormer returns the path of a store of schema 1.
func unpackFormer(t *testing.T) string {
	t.Helper()
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
	return path
}

// TestListsOfFormerStores holds that a store without indexes is listed as it is, and gets them when it is opened for
// writing.
func TestListsOfFormerStores(t *testing.T) {
	path := unpackFormer(t)
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

	kept, err := os.ReadFile(path + ".schema1")
	if err != nil {
		t.Fatalf("the store as it was: %v", err)
	}
	former := filepath.Join(t.TempDir(), "former.db")
	if err := os.WriteFile(former, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, former, func(tx *bbolt.Tx) error {
		if got := binary.BigEndian.Uint64(tx.Bucket([]byte("meta")).Get([]byte("schema"))); got != 1 {
			t.Errorf("the copy has schema %d, want 1", got)
		}
		return nil
	})
	look(open(t, former))
}

// TestOpenWithoutRoomForACopy holds that a store stays as it is if it cannot be copied before it is brought up to date.
func TestOpenWithoutRoomForACopy(t *testing.T) {
	path := unpackFormer(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path+".schema1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(path); err == nil || !strings.Contains(err.Error(), "before it is brought up to date") {
		t.Errorf("Open = %v, want an error about the copy", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the store changed, error %v", err)
	}
}

// TestLookups finds the runs of a sprite, of a work item and of a flow, and the runs with open actions, before and after the file loses
// these indexes, as an older lattice writes it.
func TestLookups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"run_c", "run_a", "run_b"} {
		run := store.RunRecord{ID: id, Sprite: []string{"dev", "own", "dev"}[i], WorkItem: []string{"7", "8", "8"}[i], Created: time.Unix(int64(i), 0), Secret: secret, Program: []byte(`{}`),
			Options: []byte([]string{`{"flow_name":"loop"}`, `{}`, `{"flow_name":"loop"}`}[i])}
		if err := s.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	note := func(run string, after lattice.Seq, kind, body string) lattice.Seq {
		t.Helper()
		e := fact(run, body)
		e.Type = kind
		last, err := s.Append(t.Context(), run, after, []lattice.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	at := note("run_c", 0, "ActionNoted", `{"action":{"key":"k1"},"verdict":"ask"}`)
	at = note("run_c", at, "ActionNoted", `{"action":{"key":"k2"},"verdict":"ask"}`)
	note("run_c", at, "ActionDecided", `{"key":"k1","decision":"reject"}`)
	at = note("run_a", 0, "ActionNoted", `{"action":{"key":"k1"},"verdict":"ask"}`)
	at = note("run_a", at, "ActionDecided", `{"key":"k1","decision":"approve"}`)
	done := at
	at = note("run_b", 0, "ActionNoted", `{"action":{"key":"k1"},"verdict":"ask"}`)
	at = note("run_b", at, "ActionDecided", `{"key":"k1","decision":"approve","by_hand":true}`)
	note("run_b", at, "ActionNoted", `{"action":{"key":"k1"},"verdict":"ask"}`) // again, after a loss of power
	look := func(s *store.Store, open ...string) {
		t.Helper()
		sound(t, s)
		for _, c := range []struct {
			what string
			find func() ([]store.RunRecord, error)
			want []string
		}{
			{"OfSprite", func() ([]store.RunRecord, error) { return s.OfSprite("dev") }, []string{"run_b", "run_c"}},
			{"OfWorkItem", func() ([]store.RunRecord, error) { return s.OfWorkItem("8") }, []string{"run_b", "run_a"}},
			{"OfFlow", func() ([]store.RunRecord, error) { return s.OfFlow("loop", "", 0) }, []string{"run_b", "run_c"}},
			{"OfFlow, first page", func() ([]store.RunRecord, error) { return s.OfFlow("loop", "", 1) }, []string{"run_b"}},
			{"OfFlow, second page", func() ([]store.RunRecord, error) { return s.OfFlow("loop", "run_b", 1) }, []string{"run_c"}},
			{"OfFlow behind another one", func() ([]store.RunRecord, error) { return s.OfFlow("loop", "run_a", 1) }, []string{"run_c"}},
			{"OfFlow behind the oldest", func() ([]store.RunRecord, error) { return s.OfFlow("loop", "run_c", 1) }, nil},
			{"OfSprite of none", func() ([]store.RunRecord, error) { return s.OfSprite("") }, nil},
		} {
			if got, err := c.find(); err != nil || !slices.Equal(idsOf(got), c.want) {
				t.Errorf("%s = %v, %v, want %v", c.what, idsOf(got), err, c.want)
			}
		}
		got, err := s.WithOpenActions()
		slices.Sort(got)
		if err != nil || !slices.Equal(got, open) {
			t.Errorf("WithOpenActions = %v, %v, want %v", got, err, open)
		}
		if n, err := s.Count(); err != nil || n != 3 {
			t.Errorf("Count = %d, %v", n, err)
		}
	}
	look(s, "run_a", "run_c") // an approved action is open until its outcome is known
	note("run_a", done, "ActionSettled", `{"key":"k1","ok":true}`)
	look(s, "run_c")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	drop := func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("actions")), tx.DeleteBucket([]byte("lookup")), tx.DeleteBucket([]byte("flows")))
	}
	if err := errors.Join(db.Update(drop), db.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = store.OpenReadOnly(path); err != nil {
		t.Fatal(err)
	}
	look(s, "run_c")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look(open(t, path), "run_c")
}

// TestListsCostTheSame holds that the newest runs, the open ones, those of a sprite, a work item or a flow, those with open actions
// and a single one are found with the same work among 100 runs and among 1,000.
func TestListsCostTheSame(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	made := 0
	grow := func(to int) {
		for ; made < to; made++ {
			id := fmt.Sprintf("run_%05d", (made*7919)%100_003)
			run := store.RunRecord{ID: id, Created: time.Unix(int64(made), 0), Secret: secret, Program: []byte(`{}`), Sprite: "sprite" + id, WorkItem: "item" + id}
			if made < 3 {
				run.Sprite, run.WorkItem, run.Options = "dev", "7", []byte(`{"flow_name":"loop"}`)
			}
			over := state(id, `{"status":"succeeded"}`)
			over.Flags = []string{lattice.FlagEnded}
			if err := s.Create(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			if made < 3 {
				noted := fact(id, `{"action":{"key":"k"},"verdict":"ask"}`)
				noted.Type = "ActionNoted"
				if _, err := s.Append(t.Context(), id, 0, []lattice.Entry{noted}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := s.Append(t.Context(), id, 0, []lattice.Entry{fact(id, `{}`), over}); err != nil {
				t.Fatal(err)
			}
		}
	}
	costs := func() [8]float64 {
		return [8]float64{
			testing.AllocsPerRun(10, func() { _, _ = s.Recent("", 20) }),
			testing.AllocsPerRun(10, func() { _, _ = s.Open() }),
			testing.AllocsPerRun(10, func() { _, _ = s.Find("run_0") }),
			testing.AllocsPerRun(10, func() { _, _ = s.OfSprite("dev") }),
			testing.AllocsPerRun(10, func() { _, _ = s.OfWorkItem("7") }),
			testing.AllocsPerRun(10, func() { _, _ = s.OfFlow("loop", "", 20) }),
			testing.AllocsPerRun(10, func() { _, _ = s.WithOpenActions() }),
			testing.AllocsPerRun(10, func() { _, _ = s.Count() }),
		}
	}
	grow(100)
	few := costs()
	grow(1_000)
	for i, name := range []string{"Recent", "Open", "Last", "OfSprite", "OfWorkItem", "OfFlow", "WithOpenActions", "Count"} {
		if many := costs()[i]; many > few[i]*1.2+5 {
			t.Errorf("%s makes %.0f allocations among 100 runs, %.0f among %d", name, few[i], many, made)
		}
	}
}
