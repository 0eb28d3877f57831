package records

import (
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Records that do not fit together are found, also while the host serves.
func TestAuditFindsRecordsThatDoNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(tx *bolt.Tx) error
		want string
	}{
		"a record that is no JSON": {func(tx *bolt.Tx) error { return openTable(tx, bucketSprites).Put([]byte("s"), []byte(`{"id":`)) }, "sprite s cannot be read"},
		"a layer that is missing": {func(tx *bolt.Tx) error {
			rec, err := getSprite(tx, "s")
			if err != nil {
				return err
			}
			return tx.Bucket(bucketLayers).Delete([]byte(rec.Tree))
		}, "needs layer"},
		"checkpoints of no sprite": {func(tx *bolt.Tx) error { return tx.Bucket(bucketSprites).Delete([]byte("s")) }, "there are checkpoints of sprite-"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.TempDir(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.CreateSprite(Sprite{ID: "sprite-1", Name: "s", Tree: "1"}, Layer{ID: "1"}); err != nil {
				t.Fatal(err)
			}
			if err := db.update(tc.harm); err != nil {
				t.Fatal(err)
			}
			a, err := db.Audit()
			if err != nil || !strings.Contains(strings.Join(a.Problems, "\n"), tc.want) {
				t.Errorf("audit = %+v, %v; want %q", a, err, tc.want)
			}
		})
	}
}
