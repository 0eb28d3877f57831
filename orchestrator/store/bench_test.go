package store_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/lattice"
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
