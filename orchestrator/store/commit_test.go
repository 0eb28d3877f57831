package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// A refusal that depends on an earlier request of the same commit follows that commit, so its caller can read the written data.
func TestRefusalFollowsTheCommit(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	exists := errors.New("it exists")
	bucket, key := []byte("test"), []byte("k")
	put := func(tx kv.Tx) error {
		b, err := tx.Create(bucket)
		if err != nil {
			return err
		}
		return b.Put(key, key)
	}
	nothing := func(kv.Tx) error { return nil }
	newRequest := func(check, write func(kv.Tx) error) *request {
		return &request{check: check, write: write, done: make(chan error, 1)}
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
	s.commits.commitGroup([]*request{first, second, third})
	if early {
		t.Error("the second request was refused before the first was committed")
	}
	for i, c := range []struct {
		q    *request
		want error
	}{{first, nil}, {second, exists}, {third, nil}} {
		if err := <-c.q.done; !errors.Is(err, c.want) {
			t.Errorf("request %d: %v, want %v", i+1, err, c.want)
		}
	}
}
