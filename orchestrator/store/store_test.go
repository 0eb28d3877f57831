package store_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// open makes a store whose test ends with an integrity check.
func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sound(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sound(t testing.TB, s *store.Store) {
	t.Helper()
	problems, err := s.Check(context.Background(), nil)
	if err != nil || len(problems) > 0 {
		t.Errorf("Check() = %q, %v", problems, err)
	}
}

func create(t testing.TB, s *store.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		run := store.RunRecord{ID: id, Created: time.Now(), Secret: secret, Program: []byte(`{"execir_version":"1.0"}`)}
		if err := s.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
}

func fact(run, body string) lattice.Entry {
	return lattice.Entry{Run: run, Kind: lattice.EntryFact, Type: "F", Body: json.RawMessage(body)}
}

func event(run, dedupe string) lattice.Entry {
	return lattice.Entry{Run: run, Kind: lattice.EntryEvent, Type: "INFO", Body: json.RawMessage(`{"a":"<&>"}`), Dedupe: dedupe}
}

func state(run, body string) lattice.Entry {
	return lattice.Entry{Run: run, Kind: lattice.EntryState, Type: "State", Body: json.RawMessage(body)}
}

func TestAppend(t *testing.T) { eachDriver(t, testAppend) }

func testAppend(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	create(t, s, "run_a", "run_b")
	ctx := t.Context()

	first := []lattice.Entry{event("run_a", "e1"), fact("run_a", `{"n":1}`), state("run_a", `{"at":1}`)}
	last, err := s.Append(ctx, "run_a", 0, first)
	if err != nil || last != 2 || first[0].Seq != 1 || first[1].Seq != 2 || first[2].Seq != 0 {
		t.Fatalf("Append = %d, %v, sequence %d %d %d", last, err, first[0].Seq, first[1].Seq, first[2].Seq)
	}
	if _, err := s.Append(ctx, "run_b", 0, []lattice.Entry{fact("run_b", `{}`)}); err != nil {
		t.Fatal(err)
	}
	t.Run("somebody else was first", func(t *testing.T) {
		if _, err := s.Append(ctx, "run_a", 1, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, lattice.ErrConflict) {
			t.Errorf("Append after 1 = %v, want ErrConflict", err)
		}
	})
	t.Run("duplicates are left out", func(t *testing.T) {
		again := []lattice.Entry{event("run_a", "e1"), event("run_a", "e2"), event("run_a", "e2"), state("run_a", `{"at":2}`)}
		last, err := s.Append(ctx, "run_a", 2, again)
		if err != nil || last != 4 {
			t.Fatalf("Append = %d, %v, want 4", last, err)
		}
		if again[0].Seq != 0 || again[1].Seq != 4 || again[2].Seq != 0 {
			t.Errorf("sequence %d %d %d, want 0 4 0", again[0].Seq, again[1].Seq, again[2].Seq)
		}
		if last, err := s.Append(ctx, "run_a", 4, []lattice.Entry{event("run_a", "e1")}); err != nil || last != 4 {
			t.Errorf("Append of nothing new = %d, %v, want 4", last, err)
		}
	})
	t.Run("refused as a whole", func(t *testing.T) {
		for name, entries := range map[string][]lattice.Entry{
			"another run":  {fact("run_a", `{}`), fact("run_b", `{}`)},
			"unknown kind": {fact("run_a", `{}`), {Run: "run_a", Kind: "x"}},
			"no JSON":      {fact("run_a", `{}`), fact("run_a", `{`)},
		} {
			if _, err := s.Append(ctx, "run_a", 4, entries); err == nil {
				t.Errorf("%s: Append succeeded", name)
			}
			if entries[0].Seq != 0 {
				t.Errorf("%s: a refused entry has a sequence number", name)
			}
		}
		if _, err := s.Append(ctx, "run_x", 0, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Append to no run = %v, want ErrNotFound", err)
		}
	})
	t.Run("what was read", func(t *testing.T) {
		facts, snapshot, last, err := load(s, "run_a")
		if err != nil || len(facts) != 1 || facts[0].Seq != 2 || string(snapshot) != `{"at":2}` || last != 4 {
			t.Errorf("Load = %v, %s, %d, %v", facts, snapshot, last, err)
		}
		got, err := s.Entries("run_a", 1, 1)
		if err != nil || len(got) != 1 || got[0].Seq != 2 {
			t.Errorf("Entries(run_a, 1, 1) = %v, %v", got, err)
		}
		if got, err := s.Entries("run_a", 0, 0); err != nil || len(got) != 3 || string(got[2].Body) != `{"a":"<&>"}` {
			t.Errorf("Entries(run_a) = %v, %v", got, err)
		}
		if got, err := s.Entries("", 2, 0); err != nil || len(got) != 2 || got[0].Run != "run_b" {
			t.Errorf("Entries(all, 2) = %v, %v", got, err)
		}
		if e, ok, err := s.State("run_a"); err != nil || !ok || e.Seq != 4 {
			t.Errorf("State(run_a) = %v, %v, %v", e, ok, err)
		}
		if _, ok, err := s.State("run_b"); err != nil || ok {
			t.Errorf("State(run_b) = %v, %v, want none", ok, err)
		}
	})
}

func TestRuns(t *testing.T) { eachDriver(t, testRuns) }

func testRuns(t *testing.T, at func(t testing.TB) string) {
	path := at(t)
	s := open(t, path)
	if none, err := s.Recent("", 1); err != nil || len(none) > 0 {
		t.Errorf("Recent of an empty store = %v, %v", none, err)
	}
	create(t, s, "run_aa", "run_ab", "run_b")
	if err := s.Create(t.Context(), store.RunRecord{ID: "run_b", Secret: secret}); !errors.Is(err, store.ErrExists) {
		t.Errorf("second Create = %v, want ErrExists", err)
	}
	if err := s.Create(t.Context(), store.RunRecord{ID: "run_c", Secret: secret[:5]}); err == nil {
		t.Error("Create took a short secret")
	}
	for prefix, want := range map[string]error{"run_b": nil, "run_aa": nil, "run_a": store.ErrAmbiguous, "run_x": store.ErrNotFound, "": store.ErrNotFound} {
		if _, err := s.Run(prefix); !errors.Is(err, want) {
			t.Errorf("Run(%q) = %v, want %v", prefix, err, want)
		}
		if id, err := s.Find(prefix); !errors.Is(err, want) || err == nil && id != prefix {
			t.Errorf("Find(%q) = %q, %v, want %v", prefix, id, err, want)
		}
	}
	run, err := s.Run("run_aa")
	if err != nil || string(run.Program) != `{"execir_version":"1.0"}` || string(run.Secret) != string(secret) {
		t.Errorf("Run(run_aa) = %+v, %v", run, err)
	}
	if raw, err := json.Marshal(run); err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("a marshalled run shows its secret: %s, %v", raw, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	if _, err := store.Open(path); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
	create(t, s, "run_a")

	newer := filepath.Join(t.TempDir(), "newer.db")
	one, err := store.Open(newer)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, newer, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 7))
	})
	_, err = store.Open(newer)
	if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "schema 7") || !strings.Contains(err.Error(), "up to 3") {
		t.Errorf("Open of a newer store = %v, want ErrNewer with have and want", err)
	}

	foreign := filepath.Join(t.TempDir(), "foreign.db")
	edit(t, foreign, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("other")); return err })
	if _, err := store.Open(foreign); err == nil {
		t.Error("Open took a foreign database")
	}
}

func edit(t testing.TB, path string, change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Check finds what does not belong together.
func TestCheckFinds(t *testing.T) {
	key := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for name, damage := range map[string]struct {
		change func(*bbolt.Tx) error
		want   string
	}{
		"a gap":           {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("entries")).Delete(key(2)) }, "gap"},
		"a lost end":      {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("entries")).Delete(key(3)) }, "sequence stands at"},
		"a lost index":    {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("index")) }, "not in the index"},
		"a lost key":      {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("dedupe")) }, "dedupe key is missing"},
		"another head":    {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("heads")).Put([]byte("run_a"), make([]byte, 12)) }, "head says"},
		"a lost run":      {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("runs")).Delete([]byte("run_a")) }, "no record"},
		"a state of none": {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("states")).Put([]byte("x"), []byte(`{}`)) }, "belongs to no run"},
		"a lost state":    {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("states")).Delete([]byte("run_a")) }, "states of 1 runs were written, those of 0 are there"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := store.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			create(t, s, "run_a")
			if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{event("run_a", "x"), fact("run_a", `{}`), fact("run_a", `{}`), state("run_a", `{}`)}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, path, func(tx *bbolt.Tx) error {
				err := damage.change(tx)
				for _, bucket := range []string{"index", "dedupe"} {
					if _, e := tx.CreateBucketIfNotExists([]byte(bucket)); e != nil {
						return e
					}
				}
				return err
			})
			if s, err = store.Open(path); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			problems, err := s.Check(context.Background(), nil)
			if err != nil || !strings.Contains(fmt.Sprint(problems), damage.want) {
				t.Errorf("Check() = %q, %v, want one with %q", problems, err, damage.want)
			}
		})
	}
}

func TestTail(t *testing.T) { eachDriver(t, testTail) }

func testTail(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	create(t, s, "run_a", "run_b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan lattice.Entry)
	ended := make(chan error, 1)
	go func() {
		for e, err := range s.Tail(ctx, "run_a", 1) {
			if err != nil {
				ended <- err
				return
			}
			seen <- e
		}
	}()
	var last lattice.Seq
	for n := range 3 {
		var err error
		if last, err = s.Append(ctx, "run_a", last, []lattice.Entry{fact("run_a", fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if e := <-seen; string(e.Body) != fmt.Sprint(n) {
				t.Errorf("Tail yields %s, want %d", e.Body, n)
			}
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Tail ends with %v, want context.Canceled", err)
	}
}

// Runs side by side share commits and lose nothing.
func TestConcurrentRuns(t *testing.T) { eachDriver(t, testConcurrentRuns) }

func testConcurrentRuns(t *testing.T, at func(t testing.TB) string) {
	for _, runs := range []int{1, 8, 64} {
		t.Run(fmt.Sprint(runs), func(t *testing.T) {
			s := open(t, at(t))
			const steps = 20
			var group sync.WaitGroup
			for n := range runs {
				id := fmt.Sprintf("run_%02d", n)
				create(t, s, id)
				group.Go(func() {
					var last lattice.Seq
					for step := range steps {
						entries := []lattice.Entry{event(id, fmt.Sprint(step/2)), fact(id, fmt.Sprint(step)), state(id, fmt.Sprint(step))}
						var err error
						if last, err = s.Append(t.Context(), id, last, entries); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			for n := range runs {
				facts, snapshot, _, err := load(s, fmt.Sprintf("run_%02d", n))
				var got []string
				for _, e := range facts {
					got = append(got, string(e.Body))
				}
				var want []string
				for step := range steps {
					want = append(want, fmt.Sprint(step))
				}
				if diff := cmp.Diff(want, got); err != nil || diff != "" || string(snapshot) != fmt.Sprint(steps-1) {
					t.Errorf("run %d: %v, snapshot %s, facts (-want +got):\n%s", n, err, snapshot, diff)
				}
			}
		})
	}
}

// Two drivers of one run: exactly one append wins each position.
func TestConflictingDrivers(t *testing.T) { eachDriver(t, testConflictingDrivers) }

func testConflictingDrivers(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	create(t, s, "run_a")
	var won, lost int
	var mu sync.Mutex // guards won and lost
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			_, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, lattice.ErrConflict):
				lost++
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won != 1 || lost != 15 {
		t.Errorf("%d appends won and %d lost, want 1 and 15", won, lost)
	}
}

func TestClose(t *testing.T) { eachDriver(t, testClose) }

func testClose(t *testing.T, at func(t testing.TB) string) {
	s, err := store.Open(at(t))
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "run_a")
	ended := make(chan error, 1)
	go func() {
		for _, err := range s.Tail(context.Background(), "run_a", 0) {
			ended <- err
		}
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("Tail of a closed store ends with %v, want ErrClosed", err)
	}
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Append to a closed store = %v, want ErrClosed", err)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

// load is Load with what tests look at one by one.
func load(s *store.Store, run string) (facts []lattice.Entry, snapshot json.RawMessage, last lattice.Seq, err error) {
	h, err := s.Load(run)
	return h.Facts, h.State.Body, h.Last, err
}
