package records

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// filledFile makes a host.db with values of every kind, closed, and returns the directory.
func filledFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "other"} {
		err = errors.Join(err, s.CreateSprite(Sprite{ID: "sprite-" + name, Name: name, Tree: "of-" + name}, Layer{ID: "of-" + name, Driver: layer.CAS}))
	}
	_, _, pointErr := s.AddCheckpoint("s", Checkpoint{Comment: "first"}, Captured{Layer: Layer{ID: "frozen"}, Made: []Layer{{ID: "frozen", Driver: layer.CAS, Frozen: true}}}, func(string) bool { return false })
	_, serviceErr := s.ChangeServices("s", "sprite-s", func(all map[string]Service) error {
		all["web"] = Service{Name: "web"}
		return nil
	})
	_, _, urlErr := s.URLState()
	_, _, bootErr := s.RecountLayers("boot")
	if err := errors.Join(err, pointErr, serviceErr, urlErr, bootErr, s.SaveURLPort(8080), s.SetAddress("s", netip.MustParseAddr("127.0.0.9")), s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// editFile lets change edit a closed host.db.
func editFile(t *testing.T, path string, change func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// eachValue calls fn for all values of a file, with the bucket that holds them.
func eachValue(tx *bolt.Tx, fn func(b *bolt.Bucket, place string, k, v []byte) error) error {
	var walk func(b *bolt.Bucket, place string) error
	walk = func(b *bolt.Bucket, place string) error {
		var keys [][]byte
		err := b.ForEach(func(k, v []byte) error {
			if v == nil {
				return walk(b.Bucket(k), place+"/"+string(k))
			}
			keys = append(keys, bytes.Clone(k))
			return nil
		})
		for _, k := range keys {
			err = errors.Join(err, fn(b, place, k, bytes.Clone(b.Get(k))))
		}
		return err
	}
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(b, string(name)) })
}

// A bit that flipped in any value of host.db, or in its key, is found by an audit, and no reader takes the value for another.
func TestNoSilentHostDamage(t *testing.T) {
	dir := filledFile(t)
	path := filepath.Join(dir, "host.db")
	places := map[string]int{}
	var values [][]byte
	editFile(t, path, func(tx *bolt.Tx) error {
		return eachValue(tx, func(_ *bolt.Bucket, place string, k, v []byte) error {
			places[filepath.Dir(place+"/")]++
			values = append(values, append(k, v...)) // beside each other in the file
			return nil
		})
	})
	t.Logf("%d values: %v", len(values), places)
	if len(values) < 10 {
		t.Fatal("the host has too few values for this test")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	damaged := filepath.Join(scratch, "host.db")
	for _, v := range values {
		for i := range v {
			raw := bytes.Clone(whole)
			for from, at := 0, 0; ; from = at + 1 { // free pages may hold it as well
				n := bytes.Index(raw[from:], v)
				if n < 0 {
					break
				}
				at = from + n
				raw[at+i] ^= 1 << (i % 8)
			}
			if err := os.WriteFile(damaged, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if a, err := AuditDir(scratch); err == nil && len(a.Problems) == 0 {
				t.Errorf("nobody notices a bit that flipped at %d of %q", i, v)
			}
		}
	}
}

// A host.db of a version without checksums is read as it is, and gets them. A file that has them never passes for such a one.
func TestHostFileWithoutChecksums(t *testing.T) {
	dir := filledFile(t)
	path := filepath.Join(dir, "host.db")
	all := func() map[string]string {
		values := map[string]string{}
		editFile(t, path, func(tx *bolt.Tx) error {
			return eachValue(tx, func(_ *bolt.Bucket, place string, k, v []byte) error {
				if place+"/"+string(k) != "meta/sessions" { // counts the starts
					values[place+"/"+string(k)] = string(v)
				}
				return nil
			})
		})
		return values
	}
	want := all()
	editFile(t, path, func(tx *bolt.Tx) error {
		err := eachValue(tx, func(b *bolt.Bucket, _ string, k, v []byte) error { return b.Put(k, v[boltfile.SealSize:]) })
		return errors.Join(err, tx.Bucket(bucketMeta).Delete(keySealed))
	})
	if a, err := AuditDir(dir); err != nil || len(a.Problems) > 0 || a.Sprites != 2 {
		t.Errorf("audit of an older host.db: %+v, %v", a, err)
	}
	s, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if points, err := s.Checkpoint(mustSprite(t, s, "s").ID, "v1"); err != nil || points.Comment != "first" {
		t.Errorf("a checkpoint of an older host.db: %+v, %v", points, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, all()); diff != "" {
		t.Errorf("after it was opened (-want +got):\n%s", diff)
	}
	editFile(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keySealed) })
	if _, err := Open(dir, time.Now()); !errors.Is(err, ErrDamaged) {
		t.Errorf("open without the mark = %v, want ErrDamaged", err)
	}
	if a, err := AuditDir(dir); err != nil || len(a.Problems) == 0 {
		t.Errorf("audit without the mark: %+v, %v", a, err)
	}
}

func mustSprite(t *testing.T, s *Store, name string) Sprite {
	t.Helper()
	rec, err := s.Sprite(name)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A damaged value that can be made again costs no sprite: the host opens, and the file is sound again.
func TestValuesThatAreMadeAgain(t *testing.T) {
	for _, value := range []struct{ bucket, key string }{{"meta", "boot"}, {"meta", "sessions"}, {"urls", "port"}, {"urls", "key"}, {"urls", addressKey + "s"}} {
		t.Run(value.key, func(t *testing.T) {
			dir := filledFile(t)
			editFile(t, filepath.Join(dir, "host.db"), func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(value.bucket))
				damaged := bytes.Clone(b.Get([]byte(value.key)))
				damaged[len(damaged)-1] ^= 1
				return b.Put([]byte(value.key), damaged)
			})
			if a, err := AuditDir(dir); err != nil || len(a.Problems) != 1 {
				t.Errorf("audit of the damaged file: %+v, %v", a, err)
			}
			s, err := Open(dir, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			_, sprites, err := s.RecountLayers("boot")
			_, key, urlErr := s.URLState()
			_, addressErr := s.Addresses()
			if err := errors.Join(err, urlErr, addressErr, s.SaveURLPort(8080)); err != nil || len(sprites) != 2 || len(key) != urlKeySize {
				t.Errorf("%d sprites, a key of %d bytes: %v", len(sprites), len(key), err)
			}
			if a, err := s.Audit(); err != nil || len(a.Problems) > 0 {
				t.Errorf("audit afterwards: %+v, %v", a, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
