// Package lead tells a store from other stores and counts the processes that led it, for a scheduler outside of the store. Start
// with Count.
package lead

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

var keyIdentity, keyFormer = []byte("identity"), []byte("former")

// Lead is one process that leads a store.
type Lead struct {
	Store  string // the id that tells the store and its copies from other stores
	Former string // the id before RenewIdentity, "" if there is none
	Number uint64 // of the process; higher than those of the processes that led before
}

// Count counts one more process that leads a store.
func Count(ctx context.Context, s *store.Store) (l Lead, err error) {
	err = store.UpdateMeta(ctx, s, func(meta kv.Bucket) error {
		l.Store, l.Former = string(meta.Get(keyIdentity)), string(meta.Get(keyFormer))
		if l.Store == "" {
			l.Store = newIdentity()
			if err := meta.Put(keyIdentity, []byte(l.Store)); err != nil {
				return err
			}
		}
		l.Number, err = meta.NextSequence()
		return err
	})
	return l, err
}

// RenewIdentity gives a store another id, because it has gone back to an earlier state: others may know more of it than it does.
func RenewIdentity(ctx context.Context, s *store.Store) error {
	return store.UpdateMeta(ctx, s, func(meta kv.Bucket) error {
		id := append([]byte(nil), meta.Get(keyIdentity)...)
		if len(id) == 0 {
			return nil // no other knows it
		}
		if err := meta.Put(keyFormer, id); err != nil {
			return err
		}
		return meta.Put(keyIdentity, []byte(newIdentity()))
	})
}

func newIdentity() string { return strings.ToLower(rand.Text()) }
