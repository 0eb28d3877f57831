package store_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// BenchmarkAppend is one linear step (event, fact and a 2 KiB state) per op, for runs side by side. BenchmarkUpdate is
// the floor that it is judged by: one bare bbolt transaction of one record per op.
func BenchmarkAppend(b *testing.B) {
	body := fmt.Sprintf(`{"vars":"%02048d"}`, 0)
	for _, runs := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"))
			var ids []string
			for n := range runs {
				ids = append(ids, fmt.Sprint("run_", n))
			}
			create(b, s, ids...)
			b.ResetTimer()
			var group sync.WaitGroup
			for _, id := range ids {
				group.Go(func() {
					var last lattice.Seq
					for step := range (b.N + runs - 1) / runs {
						var err error
						last, err = s.Append(b.Context(), id, last, []lattice.Entry{
							event(id, fmt.Sprint(step)), fact(id, `{}`), state(id, body),
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
		})
	}
}

// BenchmarkGrowth is what a store of one long run, and one of many runs, takes for a step, for the newest 100 entries, and to begin a run.
func BenchmarkGrowth(b *testing.B) {
	const batch = 500
	for _, size := range []int{1_000, 10_000, 100_000} {
		s := open(b, filepath.Join(b.TempDir(), "store.db"))
		create(b, s, "run_0")
		var last lattice.Seq
		for n := 0; n < size; n += batch {
			entries := make([]lattice.Entry, batch)
			for i := range entries {
				entries[i] = event("run_0", fmt.Sprint(n+i))
			}
			var err error
			if last, err = s.Append(b.Context(), "run_0", last, entries); err != nil {
				b.Fatal(err)
			}
		}
		measure := func(what string, do func(n int) error) {
			n := 0 // goes on where the benchmark is run again
			b.Run(fmt.Sprintf("%s=%d", what, size), func(b *testing.B) {
				for b.Loop() {
					n++
					if err := do(n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		measure("step/events", func(n int) (err error) {
			last, err = s.Append(b.Context(), "run_0", last, []lattice.Entry{event("run_0", fmt.Sprint("step", n)), fact("run_0", `{}`)})
			return err
		})
		measure("newest/events", func(int) error { _, err := s.Entries("run_0", last-100, 100); return err })
		var group errgroup.Group
		group.SetLimit(500) // they share commits
		for n := range size {
			group.Go(func() error {
				return s.Create(b.Context(), store.RunRecord{ID: fmt.Sprint("run_1", n), Created: time.Now(), Secret: secret, Program: []byte(`{"execir_version":"1.0"}`)})
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		measure("begin/runs", func(n int) error { create(b, s, fmt.Sprint("run_2", n)); return nil })
		measure("recent/runs", func(int) error { _, err := s.Recent("", 100); return err })
	}
}

func BenchmarkUpdate(b *testing.B) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	record := make([]byte, 256)
	for n := 0; b.Loop(); n++ {
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			return bucket.Put(fmt.Appendf(nil, "%016d", n), record)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
