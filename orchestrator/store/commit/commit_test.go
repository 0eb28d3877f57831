package commit

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// none is nothing that waits.
type none struct{}

func (none) Put(kv.Tx) (written func(), err error) { return func() {}, nil }
func (none) Drop()                                 {}

// A refusal that depends on an earlier request of the same commit follows that commit, so its caller can read the written data.
func TestRefusalFollowsTheCommit(t *testing.T) {
	path, nothing := filepath.Join(t.TempDir(), "store.db"), func(kv.Tx) error { return nil }
	if err := bolt.Create(path, nothing); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, bolt.Options{Prepare: func(kv.Session) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	c := New(db, none{})
	defer c.Close()
	exists := errors.New("it exists")
	bucket, key := []byte("test"), []byte("k")
	put := func(tx kv.Tx) error {
		b, err := tx.Create(bucket)
		if err != nil {
			return err
		}
		return b.Put(key, key)
	}
	newRequest := func(check, write func(kv.Tx) error) *Request {
		return &Request{Check: check, Write: write, done: make(chan error, 1)}
	}
	first := newRequest(nothing, put)
	second := newRequest(func(tx kv.Tx) error {
		if b := tx.Bucket(bucket); b != nil && b.Get(key) != nil {
			return exists
		}
		return nil
	}, put)
	early := false
	third := newRequest(func(kv.Tx) error { early = len(second.done) > 0; return nil }, nothing)
	c.commitGroup([]*Request{first, second, third})
	if early {
		t.Error("the second request was refused before the first was committed")
	}
	for i, c := range []struct {
		q    *Request
		want error
	}{{first, nil}, {second, exists}, {third, nil}} {
		if err := <-c.q.done; !errors.Is(err, c.want) {
			t.Errorf("request %d: %v, want %v", i+1, err, c.want)
		}
	}
}
